// SPDX-License-Identifier: Apache-2.0
#include "base/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"

namespace kiln {
namespace {

std::string Describe(const Tensor& t) {
  return absl::StrCat(std::string(Name(t.dtype())), " [", absl::StrJoin(t.shape(), ", "), "]");
}

// Element k of a dense tensor as a double; exact for all types but 64-bit integers, which are
// compared as bits.
double ElementOf(const Tensor& t, int64_t k) {
  const char* const at =
      static_cast<const char*>(t.data()) + k * static_cast<int64_t>(SizeOf(t.dtype()));
  const auto load = [at](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (t.dtype()) {
    case DType::kF32:
      return load(float{});
    case DType::kF64:
      return load(double{});
    case DType::kF16:
      return HalfToFloat(load(uint16_t{}));
    case DType::kBF16:
      return BFloatToFloat(load(uint16_t{}));
    case DType::kI8:
      return load(int8_t{});
    case DType::kI16:
      return load(int16_t{});
    case DType::kI32:
      return load(int32_t{});
    case DType::kI64:
      return static_cast<double>(load(int64_t{}));
    case DType::kU8:
    case DType::kBool:
      return load(uint8_t{});
    case DType::kU16:
      return load(uint16_t{});
    case DType::kU32:
      return load(uint32_t{});
    case DType::kU64:
      return static_cast<double>(load(uint64_t{}));
  }
  return 0;
}

// Its bits, in the low bytes; 0 where a type has none.
uint64_t QuietNan(DType type) {
  switch (type) {
    case DType::kF64:
      return 0x7ff8000000000000;
    case DType::kF32:
      return 0x7fc00000;
    case DType::kF16:
      return 0x7e00;
    case DType::kBF16:
      return 0x7fc0;
    default:
      return 0;
  }
}

bool EqualBits(const Tensor& a, const Tensor& b, int64_t k) {
  const size_t size = SizeOf(a.dtype());
  const size_t at = static_cast<size_t>(k) * size;
  return std::memcmp(static_cast<const char*>(a.data()) + at,
                     static_cast<const char*>(b.data()) + at, size) == 0;
}

bool Within(double got, double want, double rtol, double atol) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::fabs(got - want) <= atol + rtol * std::fabs(want);
}

template <typename Same>
Comparison CompareElements(const Tensor& got_any, const Tensor& want_any, Same&& same) {
  Comparison result;
  if (got_any.dtype() != want_any.dtype() || got_any.shape() != want_any.shape()) {
    result.what = absl::StrCat("is ", Describe(got_any), ", expected ", Describe(want_any));
    return result;
  }
  const Tensor got = got_any.is_dense() ? got_any : got_any.Clone();
  const Tensor want = want_any.is_dense() ? want_any : want_any.Clone();
  for (int64_t k = 0; k < got.num_elements(); ++k) {
    const double g = ElementOf(got, k);
    const double w = ElementOf(want, k);
    if (std::isfinite(g) && std::isfinite(w)) {
      result.max_abs = std::max(result.max_abs, std::fabs(g - w));
      if (w != 0) result.max_rel = std::max(result.max_rel, std::fabs(g - w) / std::fabs(w));
    }
    if (same(got, want, k, g, w)) continue;
    if (result.mismatches++ == 0)
      result.what = absl::StrCat("element ", k, " is ", g, ", expected ", w);
  }
  result.ok = result.mismatches == 0;
  if (!result.ok)
    absl::StrAppend(&result.what, "; ", result.mismatches, " of ", got.num_elements(),
                    " elements differ");
  return result;
}

}  // namespace

Comparison Compare(const Tensor& got, const Tensor& want, double rtol, double atol) {
  return CompareElements(
      got, want, [=](const Tensor& a, const Tensor& b, int64_t k, double g, double w) {
        return IsFloat(a.dtype()) ? Within(g, w, rtol, atol) : EqualBits(a, b, k);
      });
}

Comparison CompareBits(const Tensor& got, const Tensor& want) {
  return CompareElements(got, want,
                         [](const Tensor& a, const Tensor& b, int64_t k, double g, double w) {
                           return EqualBits(a, b, k) || (std::isnan(g) && std::isnan(w));
                         });
}

Sha256Digest DigestOf(const Tensor& tensor) {
  Tensor dense = tensor.Clone();
  char* const data = static_cast<char*>(dense.data());
  const size_t size = SizeOf(dense.dtype());
  const uint64_t nan = QuietNan(dense.dtype());
  for (int64_t k = 0; nan != 0 && k < dense.num_elements(); ++k) {
    if (std::isnan(ElementOf(dense, k)))
      std::memcpy(data + static_cast<size_t>(k) * size, &nan, size);
  }
  Sha256Hasher hasher;
  hasher.Update(absl::StrCat(Describe(dense), "\n"));
  hasher.Update({data, static_cast<size_t>(dense.size_bytes())});
  return hasher.Finish();
}

double StandardDeviation(const Tensor& any) {
  if (!IsFloat(any.dtype())) return 0;
  const Tensor tensor = any.is_dense() ? any : any.Clone();
  double sum = 0;
  double squares = 0;
  int64_t n = 0;
  for (int pass = 0; pass < 2; ++pass) {
    const double mean = n > 0 ? sum / static_cast<double>(n) : 0;
    for (int64_t k = 0; k < tensor.num_elements(); ++k) {
      const double v = ElementOf(tensor, k);
      if (!std::isfinite(v)) continue;
      if (pass == 0) {
        sum += v;
        ++n;
      } else {
        squares += (v - mean) * (v - mean);
      }
    }
  }
  return n > 0 ? std::sqrt(squares / static_cast<double>(n)) : 0;
}

}  // namespace kiln
