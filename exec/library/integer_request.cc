// SPDX-License-Identifier: Apache-2.0
// What operands products of bytes take, and what they are without zero points.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/integer_ops.h"

namespace kiln::library {
namespace {

absl::Status CheckTypes(const Request& request) {
  for (size_t k = 0; k < 2; ++k) {
    const DType type = request.inputs[k].type;
    if (type != DType::kU8 && type != DType::kI8)
      return absl::InvalidArgumentError(absl::StrCat("type ", Name(type), "; takes u8 and i8"));
    if (k + 2 >= request.inputs.size() || !request.inputs[k + 2].present) continue;
    if (request.inputs[k + 2].type != type) {
      return absl::InvalidArgumentError(absl::StrCat("types ", Name(type),
                                                     " and, of its zero point, ",
                                                     Name(request.inputs[k + 2].type), " differ"));
    }
  }
  if (request.outputs[0].type != DType::kI32) {
    return absl::InvalidArgumentError(
        absl::StrCat("result of type ", Name(request.outputs[0].type), "; gives i32"));
  }
  return absl::OkStatus();
}

Request WithoutZeroPoints(const Request& request) {
  Request plain = request;
  plain.inputs.resize(2);
  for (Operand& input : plain.inputs) input.type = DType::kI32;
  return plain;
}

// The zero point of operand `k` of a matmul as one that broadcasts to the result: axes are those of
// the result, from the last.
absl::StatusOr<Operand> OverResult(const Request& request, size_t k) {
  const Operand &of = request.inputs[k], &other = request.inputs[1 - k], &c = request.outputs[0];
  Operand over;
  over.type = DType::kI32;
  over.shape.assign(c.shape.size(), 1);
  over.strides.assign(c.shape.size(), 0);
  if (k + 2 >= request.inputs.size() || !request.inputs[k + 2].present) return over;
  const Operand& zero = request.inputs[k + 2];
  for (size_t i = 0; i < zero.shape.size(); ++i) {  // from the last axis of both
    const int64_t extent = zero.shape[zero.shape.size() - 1 - i];
    if (extent == 1) continue;
    const size_t summed = k == 0 || of.shape.size() == 1 ? 0 : 1;
    // The result has no row for a vector on the left, and no column for one on the right.
    const size_t place = i > k && other.shape.size() == 1 ? i - 1 : i;
    if (i == summed || i >= of.shape.size() || place >= c.shape.size() ||
        extent != of.shape[of.shape.size() - 1 - i]) {
      return absl::InvalidArgumentError(absl::StrCat("zero point of input ", k,
                                                     " has an extent of ", extent,
                                                     "; need one element for each row or column"));
    }
    const size_t axis = c.shape.size() - 1 - place;
    over.shape[axis] = extent;
    over.strides[axis] = zero.strides[zero.shape.size() - 1 - i];
  }
  return over;
}

}  // namespace

absl::StatusOr<Request> AsMatmul(const Request& request) {
  KILN_RETURN_IF_ERROR(CheckTypes(request));
  Request plain = WithoutZeroPoints(request);
  for (size_t k = 0; k < 2; ++k) {
    KILN_ASSIGN_OR_RETURN(Operand zero, OverResult(request, k));
    plain.inputs.push_back(std::move(zero));
  }
  return plain;
}

absl::StatusOr<Request> AsConv(const Request& request) {
  KILN_RETURN_IF_ERROR(CheckTypes(request));
  const auto elements = [&](size_t k) {
    int64_t count = 1;
    if (k >= request.inputs.size() || !request.inputs[k].present) return count;
    for (const int64_t extent : request.inputs[k].shape) count *= extent;
    return request.inputs[k].shape.size() > 1 ? int64_t{-1} : count;
  };
  const int64_t of_x = elements(2), of_w = elements(3);
  const std::vector<int64_t>& w = request.inputs[1].shape;
  if (of_x != 1 || (of_w != 1 && (w.empty() || of_w != w[0]))) {
    return absl::InvalidArgumentError(
        "zero points are one of the input, and one of the weight or of each of its channels");
  }
  return WithoutZeroPoints(request);
}

}  // namespace kiln::library
