// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "exec/library/integer_ops.h"
#include "exec/library/pair_product.h"
#include "exec/library/reference_conv.h"
#include "exec/library/reference_matmul.h"
#include "exec/library/requantize.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

int64_t Count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

void MakeDense(Operand& operand) {
  int64_t step = 1;
  for (size_t i = operand.shape.size(); i-- > 0; step *= operand.shape[i])
    operand.strides[i] = step;
}

// Dense copies of both operands less their zero points, then a loop over i32.
class CenteredLoop final : public Primitive {
 public:
  // zeros[k] broadcasts to operand k, by strides.
  CenteredLoop(const Request& request, std::array<std::vector<int64_t>, 2> zeros,
               std::unique_ptr<Primitive> loop)
      : operands_{request.inputs[0], request.inputs[1]},
        zeros_(std::move(zeros)),
        inputs_(request.inputs.size()),
        loop_(std::move(loop)) {}

  int64_t scratch_bytes() const override {
    return (Count(operands_[0].shape) + Count(operands_[1].shape)) * int64_t{sizeof(int32_t)};
  }

  absl::Status Run(const Arguments& arguments) const override {
    auto* to = static_cast<int32_t*>(arguments.scratch);
    void* centered[2];
    for (size_t k = 0; k < 2; ++k) {
      const Operand& operand = operands_[k];
      const Bytes q(arguments.inputs[k], operand.type);
      const Bytes zero(inputs_ > k + 2 ? arguments.inputs[k + 2] : nullptr, operand.type);
      centered[k] = to;
      for (int64_t i = 0; i < Count(operand.shape); ++i) {
        int64_t rest = i, at = 0, zero_at = 0;
        for (size_t axis = operand.shape.size(); axis-- > 0; rest /= operand.shape[axis]) {
          at += rest % operand.shape[axis] * operand.strides[axis];
          zero_at += rest % operand.shape[axis] * zeros_[k][axis];
        }
        *to++ = q[at] - zero[zero_at];
      }
    }
    return loop_->Run({centered, arguments.outputs, nullptr, arguments.context});
  }

 private:
  const std::array<Operand, 2> operands_;
  const std::array<std::vector<int64_t>, 2> zeros_;
  const size_t inputs_;
  const std::unique_ptr<Primitive> loop_;
};

// A loop of conv_integer, whose sums become bytes one by one.
class QuantisedLoop final : public Primitive {
 public:
  QuantisedLoop(const Request& request, Requantizer requantizer, std::unique_ptr<Primitive> sums)
      : y_(request.outputs[0]), requantizer_(std::move(requantizer)), sums_(std::move(sums)) {}

  int64_t scratch_bytes() const override {
    return Channels() + requantizer_.scratch_bytes() + Count(y_.shape) * int64_t{sizeof(int32_t)};
  }

  absl::Status Run(const Arguments& a) const override {
    auto* const scratch = static_cast<uint8_t*>(a.scratch);
    const RequantizeChannels channels = requantizer_.Fill(a, scratch + Channels());
    void* sums = scratch + Channels() + requantizer_.scratch_bytes();
    void* const inputs[] = {a.inputs[0], a.inputs[3], a.inputs[2], a.inputs[5]};
    KILN_RETURN_IF_ERROR(sums_->Run({inputs, &sums, scratch, a.context}));
    for (int64_t i = 0; i < Count(y_.shape); ++i) {
      int64_t rest = i, at = 0, channel = 0;
      for (size_t axis = y_.shape.size(); axis-- > 0; rest /= y_.shape[axis]) {
        if (axis == 1) channel = rest % y_.shape[axis];
        at += rest % y_.shape[axis] * y_.strides[axis];
      }
      static_cast<uint8_t*>(a.outputs[0])[at] =
          RequantizeExactly(channels, channel, static_cast<const int32_t*>(sums)[i]);
    }
    return absl::OkStatus();
  }

 private:
  int64_t Channels() const { return (sums_->scratch_bytes() + 63) / 64 * 64; }  // where they begin

  const Operand y_;
  const Requantizer requantizer_;
  const std::unique_ptr<Primitive> sums_;
};

// Strides of a zero point that has the last axes of its operand, or extents of 1.
std::vector<int64_t> ZeroStrides(const Request& request, size_t k) {
  std::vector<int64_t> strides(request.inputs[k].shape.size(), 0);
  if (k + 2 >= request.inputs.size() || !request.inputs[k + 2].present) return strides;
  const Operand& zero = request.inputs[k + 2];
  for (size_t i = 0; i < zero.shape.size() && i < strides.size(); ++i) {
    const size_t from = zero.shape.size() - 1 - i;
    if (zero.shape[from] != 1) strides[strides.size() - 1 - i] = zero.strides[from];
  }
  return strides;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeIntegerMatmulLoop(const Request& request,
                                                                 const std::shared_ptr<Session>&) {
  KILN_ASSIGN_OR_RETURN(Request plain, AsMatmul(request));
  plain.inputs.resize(2);
  for (Operand& input : plain.inputs) MakeDense(input);
  KILN_ASSIGN_OR_RETURN(MatmulForm form, NormalizeMatmul(plain));
  return std::make_unique<CenteredLoop>(
      request, std::array{ZeroStrides(request, 0), ZeroStrides(request, 1)},
      MakeReferenceMatmul(DType::kI32, std::move(form)));
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeIntegerConvLoop(const Request& request,
                                                               const std::shared_ptr<Session>&) {
  KILN_ASSIGN_OR_RETURN(Request plain, AsConv(request));
  for (Operand& input : plain.inputs) MakeDense(input);
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(plain, /*transposed=*/false));
  std::array zeros = {std::vector<int64_t>(request.inputs[0].shape.size(), 0),
                      std::vector<int64_t>(request.inputs[1].shape.size(), 0)};
  if (request.inputs.size() > 3 && request.inputs[3].present && !request.inputs[3].shape.empty() &&
      request.inputs[3].shape[0] != 1)
    zeros[1][0] = request.inputs[3].strides[0];
  return std::make_unique<CenteredLoop>(request, std::move(zeros),
                                        MakeReferenceConv(plain, form, /*transposed=*/false));
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeQuantisedConvLoop(
    const Request& request, const std::shared_ptr<Session>& session) {
  Request whole = request;
  whole.inputs = {request.inputs[0], request.inputs[3], request.inputs[2], request.inputs[5]};
  whole.outputs[0].type = DType::kI32;
  MakeDense(whole.outputs[0]);
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Primitive> sums, MakeIntegerConvLoop(whole, session));
  int64_t terms = 1;
  for (size_t i = 1; i < whole.inputs[1].shape.size(); ++i) terms *= whole.inputs[1].shape[i];
  KILN_ASSIGN_OR_RETURN(Requantizer requantizer, Requantizer::Make(request, terms));
  return std::make_unique<QuantisedLoop>(request, std::move(requantizer), std::move(sums));
}

}  // namespace kiln::library
