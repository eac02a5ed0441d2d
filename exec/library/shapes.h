// SPDX-License-Identifier: Apache-2.0
// Requests in normal form: checked extents and strides, with all rules of broadcasting and
// attributes applied.
#ifndef KILN_EXEC_LIBRARY_SHAPES_H_
#define KILN_EXEC_LIBRARY_SHAPES_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// kUnimplemented if there is an attribute whose name is not in `known`.
absl::Status CheckAttributes(const Attributes& attributes,
                             std::initializer_list<absl::string_view> known);

// kUnimplemented unless all inputs are f32.
absl::Status TakesF32(const Request& request);

// Where the elements of an activation [N, C, D...] lie: channels innermost and dense, or dense as
// it is written.
bool IsChannelsLast(const Operand& operand);
// Strides of an operand without elements mean nothing: it is dense.
bool IsDense(const Operand& operand);
// How many elements lie from the first to the last; 0 if there is none, or an axis goes backwards.
int64_t Span(const Operand& operand);
// kUnimplemented unless all operands are dense.
absl::Status RequireDense(const Request& request);

// The first number of an attribute.
int64_t IntOf(const Request& request, const char* name, int64_t otherwise);

// A tensor as [outer, extent, inner] around one axis; lanes run along it.
struct Around {
  int64_t outer = 1, extent = 1, inner = 1, axis = 0;
  int64_t lanes() const { return outer * inner; }
  int64_t first(int64_t lane, int64_t length) const {
    return lane / inner * length * inner + lane % inner;
  }
};
// Of input 0, around the attribute `axis`.
absl::StatusOr<Around> AroundAxis(const Request& request);

// C[..., m, n] = sum over k of A[..., m, k] * B[..., k, n]; every stride in elements, 0 where a
// batch dim broadcasts. Neighbouring batch dims that all operands step through alike are one, and
// batches that share B are rows of one product:
//   A [8, 12, 64] x B [64, 64] has m = 96 and no batch.
// Operands of post-ops step through C; their strides, 0 where they broadcast, stand in lists.
struct MatmulForm {
  struct Batch {
    int64_t extent, a, b, c;
    std::vector<int64_t> operands = {};
  };
  std::vector<Batch> batch;  // outermost first, extents > 1
  int64_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;
  std::vector<int64_t> operands_m = {}, operands_n = {};
};
// The operands of post-ops have been checked (CheckPostOps).
absl::StatusOr<MatmulForm> NormalizeMatmul(const Request& request);

// One axis over which a window slides.
struct WindowAxis {
  int64_t in = 0, out = 0, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
};

// Whether the axis is one element, which one tap meets: with padding in front it may meet nothing.
inline bool IsUnitAxis(const WindowAxis& axis) {
  return axis.in == 1 && axis.out == 1 && axis.kernel == 1 && axis.pad_begin == 0;
}

// Always three axes; missing ones, in front, have extent 1.
using ThreeAxes = std::array<WindowAxis, 3>;
ThreeAxes Widen(const std::vector<WindowAxis>& axes);

// The input coordinate that tap `k` of the window at output `o` meets; negative if none.
int64_t Meets(const WindowAxis& axis, bool transposed, int64_t o, int64_t k);

struct ConvForm {
  int64_t batch = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;  // per group
  std::vector<WindowAxis> axes;
};
// `transposed`: the roles of in and out are swapped in the rule of shapes.
absl::StatusOr<ConvForm> NormalizeConv(const Request& request, bool transposed);

// The convolution whose weight a request of conv_backward_weights is about: of x and the weight, to
// the cotangent.
Request ConvOfBackward(const Request& request);
absl::StatusOr<ConvForm> NormalizeConvBackward(const Request& request);

bool HasBias(const Request& conv);

// kUnimplemented, with the reason, for convolutions that our own loops do not take: with weights
// that are no dense constant, whose channels are not innermost, or with a bias that is not dense.
absl::Status TakesRows(const Request& conv);
// Likewise, and for those of several groups.
absl::Status TakesOneGroup(const Request& request, const ConvForm& form);

struct PoolForm {
  int64_t batch = 0, channels = 0;
  std::vector<WindowAxis> axes;
  bool count_include_pad = false;
};
absl::StatusOr<PoolForm> NormalizePool(const Request& request, bool average);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_SHAPES_H_
