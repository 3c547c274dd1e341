#include "validate.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"
#include "errors.h"
#include "fixture.h"
#include "torchrl_pool/half.h"

namespace torchrl_pool::core {
namespace {

using test::KindsConfig;
using test::Tensors;

constexpr std::uint32_t kRows = 3;

// Three rows of valid actions for "Kinds-v0", to spoil one at a time.
class Actions {
 public:
  explicit Actions(bool one_hot = false, const test::Options& options = {}, bool strict = true)
      : config(KindsConfig(options)),
        layout(*config, {.info_keys = {}, .one_hot = one_hot, .strict_actions = strict}),
        tensors(layout.actions, kRows, 8),
        batch_(test::MakeBatch(layout.actions.size())) {
    tensors.BindTo(batch_);
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < layout.actions.size(); ++i) {
        std::memset(const_cast<std::byte*>(tensors.Row(i, row)), 0, layout.actions[i].row_bytes);
      }
      tensors.Set<std::uint8_t>("uint8", row, 0, 1);  // 0 is out of its bounds
      if (!one_hot) continue;
      for (const std::size_t hot : {0, 2}) tensors.Set<std::int64_t>("flags", row, hot, 1);
      tensors.Set<std::int64_t>("choice", row, 0, 1);
    }
  }

  void Check(std::uint32_t first = 0, std::uint32_t count = kRows) const {
    std::vector<std::uint32_t> envs;
    for (std::uint32_t env = first; env < first + count; ++env) envs.push_back(env);
    CheckActions(layout, *config, batch_, envs);
  }

  template <class T>
  void Accepts(const std::string& name, std::size_t element, T value) {
    const T before = tensors.Get<T>(name, 1, element);
    tensors.Set<T>(name, 1, element, value);
    Check();
    tensors.Set<T>(name, 1, element, before);
  }
  template <class T>
  void Refuses(const std::string& name, std::size_t element, T value, const std::string& message = "") {
    const T before = tensors.Get<T>(name, 1, element);
    tensors.Set<T>(name, 1, element, value);
    CHECK_THROWS(StatusError, "'" + name + "' of env 1", Check());
    CHECK_THROWS(StatusError, message, Check());
    Check(0, 1);  // the other rows are fine
    Check(2, 1);
    CHECK_THROWS(StatusError, message, Check(1, 1));
    tensors.Set<T>(name, 1, element, before);
    Check();
  }

  template <class T>
  void Bounds(const std::string& name, T low, T high) {
    for (const T value : {low, high}) Accepts(name, 0, value);
    if constexpr (std::is_integral_v<T>) {
      Refuses<T>(name, 0, static_cast<T>(low - 1), "expected a number in [");
      Refuses<T>(name, 0, static_cast<T>(high + 1), "expected a number in [");
      Refuses<T>(name, 0, std::numeric_limits<T>::max());
    }
  }

  std::shared_ptr<const Config> config;
  Layout layout;
  Tensors tensors;

 private:
  Batch batch_;
};

TEST(NamesTheEnvWhoseRowsFollowEachOther) {
  Actions actions;
  Batch batch = test::MakeBatch(actions.layout.actions.size());
  actions.tensors.BindTo(batch);
  actions.tensors.Set<std::int8_t>("int8", 1, 0, 4);
  const std::vector<std::uint32_t> env = {0};
  CheckActions(actions.layout, *actions.config, batch, env);
  CHECK_THROWS(StatusError, "'int8' of env 0", CheckActions(actions.layout, *actions.config, batch, env, 3));
}

TEST(AcceptsValidActions) {
  Actions().Check();
  Actions(true).Check();
}

TEST(ChecksIntegersOfEveryWidth) {
  Actions actions;
  actions.Bounds<std::uint8_t>("uint8", 1, 200);
  actions.Bounds<std::int8_t>("int8", -3, 3);
  actions.Bounds<std::int16_t>("int16", -300, 300);
  actions.Bounds<std::int32_t>("int32", -70'000, 70'000);
  actions.Bounds<std::int64_t>("int64", -5'000'000'000, 5'000'000'000);
}

TEST(ChecksUnsignedIntegersOfEveryWidth) {
  Actions actions;
  for (const auto& [name, value] : {std::pair("uint16", 60'001), std::pair("uint16", 65'535)}) {
    actions.Refuses<std::uint16_t>(name, 0, static_cast<std::uint16_t>(value), "a number in [0, 60000]");
  }
  actions.Accepts<std::uint16_t>("uint16", 0, 60'000);
  actions.Accepts<std::uint32_t>("uint32", 0, 4'000'000'000);
  actions.Refuses<std::uint32_t>("uint32", 0, 4'000'000'001, "got 4000000001");
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;
  actions.Accepts<std::uint64_t>("uint64", 0, kHigh);
  actions.Refuses<std::uint64_t>("uint64", 0, kHigh + 1, "got 9223372036854775809");
  Actions loose(false, {}, false);
  loose.Accepts<std::uint64_t>("uint64", 0, std::numeric_limits<std::uint64_t>::max());
}

TEST(ChecksFloat16) {
  Actions actions;
  for (const double value : {0.4, -0.4, 0.0, -0.0}) actions.Accepts("float16", 0, Half(value));
  actions.Refuses("float16", 0, Half(0.4003), "got 0.40039062");
  Actions loose(false, {}, false);
  for (const double value : {65504.0, -65504.0, 0.4003}) loose.Accepts("float16", 0, Half(value));
  for (const double bad : {65520.0, -HUGE_VAL, std::nan("")}) {
    loose.Refuses("float16", 0, Half(bad), "expected a finite number, got");
  }
}

TEST(EveryFloat16IsTheNearestOfItself) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    Half half;
    std::memcpy(static_cast<void*>(&half), &bits, sizeof half);
    const Half again{static_cast<double>(static_cast<float>(half))};
    if (half == half) CHECK(std::memcmp(&half, &again, sizeof half) == 0);
  }
}

TEST(Float16IsRoundedToTheNearest) {
  // Half a unit goes to the even neighbour, a little more to the nearer one; doubles are not rounded twice.
  CHECK_EQ(Half(1 + 0x1p-11), 1.0f);
  CHECK_EQ(Half(1 + 0x3p-11), 1 + 0x1p-9f);
  CHECK_EQ(Half(1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10f);
  CHECK_EQ(Half(0x1p-25), 0.0f);
  CHECK_EQ(Half(0x1p-25 + 0x1p-60), 0x1p-24f);
  CHECK_EQ(Half(0x1p-14 - 0x1p-26), 0x1p-14f);  // out of the subnormals
  CHECK_EQ(Half(65519.999), 65504.0f);
  CHECK_EQ(Half(65520), INFINITY);
}

TEST(ComparesInt64Exactly) {
  // Doubles do not tell 2^53 + 1 from 2^53.
  constexpr std::int64_t kHigh = std::int64_t{1} << 53;
  Actions actions;
  actions.Bounds<std::int64_t>("wide64", -kHigh, kHigh);
  actions.Refuses<std::int64_t>("wide64", 0, kHigh + 1, "got 9007199254740993");
}

TEST(ChecksFloats) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Actions actions;
  for (const double bad : {kNan, kInf, -kInf, 0.5, -1.5, 1e300}) {
    actions.Refuses<double>("float64", 0, bad);
    actions.Refuses<double>("float64", 1, bad, "element 1");
    actions.Refuses<float>("float32", 0, static_cast<float>(std::min(bad, 1e30)));
  }
  actions.Accepts<double>("float64", 1, -0.0);
  actions.Refuses<float>("float32", 1, -0.5f, "element 1: expected a number in [-0.1, 0.2], got -0.5");
}

TEST(AcceptsTheFloat32NearestToABound) {
  // Some are larger than the double, some smaller.
  for (const double high : {0.1, 0.2, 0.3, 0.4, 0.7, 1.1, 1e-3, 3.3e7 + 0.3}) {
    Actions actions(false, {{"high", high}});
    const auto nearest = static_cast<float>(high);
    actions.Accepts<float>("float32", 0, nearest);
    actions.Refuses<float>("float32", 0, std::nextafter(nearest, INFINITY));
    actions.Accepts<double>("float64", 0, high);
    actions.Refuses<double>("float64", 0, std::nextafter(high, INFINITY));
  }
}

TEST(MessagesTellAValueFromItsBound) {
  Actions actions(false, {{"high", 1.0}});
  try {
    actions.tensors.Set<double>("float64", 1, 0, std::nextafter(1.0, 2.0));
    actions.Check();
    CHECK(false);
  } catch (const StatusError& e) {
    CHECK(std::string(e.what()).find("got 1.0000000000000002") != std::string::npos);
  }
}

TEST(RefusesInfinitiesAndNanWithoutBoundsToo) {
  Actions actions;
  actions.Accepts<float>("unbounded32", 0, std::numeric_limits<float>::max());
  actions.Accepts<float>("unbounded32", 0, std::numeric_limits<float>::lowest());
  actions.Accepts<double>("unbounded64", 0, std::numeric_limits<double>::max());
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    actions.Refuses<float>("unbounded32", 0, bad, "expected a finite number, got");
    actions.Refuses<double>("unbounded64", 0, bad, "expected a finite number, got");
  }
}

TEST(TakesFiniteNumbersOutsideOfTheirBoundsUnlessStrict) {
  Actions actions(false, {}, false);
  const auto takes = [&]<class T>(const std::string& name, T) {
    for (const T far : {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()}) {
      actions.Accepts<T>(name, 0, far);
    }
  };
  takes("uint8", std::uint8_t{});
  takes("int8", std::int8_t{});
  takes("int16", std::int16_t{});
  takes("int32", std::int32_t{});
  takes("int64", std::int64_t{});
  takes("float32", float{});
  takes("float64", double{});
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    actions.Refuses<float>("float32", 1, bad, "element 1: expected a finite number, got");
    actions.Refuses<double>("float64", 0, bad, "expected a finite number, got");
  }
}

TEST(ChoicesThatAreNoneAreRefusedStrictOrNot) {
  Actions actions(false, {}, false), one_hot(true, {}, false);
  actions.Refuses<std::uint8_t>("bool", 0, 2);
  for (const std::int64_t bad : {-1, 3}) actions.Refuses("choice", 0, bad, "expected one of 0 to 2");
  one_hot.Refuses<std::int64_t>("choice", 0, 0, "expected a one-hot vector of 3 entries, got [0, 0, 0]");
}

TEST(ABoundOfInfinityRefusesInfinities) {
  Actions actions(false, {{"high", std::numeric_limits<double>::infinity()}});
  actions.Accepts<double>("float64", 0, 1e300);
  actions.Refuses<double>("float64", 0, INFINITY);
  actions.Refuses<float>("float32", 0, INFINITY);
}

TEST(ChecksBools) {
  Actions actions;
  actions.Accepts<std::uint8_t>("bool", 0, 1);
  actions.Refuses<std::uint8_t>("bool", 0, 2);  // reading it as a bool would be undefined
}

TEST(ChecksCategories) {
  Actions actions;
  for (const std::int64_t good : {0, 1, 2}) actions.Accepts("choice", 0, good);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{3}, INT64_MIN, INT64_MAX}) {
    actions.Refuses("choice", 0, bad, "expected one of 0 to 2, got " + std::to_string(bad));
    actions.Refuses("flags", 1, bad, "element 1: expected one of 0 to 1, got " + std::to_string(bad));
  }
}

TEST(ChecksOneHotRows) {
  Actions actions(true);
  // flags: 1 0 | 1 0
  actions.Refuses<std::int64_t>("flags", 0, 0,
                                "element 0: expected a one-hot vector of 2 entries, got [0, 0]");
  actions.Refuses<std::int64_t>("flags", 3, 2,
                                "element 1: expected a one-hot vector of 2 entries, got [1, 2]");
  // choice: 1 0 0
  actions.Refuses<std::int64_t>("choice", 0, 0, "expected a one-hot vector of 3 entries, got [0, 0, 0]");
  actions.Refuses<std::int64_t>("choice", 2, -1, "got [1, 0, -1]");
  // Of equals the first one counts.
  actions.Accepts<std::int64_t>("flags", 3, 1);
  actions.Accepts<std::int64_t>("choice", 2, 1);
  for (const std::int64_t bad : {std::int64_t{2}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    actions.Refuses("choice", 0, bad);
    actions.Refuses("choice", 1, bad);
  }
  for (std::size_t hot : {1, 2}) {
    for (std::size_t i = 0; i < 3; ++i) actions.tensors.Set<std::int64_t>("choice", 1, i, i == hot);
    actions.Check();
  }
}

TEST(LooksAtTheGivenEnvsOnly) {
  Actions actions;
  actions.tensors.Set<std::int64_t>("choice", 0, 0, 9);
  actions.Check(1, 2);
  actions.Check(0, 0);
  CHECK_THROWS(StatusError, "of env 0", actions.Check(0, 1));
}

TEST(UsesTheBoundsOfTheConfigurationAtHand) {
  Actions actions(false, {{"high", 10.0}});
  actions.tensors.Set<double>("float64", 1, 0, 5.0);
  actions.Check();
  actions.config = KindsConfig();
  CHECK_THROWS(StatusError, "got 5", actions.Check());
}

}  // namespace
}  // namespace torchrl_pool::core
