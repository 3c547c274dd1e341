// An env that begins where its reset is told to, with a choice of its own for every kind of default.
#include <algorithm>
#include <optional>
#include <string>

#include "torchrl_pool/env.h"

namespace pool = torchrl_pool;

namespace {

class Starts {
 public:
  struct Options {
    double home = 1.5;
    std::string seen = "observation";
    std::uint8_t lanes = 2;
    pool::FloatListMap marks;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("home", home, "where an episode begins unless its reset says otherwise");
      visit("seen", seen, "the name of what is seen");
      visit("lanes", lanes, "number of lanes");
      visit("marks", marks, "beside the road", {.minimum = 0});
    }
  };
  struct ResetOptions {
    double start;
    std::optional<std::int64_t> lap = 7;
    std::string side = "left";

    explicit ResetOptions(const Options& options) : start(options.home) {}
    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("start", start, "where the episode begins", {.minimum = -10, .maximum = 10});
      visit("lap", lap, "number of the lap; None: not counted");
      visit("side", side, "of the road", {.choices = {"left", "right"}});
    }
    void Open() const {
      if (side == "right" && start < 0) throw pool::InvalidArgument("there is no road on the right below 0");
    }
  };

  static pool::Specs MakeSpecs(const Options& options) {
    return {pool::Observation(options.seen, pool::Box<double>({3})),
            pool::Action("action", pool::Discrete(2))};
  }

  explicit Starts(const Options&) {}
  void Seed(pool::Entropy) {}

  void Reset(pool::Row& row, const ResetOptions& options) {
    if (options.lap == 13) throw std::runtime_error("nobody starts into lap 13");
    double* out = row.Out<double>();
    out[0] = options.start;
    out[1] = static_cast<double>(options.lap.value_or(-1));
    out[2] = options.side == "left" ? 0 : 1;
  }
  pool::Outcome Step(pool::Row& row) {
    std::fill_n(row.Out<double>(), 3, 0.0);
    return {.reward = 1, .terminated = true};
  }
};

const bool registered = pool::Register<Starts>({.id = "Starts-v0"});

}  // namespace

TORCHRL_POOL_PLUGIN("starts", "1.0")
