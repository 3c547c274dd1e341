// A task whose rows take more memory than there is.
#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Huge {
 public:
  struct Options {
    template <class Visitor>
    void Visit(Visitor&) {}
  };

  static pool::Specs MakeSpecs(const Options&) {
    return {pool::Observation("observation", pool::Box<std::uint8_t>({300 << 20}), "300 MiB"),
            pool::Action("action", pool::Discrete(2), "none")};
  }

  explicit Huge(const Options&) {}
  void Seed(pool::Entropy) {}
  void Reset(pool::Row&) {}
  pool::Outcome Step(pool::Row&) { return {}; }
};

}  // namespace

const bool registered = pool::Register<Huge>({.id = "Huge-v0"});
TORCHRL_POOL_PLUGIN("huge", "1")
