// SPDX-License-Identifier: Apache-2.0
#include "exec/library/conv_backward_product.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "exec/library/onednn.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

// A primitive of two inputs that are given in the other order.
class Swapped final : public Primitive {
 public:
  explicit Swapped(std::unique_ptr<Primitive> product) : product_(std::move(product)) {}
  int64_t scratch_bytes() const override { return product_->scratch_bytes(); }
  std::string description() const override { return product_->description(); }
  std::unique_ptr<CallState> NewState() const override { return product_->NewState(); }
  absl::Status Run(const Arguments& arguments) const override {
    void* const inputs[] = {arguments.inputs[1], arguments.inputs[0]};
    Arguments swapped = arguments;
    swapped.inputs = inputs;
    return product_->Run(swapped);
  }

 private:
  const std::unique_ptr<Primitive> product_;
};

bool IsPoint(const WindowAxis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
}

// [N, C, D...], channels innermost, as rows of channels.
Operand Rows(const Operand& operand) {
  const int64_t channels = operand.shape[1];
  int64_t rows = operand.shape[0];
  for (size_t i = 2; i < operand.shape.size(); ++i) rows *= operand.shape[i];
  return {.type = operand.type, .shape = {rows, channels}, .strides = {channels, 1}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsProduct(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConvBackward(request));
  const Operand &x = request.inputs[0], &g = request.inputs[1], &w = request.outputs[0];
  if (form.groups != 1 || !std::all_of(form.axes.begin(), form.axes.end(), IsPoint))
    return absl::UnimplementedError("a window of more than points, or several groups");
  if (!IsChannelsLast(x) || !IsChannelsLast(g) || !IsDense(w))
    return absl::UnimplementedError("channels are not innermost");
  const Operand rows = Rows(g);
  if (rows.shape[0] * g.shape[1] > w.shape[0] * w.shape[1])
    return absl::UnimplementedError("the cotangent has more elements than the weight");
  Request product;
  product.attributes = {{"trans_a", {1}}};
  product.inputs = {rows, Rows(x)};
  product.outputs = {
      {.type = w.type, .shape = {w.shape[0], w.shape[1]}, .strides = {w.shape[1], 1}}};
  KILN_ASSIGN_OR_RETURN(auto made, MakeOneDnnMatmul(product, session));
  return std::make_unique<Swapped>(std::move(made));
}

}  // namespace kiln::library
