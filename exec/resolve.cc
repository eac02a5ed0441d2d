// SPDX-License-Identifier: Apache-2.0
#include "exec/resolve.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/status_macros.h"
#include "base/tensor.h"

namespace kiln {
namespace {

// Least and greatest element offset, for a shape without zeros. Nothing where whole axes do not fit
// in 64 bits of bytes: what cuts an operand into parts steps over them, of one element too.
struct Reach {
  int64_t low = 0, high = 0;
};
std::optional<Reach> ReachOf(const ResolvedRef& ref) {
  const auto item = static_cast<int64_t>(SizeOf(ref.type));
  Reach reach;
  for (size_t i = 0; i < ref.shape.size(); ++i) {
    const std::optional<int64_t> whole = CheckedMul(ref.shape[i], ref.strides[i]);
    if (!whole || !CheckedMul(*whole, item)) return std::nullopt;
    const std::optional<int64_t> step = CheckedMul(ref.shape[i] - 1, ref.strides[i]);
    int64_t& side = step && *step < 0 ? reach.low : reach.high;
    const std::optional<int64_t> sum = step ? CheckedAdd(side, *step) : std::nullopt;
    if (!sum) return std::nullopt;
    side = *sum;
  }
  return reach;
}

// The bytes from the first element's to beyond the last element's, in the buffer.
std::optional<ResolvedRef> WithRange(ResolvedRef ref) {
  const auto item = static_cast<int64_t>(SizeOf(ref.type));
  const std::optional<Reach> reach = ReachOf(ref);
  if (!reach) return std::nullopt;
  const std::optional<int64_t> low = CheckedMul(reach->low, item);
  const std::optional<int64_t> count = CheckedAdd(reach->high, 1);
  const std::optional<int64_t> high = count ? CheckedMul(*count, item) : std::nullopt;
  const std::optional<int64_t> begin = low ? CheckedAdd(ref.offset, *low) : std::nullopt;
  const std::optional<int64_t> end = high ? CheckedAdd(ref.offset, *high) : std::nullopt;
  if (!begin || !end) return std::nullopt;
  ref.begin = *begin;
  ref.end = *end;
  return ref;
}

bool IsDense(const ResolvedRef& ref) {
  int64_t stride = 1;
  for (size_t i = ref.shape.size(); i-- > 0;) {
    if (ref.shape[i] != 1 && ref.strides[i] != stride) return false;
    stride *= ref.shape[i];
  }
  return true;
}

absl::Status Wrong(const ResolvedRef& ref, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("operand [", absl::StrJoin(ref.shape, ", "), "] ",
                                                 Name(ref.type), " at byte ", ref.offset,
                                                 " of buffer ", ref.buffer, ": ", what));
}

// Extents, strides and offset as numbers; whether the elements are in the buffer is not asked.
absl::StatusOr<ResolvedRef> Evaluated(const CheckedRef& ref, const SymbolValues& symbols) {
  ResolvedRef made;
  made.buffer = ref.buffer;
  made.type = ref.type;
  KILN_ASSIGN_OR_RETURN(made.shape, Evaluate(ref.shape, symbols));
  KILN_ASSIGN_OR_RETURN(made.offset, ref.offset.Evaluate(symbols));
  const int64_t bytes = CheckedBytes(made.type, made.shape);
  if (bytes < 0) return Wrong(made, "a negative extent, or more than 64 bits");
  made.elements = bytes / static_cast<int64_t>(SizeOf(made.type));
  if (!ref.strides.empty()) {
    KILN_ASSIGN_OR_RETURN(made.strides, Evaluate(ref.strides, symbols));
  }
  // Strides of an empty operand mean nothing, nor does where it begins, which for a slice of no
  // elements is behind the end of its buffer. Extents beside the zero may be any.
  if (made.elements == 0) {
    made.strides.assign(made.shape.size(), 0);
    made.offset = 0;
  } else if (ref.strides.empty()) {
    made.strides = DenseStrides(made.shape);
  }
  made.begin = made.end = made.offset;
  return made;
}

}  // namespace

absl::StatusOr<ResolvedRef> Resolve(const CheckedRef& ref, const SymbolValues& symbols,
                                    int64_t buffer_bytes) {
  KILN_ASSIGN_OR_RETURN(ResolvedRef made, Evaluated(ref, symbols));
  if (made.offset < 0 || made.offset > buffer_bytes)
    return Wrong(made, absl::StrCat("begins outside its ", buffer_bytes, " bytes"));
  if (made.offset % static_cast<int64_t>(SizeOf(made.type)) != 0)
    return Wrong(made, "not aligned to its type");
  if (made.elements == 0) return made;
  const std::optional<ResolvedRef> ranged = WithRange(made);
  if (!ranged || ranged->begin < 0 || ranged->end > buffer_bytes)
    return Wrong(made, absl::StrCat("reaches outside its ", buffer_bytes, " bytes"));
  made = *ranged;
  made.dense = IsDense(made);
  return made;
}

absl::StatusOr<ResolvedRef> ResolveWritten(const CheckedRef& ref, const SymbolValues& symbols,
                                           int64_t buffer_bytes) {
  KILN_ASSIGN_OR_RETURN(ResolvedRef made, Resolve(ref, symbols, buffer_bytes));
  if (made.elements == 0 || made.dense) return made;
  // From the innermost axis in memory on, each step leaves behind what the axes within it reach.
  std::vector<std::pair<int64_t, int64_t>> axes;  // steps are within the buffer: no overflow
  for (size_t i = 0; i < made.shape.size(); ++i) {
    if (made.shape[i] > 1) axes.emplace_back(std::abs(made.strides[i]), made.shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;
  for (const auto& [step, extent] : axes) {
    if (step <= reach) return Wrong(made, "elements that are written overlap");
    reach += step * (extent - 1);
  }
  return made;
}

absl::StatusOr<ResolvedRef> ResolveUnread(const CheckedRef& ref, const SymbolValues& symbols) {
  KILN_ASSIGN_OR_RETURN(ResolvedRef made, Evaluated(ref, symbols));
  made.offset = made.begin = made.end = 0;
  made.elements = 0;
  return made;
}

absl::StatusOr<std::vector<uint8_t>> BytesOf(const std::vector<int64_t>& values, DType type) {
  const size_t item = SizeOf(type);
  std::vector<uint8_t> bytes(item * values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    // Narrower integers are the low bytes.
    const int64_t value = values[i];
    const int bits = static_cast<int>(8 * item) - (IsSigned(type) ? 1 : 0);
    const int64_t least = IsSigned(type) && bits < 63 ? -(int64_t{1} << bits)
                          : IsSigned(type)            ? value
                                                      : 0;
    if (value < least || (bits < 63 && value >= int64_t{1} << bits))
      return absl::OutOfRangeError(absl::StrCat("value ", value, " does not fit in ", Name(type)));
    std::memcpy(bytes.data() + i * item, &value, item);
  }
  return bytes;
}

}  // namespace kiln
