// SPDX-License-Identifier: Apache-2.0
#include "exec/library/post_ops.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "exec/library/loops.h"
#include "exec/library/post_op_rows.h"

namespace kiln::library {
namespace {

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

constexpr PostOpRule kRules[] = {
    {"add", 0, true, AddStep::Apply, false},
    {"clip", 2, false, ClipStep::Apply, true},
    {"elu", 1, false,
     [](float x, float, const float* c) { return x > 0 ? x : std::expm1(x) * c[0]; }, true},
    {"gelu_erf", 0, false,
     [](float x, float, const float*) { return x * 0.5F * (std::erf(x * 0.70710678F) + 1); }, true},
    {"gelu_tanh", 0, false,
     [](float x, float, const float*) {
       return x * 0.5F * (std::tanh((x + x * x * x * 0.044715F) * 0.79788456F) + 1);
     },
     true},
    {"hard_sigmoid", 2, false, HardSigmoidStep::Apply, true},
    {"hard_swish", 0, false, HardSwishStep::Apply, true},
    {"leaky_relu", 1, false, LeakyReluStep::Apply, true},
    {"linear", 2, false, LinearStep::Apply, false},
    {"mul", 0, true, MulStep::Apply, false},
    {"relu", 0, false, ReluStep::Apply, true},
    {"sigmoid", 0, false, [](float x, float, const float*) { return Sigmoid(x); }, true},
    {"swish", 1, false, [](float x, float, const float* c) { return x * Sigmoid(x * c[0]); }, true},
    {"tanh", 0, false, [](float x, float, const float*) { return std::tanh(x); }, true},
};

// The output's axes, outermost in memory first: loops run as it lies.
std::vector<size_t> MemoryOrder(const Operand& output) {
  std::vector<size_t> order(output.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t axis) {  // where there is one element, there is no step
      return output.shape[axis] == 1 ? INT64_MAX : std::abs(output.strides[axis]);
    };
    return key(a) > key(b);
  });
  return order;
}

// Strides of an operand along the axes in `order`: 0 where it broadcasts.
std::vector<int64_t> StepsOver(const Operand& operand, const std::vector<size_t>& order) {
  std::vector<int64_t> steps;
  for (const size_t axis : order)
    steps.push_back(operand.shape[axis] == 1 ? 0 : operand.strides[axis]);
  return steps;
}

class PostOpLoops final : public Primitive {
 public:
  PostOpLoops(std::unique_ptr<Primitive> primitive, const Request& request)
      : primitive_(std::move(primitive)) {
    const std::vector<size_t> order = MemoryOrder(request.outputs[0]);
    for (const size_t axis : order) shape_.push_back(request.outputs[0].shape[axis]);
    rows_ = 1;
    for (size_t i = 0; i + 1 < shape_.size(); ++i) rows_ *= shape_[i];
    output_ = StepsOver(request.outputs[0], order);
    size_t operand = request.inputs.size() - CountOperands(request.post_ops);
    for (const PostOp& op : request.post_ops) {
      Step& step = steps_.emplace_back();
      step.rule = FindPostOp(op.name);
      step.row = FindPostOpRow(op.name);
      std::copy(op.numbers.begin(), op.numbers.end(), step.numbers);
      if (!step.rule->operand) continue;
      step.input = operand;
      step.strides = StepsOver(request.inputs[operand++], order);
    }
  }

  int64_t scratch_bytes() const override { return primitive_->scratch_bytes(); }
  int64_t packed_bytes() const override { return primitive_->packed_bytes(); }
  std::string description() const override { return primitive_->description(); }

  std::unique_ptr<CallState> NewState() const override { return primitive_->NewState(); }

  absl::Status Run(const Arguments& arguments) const override {
    if (absl::Status status = primitive_->Run(arguments); !status.ok()) return status;
    ParallelRanges(arguments.context, rows_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) Row(arguments, row);
    });
    return absl::OkStatus();
  }

 private:
  struct Step {
    const PostOpRule* rule = nullptr;
    PostOpRow row = nullptr;  // a loop for dense rows, where there is one
    float numbers[2] = {};    // no rule has more
    size_t input = 0;
    std::vector<int64_t> strides;
  };

  int64_t OffsetOf(int64_t row, const std::vector<int64_t>& strides) const {
    int64_t offset = 0;
    for (size_t i = shape_.size() - 1; i-- > 0; row /= shape_[i])
      offset += row % shape_[i] * strides[i];
    return offset;
  }

  void Row(const Arguments& arguments, int64_t row) const {
    const int64_t count = shape_.empty() ? 1 : shape_.back();
    const int64_t step_y = shape_.empty() ? 0 : output_.back();
    auto* y = static_cast<float*>(arguments.outputs[0]);
    if (!shape_.empty()) y += OffsetOf(row, output_);
    for (const Step& step : steps_) {
      static constexpr float kNone = 0;
      const float* operand = &kNone;
      int64_t step_operand = 0;
      if (step.rule->operand) {
        operand = static_cast<const float*>(arguments.inputs[step.input]);
        if (!shape_.empty()) {
          operand += OffsetOf(row, step.strides);
          step_operand = step.strides.back();
        }
      }
      if (step.row != nullptr && step_y == 1 && (step_operand == 0 || step_operand == 1)) {
        step.row(y, operand, step_operand, count, step.numbers);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        float& element = y[i * step_y];
        element = step.rule->apply(element, operand[i * step_operand], step.numbers);
      }
    }
  }

  std::unique_ptr<Primitive> primitive_;
  std::vector<int64_t> shape_, output_;
  int64_t rows_;
  std::vector<Step> steps_;
};

}  // namespace

const PostOpRule* FindPostOp(absl::string_view name) {
  const auto found = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const PostOpRule& rule) { return name == rule.name; });
  return found == std::end(kRules) ? nullptr : found;
}

size_t CountOperands(std::span<const PostOp> post_ops) {
  size_t count = 0;
  for (const PostOp& op : post_ops) {
    const PostOpRule* rule = FindPostOp(op.name);
    if (rule != nullptr && rule->operand) ++count;
  }
  return count;
}

absl::Status CheckPostOps(const Request& request) {
  if (request.post_ops.empty()) return absl::OkStatus();
  if (request.outputs.empty()) return absl::InvalidArgumentError("post-ops without an output");
  const Operand& output = request.outputs[0];
  if (output.type != DType::kF32) {
    return absl::UnimplementedError(
        absl::StrCat("post-ops on type ", Name(output.type), " are not supported; use f32"));
  }
  const size_t operands = CountOperands(request.post_ops);
  if (operands > request.inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(operands, " operands of post-ops among ", request.inputs.size(), " inputs"));
  }
  size_t input = request.inputs.size() - operands;
  for (const PostOp& op : request.post_ops) {
    const PostOpRule* rule = FindPostOp(op.name);
    if (rule == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("post-op \"", op.name, "\" is unknown"));
    if (op.numbers.size() != rule->numbers) {
      return absl::InvalidArgumentError(absl::StrCat(
          "post-op \"", op.name, "\" has ", op.numbers.size(), " numbers; needs ", rule->numbers));
    }
    if (!rule->operand) continue;
    const Operand& operand = request.inputs[input++];
    bool fits = operand.present && operand.type == DType::kF32 &&
                operand.shape.size() == output.shape.size();
    for (size_t i = 0; fits && i < output.shape.size(); ++i)
      fits = operand.shape[i] == 1 || operand.shape[i] == output.shape[i];
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("post-op \"", op.name, "\": operand [", absl::StrJoin(operand.shape, ", "),
                       "] does not broadcast to [", absl::StrJoin(output.shape, ", "), "]"));
    }
  }
  return absl::OkStatus();
}

Request WithoutPostOps(const Request& request) {
  Request alone = request;
  alone.inputs.resize(request.inputs.size() - CountOperands(request.post_ops));
  alone.post_ops.clear();
  alone.spent.reset();
  return alone;
}

std::unique_ptr<Primitive> WithPostOpLoops(std::unique_ptr<Primitive> primitive,
                                           const Request& request) {
  if (request.post_ops.empty()) return primitive;
  return std::make_unique<PostOpLoops>(std::move(primitive), request);
}

}  // namespace kiln::library
