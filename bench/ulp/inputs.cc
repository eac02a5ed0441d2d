// SPDX-License-Identifier: Apache-2.0
#include "bench/ulp/inputs.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kiln::ulp {
namespace {

// SplitMix64.
uint64_t Mix(uint64_t x) {
  x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The k-th number of a stream, in [0, 1).
double Unit(uint64_t stream, uint64_t k) {
  return std::ldexp(static_cast<double>(Mix(stream << 32 ^ k) >> 11), -53);
}

void AppendBits(std::vector<uint8_t>& to, uint64_t bits, size_t size) {
  const size_t at = to.size();
  to.resize(at + size);
  std::memcpy(to.data() + at, &bits, size);
}

std::vector<uint64_t> DoubleSample() {
  std::vector<uint64_t> sample;
  const auto add = [&sample](double x) {
    sample.push_back(std::bit_cast<uint64_t>(x));
    sample.push_back(std::bit_cast<uint64_t>(-x));
  };
  for (uint64_t exponent = 0; exponent < 2048; ++exponent) {
    for (uint64_t k = 0; k < 64; ++k) {
      const uint64_t fraction = k == 0 ? 0 : k == 1 ? ~uint64_t{0} : Mix(exponent * 64 + k);
      add(std::bit_cast<double>(exponent << 52 | fraction >> 12));
    }
  }
  for (uint64_t k = 0; k < 200000; ++k) {
    const double u = std::ldexp(static_cast<double>(Mix(k) >> 11), -53);
    add(u);
    add(1 + u);
    add(u * 40);
    add(u * 760);
    add(1 + std::ldexp(u - 0.5, -static_cast<int>(k % 50)));
  }
  return sample;
}

template <typename T>
class Pairs {
 public:
  Pairs(std::vector<uint64_t>& x, std::vector<uint64_t>& y) : x_(x), y_(y) {
    Specials();
    Exponents();
    Powers();
    WholeExponents();
    Quotients();
  }

 private:
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Limits = std::numeric_limits<T>;
  static constexpr int kFraction = Limits::digits - 1;  // bits of it
  static constexpr Word kExponents = Word{1} << (8 * sizeof(T) - 1 - kFraction);
  // Powers of two: 2^kLeast is the smallest denormal, 2^kMost is not finite.
  static constexpr int kLeast = Limits::min_exponent - Limits::digits;
  static constexpr int kMost = Limits::max_exponent;

  void Add(T x, T y) {
    x_.push_back(std::bit_cast<Word>(x));
    y_.push_back(std::bit_cast<Word>(y));
  }

  void Specials() {
    std::vector<T> values;
    const auto add = [&values](T x) {
      for (const T v : {std::nextafter(x, T{0}), x, std::nextafter(x, Limits::infinity())}) {
        values.push_back(v);
        values.push_back(-v);
      }
    };
    for (const double x : {0.0, 1.0 / 3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0, 100.0})
      add(static_cast<T>(x));
    for (const int e : {Limits::min_exponent - 1, -Limits::digits, kFraction, Limits::digits,
                        Limits::digits + 1, kMost / 2, kMost - 1}) {
      add(std::ldexp(T{1}, e));
    }
    for (const int y : {kMost - 1, kMost, -kLeast - 1, -kLeast, -kLeast + 1})
      add(static_cast<T>(y));
    add(Limits::max());
    add(Limits::denorm_min());
    values.push_back(Limits::quiet_NaN());
    for (const T x : values) {
      for (const T y : values) Add(x, y);
    }
  }

  T Random(Word exponent, uint64_t k) const {
    const Word bits = static_cast<Word>(Mix(k));  // sign and fraction
    const Word mask = (kExponents - 1) << kFraction;
    return std::bit_cast<T>(static_cast<Word>((bits & ~mask) | exponent << kFraction));
  }

  void Exponents() {
    constexpr Word kPairs = Word{1} << 20;
    constexpr Word kEach = kPairs / kExponents;
    for (Word k = 0; k < kPairs; ++k) {
      const Word other =
          kEach >= kExponents ? k % kExponents : static_cast<Word>(Mix(~uint64_t{k}) % kExponents);
      Add(Random(k / kEach, 2 * uint64_t{k}), Random(other, 2 * uint64_t{k} + 1));
    }
  }

  // Anywhere in the range of exponents of results, or about one of its ends.
  double Target(uint64_t k) const {
    const double u = Unit(1, k);
    if (k % 3 == 0) return kLeast - 2 + u * (kMost + 4 - kLeast);
    return k % 3 == 1 ? kMost + (u - 0.5) / 4 : kLeast + u * (Limits::digits + 1) - 1.5;
  }

  void Powers() {
    for (uint64_t k = 0; k < 400000; ++k) {
      double x = std::ldexp(1 + Unit(2, k), static_cast<int>(Mix(k) % (kMost - 1)) - kMost / 2);
      if (k % 4 == 0) x = 1 + std::ldexp(Unit(2, k) - 0.5, -static_cast<int>(Mix(k) % kFraction));
      const T rounded = static_cast<T>(x);
      if (rounded != 1) {
        Add(rounded, static_cast<T>(Target(k / 4) / std::log2(static_cast<long double>(rounded))));
      }
    }
  }

  void WholeExponents() {
    for (int half = -400; half <= 400; ++half) {
      if (half == 0) continue;
      for (uint64_t k = 0; k < 128; ++k) {
        const uint64_t at = static_cast<uint64_t>(half + 400) * 128 + k;
        const T x = static_cast<T>(std::exp2(Target(at) / (half / 2.0)));
        Add(k % 2 == 0 ? x : -x, static_cast<T>(half / 2.0));
      }
    }
  }

  void Quotients() {
    for (uint64_t k = 0; k < 400000; ++k) {
      const auto t = static_cast<int>(std::floor(Target(k)));
      const int of_y = t > 0 ? -(static_cast<int>(Mix(k) % (kMost / 2)))
                             : static_cast<int>(Mix(k) % (kMost / 2));
      Add(static_cast<T>(std::ldexp(1 + Unit(3, k), of_y + t)),
          static_cast<T>(std::ldexp(1 + Unit(4, k), of_y)));
    }
  }

  std::vector<uint64_t>&x_, &y_;
};

}  // namespace

Inputs::Inputs(DType type, int operands) : bytes_(SizeOf(type)), operands_(operands) {
  const size_t bits = 8 * bytes_ * static_cast<size_t>(operands);
  if (bits <= 32) {
    size_ = uint64_t{1} << bits;
    return;
  }
  if (operands == 1) {
    x_ = DoubleSample();
  } else if (type == DType::kF64) {
    Pairs<double>(x_, y_);
  } else {
    Pairs<float>(x_, y_);
  }
  size_ = x_.size();
}

void Inputs::Append(uint64_t index, Arrays& to) const {
  if (operands_ == 1) return AppendBits(to.x, all() ? index : x_[index], bytes_);
  AppendBits(to.x, all() ? index >> (8 * bytes_) : x_[index], bytes_);
  AppendBits(to.y, all() ? index : y_[index], bytes_);
}

}  // namespace kiln::ulp
