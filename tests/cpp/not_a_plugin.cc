// A shared library like any other.
extern "C" __attribute__((visibility("default"))) int torchrl_pool_test_answer() { return 42; }
