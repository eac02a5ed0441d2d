// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/library/post_ops.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kiln/exec/library/loops.h"

namespace kiln::library {
namespace {

float Clamp(float x, float low, float high) {
  // Comparisons with NaN are false: it falls through.
  if (x < low) x = low;
  return x > high ? high : x;
}
float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

constexpr PostOpRule kRules[] = {
    {"add", 0, true, [](float x, float y, const float*) { return x + y; }, false},
    {"clip", 2, false, [](float x, float, const float* c) { return Clamp(x, c[0], c[1]); }, true},
    {"elu", 1, false,
     [](float x, float, const float* c) { return x > 0 ? x : std::expm1(x) * c[0]; }, true},
    {"gelu_erf", 0, false,
     [](float x, float, const float*) { return x * 0.5F * (std::erf(x * 0.70710678F) + 1); }, true},
    {"gelu_tanh", 0, false,
     [](float x, float, const float*) {
       return x * 0.5F * (std::tanh((x + x * x * x * 0.044715F) * 0.79788456F) + 1);
     },
     true},
    {"hard_sigmoid", 2, false,
     [](float x, float, const float* c) { return Clamp(x * c[0] + c[1], 0, 1); }, true},
    {"hard_swish", 0, false,
     [](float x, float, const float*) { return x * Clamp(x * (1.0F / 6) + 0.5F, 0, 1); }, true},
    {"leaky_relu", 1, false, [](float x, float, const float* c) { return x < 0 ? x * c[0] : x; },
     true},
    {"linear", 2, false, [](float x, float, const float* c) { return x * c[0] + c[1]; }, false},
    {"mul", 0, true, [](float x, float y, const float*) { return x * y; }, false},
    {"relu", 0, false, [](float x, float, const float*) { return x < 0 ? 0.0F : x; }, true},
    {"sigmoid", 0, false, [](float x, float, const float*) { return Sigmoid(x); }, true},
    {"swish", 1, false, [](float x, float, const float* c) { return x * Sigmoid(x * c[0]); }, true},
    {"tanh", 0, false, [](float x, float, const float*) { return std::tanh(x); }, true},
};

// Strides of an operand along the output's axes: 0 where it broadcasts.
std::vector<int64_t> StepsOver(const Operand& operand) {
  std::vector<int64_t> steps = operand.strides;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (operand.shape[i] == 1) steps[i] = 0;
  }
  return steps;
}

class PostOpLoops final : public Primitive {
 public:
  PostOpLoops(std::unique_ptr<Primitive> primitive, const Request& request)
      : primitive_(std::move(primitive)), shape_(request.outputs[0].shape) {
    rows_ = 1;
    for (size_t i = 0; i + 1 < shape_.size(); ++i) rows_ *= shape_[i];
    output_ = StepsOver(request.outputs[0]);
    size_t operand = request.inputs.size() - CountOperands(request);
    for (const PostOp& op : request.post_ops) {
      Step& step = steps_.emplace_back();
      step.rule = FindPostOp(op.name);
      step.numbers.assign(op.numbers.begin(), op.numbers.end());
      if (!step.rule->operand) continue;
      step.input = operand;
      step.strides = StepsOver(request.inputs[operand++]);
    }
  }

  int64_t scratch_bytes() const override { return primitive_->scratch_bytes(); }
  int64_t packed_bytes() const override { return primitive_->packed_bytes(); }
  std::string description() const override { return primitive_->description(); }

  absl::Status Run(const Arguments& arguments) override {
    if (absl::Status status = primitive_->Run(arguments); !status.ok()) return status;
    ParallelRanges(arguments.context, rows_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) Row(arguments, row);
    });
    return absl::OkStatus();
  }

 private:
  struct Step {
    const PostOpRule* rule;
    std::vector<float> numbers;
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
      const float* operand = nullptr;
      int64_t step_operand = 0;
      if (step.rule->operand) {
        operand = static_cast<const float*>(arguments.inputs[step.input]);
        if (!shape_.empty()) {
          operand += OffsetOf(row, step.strides);
          step_operand = step.strides.back();
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        float& element = y[i * step_y];
        element = step.rule->apply(element, operand == nullptr ? 0 : operand[i * step_operand],
                                   step.numbers.data());
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

size_t CountOperands(const Request& request) {
  size_t count = 0;
  for (const PostOp& op : request.post_ops) {
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
  const size_t operands = CountOperands(request);
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
  alone.inputs.resize(request.inputs.size() - CountOperands(request));
  alone.post_ops.clear();
  return alone;
}

std::unique_ptr<Primitive> WithPostOpLoops(std::unique_ptr<Primitive> primitive,
                                           const Request& request) {
  if (request.post_ops.empty()) return primitive;
  return std::make_unique<PostOpLoops>(std::move(primitive), request);
}

}  // namespace kiln::library
