// Which states are streams. That streams are NumPy's, draw by draw, is tested in tests/parity/test_rng.py.
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
