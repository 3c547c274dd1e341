// Values that NumPy 2.4 gives; the Python tests compare whole streams with the NumPy that is installed.
#include "torchrl_pool/rng.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "check.h"

namespace torchrl_pool {
namespace {

using Words = std::vector<std::uint32_t>;

Rng MakeRng(const Words& words) { return Rng(Entropy{words.data(), words.size()}); }

Words State(const Words& words, std::size_t count) {
  Words state(count);
  SeedSequence(Entropy{words.data(), words.size()}).Generate(state.data(), count);
  return state;
}

TEST(SeedSequenceGeneratesNumPysState) {
  CHECK_EQ(State({12345}, 6),
           (Words{2688385916u, 3048105090u, 4196366895u, 3152189807u, 924159892u, 1692637855u}));
  // More words than SeedSequence's pool has.
  CHECK_EQ(State({1, 2, 3, 4, 5, 6}, 6),
           (Words{488360481u, 3956080669u, 2986500235u, 3488252836u, 3841783222u, 2602687873u}));
}

TEST(RawDraws) {
  const auto draws = [](const Words& words) {
    Rng rng = MakeRng(words);
    return std::vector<std::uint64_t>{rng.NextUint64(), rng.NextUint64(), rng.NextUint64()};
  };
  using Draws = std::vector<std::uint64_t>;
  CHECK_EQ(draws({0}), (Draws{11749869230777074271u, 4976686463289251617u, 755828109848996024u}));
  CHECK_EQ(draws({42}), (Draws{14276969152011380360u, 8095878257575067585u, 15838336090824644132u}));
  // default_rng(2**32 + 7)
  CHECK_EQ(draws({7, 1}), (Draws{14206593023844375757u, 2064693230803885548u, 3488237491050697490u}));
  CHECK_EQ(draws({1, 2, 3, 4, 5, 6}),
           (Draws{11470276255390519954u, 2202564630955117089u, 15477703713457848045u}));
}

TEST(DefaultIsSeedZero) {
  Rng rng;
  CHECK_EQ(rng.NextUint64(), 11749869230777074271u);
}

TEST(RandomAndUniform) {
  Rng rng = MakeRng({42});
  for (const double expected : {0x1.8c43f79a2db24p-1, 0x1.c16959869e47ep-2, 0x1.b79a2584ddb42p-1}) {
    CHECK_EQ(rng.Random(), expected);
  }
  rng = MakeRng({42});
  for (const double expected : {0x1.c0d97eba2bd40p-6, -0x1.9090f63c0b010p-8, 0x1.25c36f3afc536p-5}) {
    CHECK_EQ(rng.Uniform(-0.05, 0.05), expected);
  }
}

TEST(HalvesOf32Bits) {
  // default_rng(5).integers(0, 2**32, size=5, dtype=uint32)
  Rng rng = MakeRng({5});
  for (const std::uint32_t expected : {2881021352u, 3457461230u, 97294837u, 3470079269u, 2013703616u}) {
    CHECK_EQ(rng.NextUint32(), expected);
  }
}

TEST(TheHighHalfOutlastsA64BitDraw) {
  Rng rng = MakeRng({42}), twin = MakeRng({42});
  const std::uint64_t first = twin.NextUint64(), second = twin.NextUint64();
  CHECK_EQ(rng.NextUint32(), static_cast<std::uint32_t>(first));
  CHECK_EQ(rng.NextUint64(), second);
  CHECK_EQ(rng.NextUint32(), static_cast<std::uint32_t>(first >> 32));
}

TEST(SmallIntegers) {
  Rng rng = MakeRng({7});
  for (const int expected : {9, 6, 6, 8, 5, 7}) CHECK_EQ(rng.Integers(0, 10), expected);
  rng = MakeRng({9});
  for (const int expected : {2, 4, 4, 1, 0}) CHECK_EQ(rng.Choice(5), expected);
}

TEST(IntegersOfAllRangesInOneStream) {
  constexpr std::int64_t kBit32 = std::int64_t{1} << 32;
  Rng rng = MakeRng({7});
  CHECK_EQ(rng.Integers(-5, 6), 5);
  CHECK_EQ(rng.Random(), 0x1.cb5f9b795e4cdp-1);
  CHECK_EQ(rng.Integers(0, 1), 0);  // draws nothing
  CHECK_EQ(rng.Integers(0, kBit32 / 2), 1342382292);
  CHECK_EQ(rng.Integers(0, kBit32), 2483747170);
  CHECK_EQ(rng.Integers(0, kBit32 - 1), 3331544670);
  CHECK_EQ(rng.Integers(0, kBit32), 3580503874);
  CHECK_EQ(rng.Integers(INT64_MIN, INT64_MAX), -3686281399541214908);
  CHECK_EQ(rng.Integers(0, std::int64_t{3} << 40), 2881446512090);
}

TEST(IntegersThatRejectHalfOfAllDraws) {
  Rng rng = MakeRng({3});
  for (const std::int64_t expected :
       {1742692732, 183930185, 385346042, 508546690, 1866662802, 713397379, 930133021, 1334076657}) {
    CHECK_EQ(rng.Integers(0, (std::int64_t{1} << 31) + 1), expected);
  }
  rng = MakeRng({3});
  for (const std::int64_t expected : {651137615030404517, 1104998578845871980, 5081458767915139891,
                                      786329497436903519, 2706332364185237243, 3574565213031837689}) {
    CHECK_EQ(rng.Integers(0, (std::int64_t{3} << 61) + 1), expected);
  }
}

// A LegacyRng with these words, of which the rest are zeros.
LegacyRng Twister(const Words& words, double kept = 0) {
  struct {
    std::uint32_t words[624], next, has_normal;
    double normal;
  } bytes{{}, 624, 1, kept};
  std::copy(words.begin(), words.end(), bytes.words);
  return std::bit_cast<LegacyRng>(bytes);
}

TEST(AStreamThatStandsStillIsNone) {
  CHECK(LegacyRng().IsValid());
  CHECK(!Twister({}).IsValid());
  CHECK(!Twister({0x7fffffff}).IsValid());  // bits that are never read
  for (const Words& words : {Words{0x80000000u}, Words{0, 1}}) {
    LegacyRng rng = Twister(words);
    CHECK(rng.IsValid());
    for (int i = 0; i < 1000; ++i) rng.StandardNormal();
  }
  for (const double kept : std::initializer_list<double>{NAN, INFINITY, 1e300, -13.0})
    CHECK(!Twister({0, 1}, kept).IsValid());
}

}  // namespace
}  // namespace torchrl_pool
