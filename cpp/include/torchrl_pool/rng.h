// NumPy's random streams, bit for bit, so that an env's resets draw what its Python twin draws.
//
// Rng(entropy) equals numpy.random.Generator(PCG64(SeedSequence(seed))), where entropy holds the
// seed's 32-bit words, and LegacyRng(entropy) numpy.random.RandomState(seed). Sources: NumPy's
// bit_generator.pyx (SeedSequence), pcg64.h (PCG-XSL-RR-128/64, O'Neill 2014), mt19937.c (Matsumoto and
// Nishimura 1998), distributions.c and legacy-distributions.c (the draws).
//
// Build with -ffp-contract=off: a fused multiply-add would change the last bit of Uniform.
#ifndef TORCHRL_POOL_RNG_H_
#define TORCHRL_POOL_RNG_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

// numpy/random/bitgen.h, whose layout is part of NumPy's public C API.
struct torchrl_pool_bitgen {
  void* state;
  std::uint64_t (*next_uint64)(void*);
  std::uint32_t (*next_uint32)(void*);
  double (*next_double)(void*);
  std::uint64_t (*next_raw)(void*);
};

// From numpy/random/lib/libnpyrandom.a. Only envs that draw normals have to link it.
extern "C" double random_standard_normal(torchrl_pool_bitgen* bitgen);

#pragma GCC visibility push(hidden)
namespace torchrl_pool {

// A seed as numpy.random.SeedSequence takes it: 32-bit words, least significant first.
struct Entropy {
  const std::uint32_t* words;
  std::size_t count;
};

// numpy.random.SeedSequence(entropy), without spawn keys.
class SeedSequence {
 public:
  explicit SeedSequence(Entropy entropy) {
    std::uint32_t hash = 0x43b0d7e5u;
    const auto hash_mix = [&hash](std::uint32_t value) {
      value ^= hash;
      hash *= 0x931e8875u;
      value *= hash;
      return value ^ (value >> 16);
    };
    const auto mix = [](std::uint32_t x, std::uint32_t y) {
      const std::uint32_t value = 0xca01f9ddu * x - 0x4973f715u * y;
      return value ^ (value >> 16);
    };
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      pool_[i] = hash_mix(i < entropy.count ? entropy.words[i] : 0);
    }
    for (std::size_t source = 0; source < pool_.size(); ++source) {
      for (std::size_t target = 0; target < pool_.size(); ++target) {
        if (source != target) pool_[target] = mix(pool_[target], hash_mix(pool_[source]));
      }
    }
    for (std::size_t source = pool_.size(); source < entropy.count; ++source) {
      for (auto& word : pool_) word = mix(word, hash_mix(entropy.words[source]));
    }
  }

  // generate_state(count) of dtype uint32.
  void Generate(std::uint32_t* out, std::size_t count) const {
    std::uint32_t hash = 0x8b51f9ddu;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t value = pool_[i % pool_.size()] ^ hash;
      hash *= 0x58f38dedu;
      value *= hash;
      out[i] = value ^ (value >> 16);
    }
  }

 private:
  std::array<std::uint32_t, 4> pool_;
};

namespace internal {

// A uniform draw of a stream's from 0 … last: words without the bits that are too high, until one fits.
template <class Stream>
std::uint32_t Masked(Stream& stream, std::uint32_t last) {
  if (last == 0) return 0;
  const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(last);
  std::uint32_t value;
  do {
    value = stream.NextUint32() & mask;
  } while (value > last);
  return value;
}

}  // namespace internal

// numpy.random.Generator(PCG64(seed)): same draws, same order, same bits.
class Rng {
 public:
  Rng() : Rng(Entropy{&kZero, 1}) {}

  explicit Rng(Entropy entropy) {
    std::uint32_t words[8];
    SeedSequence(entropy).Generate(words, 8);
    const auto word64 = [&words](int i) {
      return static_cast<std::uint64_t>(words[2 * i + 1]) << 32 | words[2 * i];
    };
    const auto word128 = [&word64](int i) { return static_cast<uint128>(word64(i)) << 64 | word64(i + 1); };
    increment_ = word128(2) << 1 | 1;
    state_ = 0;
    Advance();
    state_ += word128(0);
    Advance();
  }

  std::uint64_t NextUint64() {
    Advance();
    const auto high = static_cast<std::uint64_t>(state_ >> 64);
    const std::uint64_t folded = high ^ static_cast<std::uint64_t>(state_);
    const unsigned rotation = static_cast<unsigned>(high >> 58);
    return folded >> rotation | folded << (-rotation & 63);
  }

  // The low half first; the high half waits for the next 32-bit draw, whatever comes between.
  std::uint32_t NextUint32() {
    if (has_half_ == 1) {
      has_half_ = 0;
      return static_cast<std::uint32_t>(half_);
    }
    const std::uint64_t word = NextUint64();
    has_half_ = 1;
    half_ = word >> 32;
    return static_cast<std::uint32_t>(word);
  }

  // Generator.random(): a double in [0, 1).
  double Random() { return static_cast<double>(NextUint64() >> 11) * (1.0 / 9007199254740992.0); }

  // Generator.uniform(low, high).
  double Uniform(double low, double high) { return low + (high - low) * Random(); }

  // Generator.integers(low, high) with an exclusive end: Lemire's method, a range of one draws nothing.
  // Ranges of 2^32 - 1 and of 2^64 values take NumPy's special cases.
  std::int64_t Integers(std::int64_t low, std::int64_t high) {
    const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) - 1;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + Bounded(range));
  }

  // The index that Generator.choice(sequence) picks.
  std::int64_t Choice(std::int64_t size) { return Integers(0, size); }

  // Generator.shuffle(list), whose permutation(n) shuffles what counts up to n. Not by Integers: what exceeds
  // the range of a draw's bits is drawn again.
  template <class Iterator>
  void Shuffle(Iterator begin, Iterator end) {
    for (auto last = end - begin - 1; last > 0; --last) {
      std::iter_swap(begin + last, begin + internal::Masked(*this, static_cast<std::uint32_t>(last)));
    }
  }

  // Generator.standard_normal(), through NumPy's own ziggurat.
  double StandardNormal() {
    torchrl_pool_bitgen bitgen{
        this,
        [](void* self) { return static_cast<Rng*>(self)->NextUint64(); },
        [](void* self) { return static_cast<Rng*>(self)->NextUint32(); },
        [](void* self) { return static_cast<Rng*>(self)->Random(); },
        [](void* self) { return static_cast<Rng*>(self)->NextUint64(); },
    };
    return random_standard_normal(&bitgen);
  }

  // Generator.normal(mean, deviation).
  double Normal(double mean, double deviation) { return mean + deviation * StandardNormal(); }

  // Whether seeding and drawing can lead here: the increment is odd, else the stream could stand still.
  bool IsValid() const { return increment_ % 2 == 1 && half_ >> 32 == 0 && has_half_ <= 1; }

 private:
  __extension__ typedef unsigned __int128 uint128;
  static constexpr std::uint32_t kZero = 0;

  void Advance() {
    constexpr uint128 kMultiplier =
        static_cast<uint128>(2549297995355413924ULL) << 64 | 4865540595714422341ULL;
    state_ = state_ * kMultiplier + increment_;
  }

  // A uniform draw from 0 … range, both included.
  std::uint64_t Bounded(std::uint64_t range) {
    if (range == 0) return 0;
    if (range == 0xffffffffu) return NextUint32();
    if (range == ~std::uint64_t{0}) return NextUint64();
    if (range < 0xffffffffu) {
      const auto size = static_cast<std::uint32_t>(range) + 1;
      std::uint64_t product = static_cast<std::uint64_t>(NextUint32()) * size;
      if (static_cast<std::uint32_t>(product) < size) {
        const std::uint32_t threshold = (0u - size) % size;
        while (static_cast<std::uint32_t>(product) < threshold) {
          product = static_cast<std::uint64_t>(NextUint32()) * size;
        }
      }
      return product >> 32;
    }
    const std::uint64_t size = range + 1;
    uint128 product = static_cast<uint128>(NextUint64()) * size;
    if (static_cast<std::uint64_t>(product) < size) {
      const std::uint64_t threshold = (std::uint64_t{0} - size) % size;
      while (static_cast<std::uint64_t>(product) < threshold) {
        product = static_cast<uint128>(NextUint64()) * size;
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  uint128 state_;
  uint128 increment_;
  // As wide as this so that there is no padding: saved states hold all bytes, so somebody must have written
  // them.
  std::uint64_t half_ = 0;
  std::uint64_t has_half_ = 0;
};
static_assert(std::has_unique_object_representations_v<Rng>);

// numpy.random.RandomState(seed), for seeds of one word, or RandomState(words): the Mersenne Twister
// (MT19937) and the draws that NumPy had before its Generator and keeps as they were.
class LegacyRng {
 public:
  LegacyRng() : LegacyRng(Entropy{&kZero, 1}) {}

  explicit LegacyRng(Entropy entropy) {
    if (entropy.count == 1)
      Start(entropy.words[0]);
    else
      Start(entropy);
  }

  std::uint32_t NextUint32() {
    if (next_ == kSize) Twist();
    std::uint32_t word = words_[next_++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
  }

  // RandomState.random_sample(): a double in [0, 1).
  double Random() {
    const std::uint32_t high = NextUint32() >> 5, low = NextUint32() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  // RandomState.uniform(low, high).
  double Uniform(double low, double high) { return low + (high - low) * Random(); }

  // RandomState.randn(): the polar method, which makes two at a time.
  double StandardNormal() {
    if (has_normal_ == 1) {
      has_normal_ = 0;
      return std::exchange(normal_, 0.0);
    }
    double x, y, square;
    do {
      x = 2.0 * Random() - 1.0;
      y = 2.0 * Random() - 1.0;
      square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    const double scale = std::sqrt(-2.0 * std::log(square) / square);
    normal_ = scale * x;
    has_normal_ = 1;
    return scale * y;
  }

  // RandomState.randint(count), for less than 2^32: what exceeds the range is drawn again.
  std::uint32_t Integer(std::uint32_t count) { return internal::Masked(*this, count - 1); }

  // Whether seeding and drawing can lead here. From zeros alone the twister draws zeros for ever, which some
  // draws reject for ever; of the first word it reads one bit. No normal of the polar method is beyond 13.
  bool IsValid() const {
    std::uint32_t bits = words_[0] & kTopBit;
    for (std::size_t i = 1; i < kSize; ++i) bits |= words_[i];
    return bits != 0 && next_ <= kSize && has_normal_ <= 1 && std::abs(normal_) < 13;
  }

 private:
  static constexpr std::size_t kSize = 624;
  static constexpr std::uint32_t kZero = 0, kTopBit = 0x80000000u;

  void Start(std::uint32_t seed) {
    for (std::uint32_t i = 0; i < kSize; ++i) {
      words_[i] = seed;
      seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
    next_ = kSize;
  }
  void Start(Entropy entropy) {
    Start(19650218u);
    std::size_t i = 1, j = 0;
    const auto earlier = [&] { return words_[i - 1] ^ words_[i - 1] >> 30; };
    const auto advance = [&] {
      if (++i == kSize) {
        words_[0] = words_[kSize - 1];
        i = 1;
      }
    };
    for (std::size_t k = std::max(kSize, entropy.count); k > 0; --k) {
      words_[i] = (words_[i] ^ earlier() * 1664525u) + entropy.words[j] + static_cast<std::uint32_t>(j);
      advance();
      j = (j + 1) % entropy.count;
    }
    for (std::size_t k = kSize - 1; k > 0; --k) {
      words_[i] = (words_[i] ^ earlier() * 1566083941u) - static_cast<std::uint32_t>(i);
      advance();
    }
    words_[0] = kTopBit;
  }
  void Twist() {
    for (std::size_t i = 0; i < kSize; ++i) {
      const std::uint32_t bits = (words_[i] & kTopBit) | (words_[(i + 1) % kSize] & ~kTopBit);
      words_[i] = words_[(i + 397) % kSize] ^ bits >> 1 ^ (bits & 1 ? 0x9908b0dfu : 0);
    }
    next_ = 0;
  }

  std::array<std::uint32_t, kSize> words_;
  std::uint32_t next_ = 0;
  std::uint32_t has_normal_ = 0;
  double normal_ = 0;
};
// No padding: saved states hold all bytes.
static_assert(sizeof(LegacyRng) == 624 * 4 + 4 + 4 + 8);

}  // namespace torchrl_pool
#pragma GCC visibility pop

#endif  // TORCHRL_POOL_RNG_H_
