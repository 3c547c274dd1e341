// Simulators that do not come back until a test lets them.
#ifndef TORCHRL_POOL_TESTS_HELD_UP_H_
#define TORCHRL_POOL_TESTS_HELD_UP_H_

#include <thread>

#include "check.h"
#include "client.h"
#include "concurrency.h"
#include "fixture.h"

namespace torchrl_pool::test {

// While it lives, envs with the option "gate" wait in steps and resets on all threads but this one.
class ClosedGate {
 public:
  ClosedGate() {
    CHECK(Eventually([] { return !HoldsAThread(); }));  // one that another test has left behind
    TheProbe().exempt.store(std::this_thread::get_id());
    TheProbe().gate_closed.store(true);
  }
  ~ClosedGate() { Open(); }
  ClosedGate(const ClosedGate&) = delete;
  ClosedGate& operator=(const ClosedGate&) = delete;

  void Open() { TheProbe().gate_closed.store(false); }

  // An interrupt check that waits for a thread to be held up.
  static bool HoldsAThread() { return TheProbe().at_gate.load() > 0; }
};

// A step of `client` in another thread, held up as long as this lives.
class HeldUpStep {
 public:
  HeldUpStep(Client& client, Threads& threads) {
    threads.Start([&client] { client.Step(SomeActions(client.size(), 0)); });
    CHECK(Eventually(ClosedGate::HoldsAThread));
  }
  void Release() { gate_.Open(); }

 private:
  ClosedGate gate_;
};

}  // namespace torchrl_pool::test

#endif  // TORCHRL_POOL_TESTS_HELD_UP_H_
