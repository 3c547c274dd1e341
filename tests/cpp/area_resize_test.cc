// The plain and the vectorised loops of AreaResize give the same bits. That they are OpenCV's, and what the
// sizes mean, is tested in tests/parity/test_atari.py.
#include "../../cpp/envs/atari/area_resize.h"

#include <cstdint>
#include <random>
#include <vector>

#include "check.h"

namespace {

using torchrl_pool::atari::AreaResize;

std::vector<std::uint8_t> Noise(std::size_t size) {
  std::mt19937 rng(7);
  std::vector<std::uint8_t> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  return bytes;
}

std::size_t Bytes(AreaResize::Size size, int channels) {
  return static_cast<std::size_t>(size.height * size.width * channels);
}

TEST(SimdGivesTheSameBits) {
  for (const int channels : {1, 3}) {
    for (const AreaResize::Size from : {AreaResize::Size{210, 160}, {250, 160}}) {
      const auto source = Noise(Bytes(from, channels) + AreaResize::kPadding);
      const std::vector<std::uint8_t> changed(static_cast<std::size_t>(from.height), 1);
      for (const AreaResize::Size to : {AreaResize::Size{84, 84},
                                        {64, 96},
                                        {50, 50},
                                        {209, 159},
                                        {105, 160},
                                        {1, 1},
                                        {37, 101},
                                        {105, 80},
                                        {84, 2},
                                        {210, 160}}) {
        std::vector<std::uint8_t> plain(Bytes(to, channels)), simd(plain.size());
        AreaResize(from, to, channels, false)(source.data(), changed.data(), plain.data());
        AreaResize(from, to, channels, true)(source.data(), changed.data(), simd.data());
        CHECK(plain == simd);
      }
    }
  }
}

TEST(RowsThatDependOnNothingThatChangedStay) {
  const AreaResize::Size from{210, 160}, to{84, 84};
  const auto source = Noise(Bytes(from, 1) + AreaResize::kPadding);
  const AreaResize resize(from, to, 1);
  std::vector<std::uint8_t> all(Bytes(to, 1));
  resize(source.data(), std::vector<std::uint8_t>(210, 1).data(), all.data());
  // 2.5 rows make one: row 6 lies in row 2 of the result, and row 7 in both row 2 and row 3.
  std::vector<std::uint8_t> changed(210), some(all.size(), 0xab);
  changed[6] = 1;
  changed[7] = 1;
  resize(source.data(), changed.data(), some.data());
  for (std::size_t y = 0; y < 84; ++y) {
    for (std::size_t x = 0; x < 84; ++x) {
      const std::size_t i = y * 84 + x;
      CHECK(some[i] == (y == 2 || y == 3 ? all[i] : 0xab));
    }
  }
}

}  // namespace
