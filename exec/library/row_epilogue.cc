// SPDX-License-Identifier: Apache-2.0
#include "exec/library/row_epilogue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/loops.h"
#include "exec/library/post_ops.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

bool IsChannelVector(const Operand& operand) {
  for (size_t i = 0; i < operand.shape.size(); ++i) {
    if (i != 1 && operand.shape[i] != 1) return false;
  }
  return operand.shape[1] == 1 || operand.strides[1] == 1;
}

class FinishedRows final : public Primitive {
 public:
  FinishedRows(std::unique_ptr<Primitive> primitive, RowEpilogue finish, int64_t rows)
      : primitive_(std::move(primitive)), finish_(std::move(finish)), rows_(rows) {}

  int64_t scratch_bytes() const override { return primitive_->scratch_bytes(); }
  int64_t packed_bytes() const override { return primitive_->packed_bytes(); }
  std::string description() const override { return primitive_->description(); }

  std::unique_ptr<CallState> NewState() const override { return primitive_->NewState(); }

  absl::Status Run(const Arguments& arguments) const override {
    KILN_RETURN_IF_ERROR(primitive_->Run(arguments));
    ParallelRanges(arguments.context, rows_,
                   [&](int64_t begin, int64_t end) { finish_.Run(arguments, begin, end - begin); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Primitive> primitive_;
  const RowEpilogue finish_;
  const int64_t rows_;
};

}  // namespace

absl::StatusOr<RowEpilogue> RowEpilogue::Make(const Request& request) {
  const Operand& output = request.outputs[0];
  RowEpilogue made;
  made.columns_ = output.shape[1];
  size_t operand = request.inputs.size() - CountOperands(request.post_ops);
  for (const PostOp& op : request.post_ops) {
    const bool first = &op == &request.post_ops.front();
    if (first && op.name == "relu") {
      made.low_ = 0;
      continue;
    }
    if (first && op.name == "clip" && op.numbers[0] <= op.numbers[1]) {
      made.low_ = static_cast<float>(op.numbers[0]);
      made.high_ = static_cast<float>(op.numbers[1]);
      continue;
    }
    Step& step = made.steps_.emplace_back();
    step.loop = FindPostOpRow(op.name);
    if (step.loop == nullptr)
      return absl::UnimplementedError(absl::StrCat("no loop of rows for post-op ", op.name));
    std::copy(op.numbers.begin(), op.numbers.end(), step.numbers);
    if (!FindPostOp(op.name)->operand) continue;
    step.input = operand;
    const Operand& given = request.inputs[operand++];
    if (given.shape == output.shape && IsChannelsLast(given)) {
      step.operand = Step::Operand::kRows;
    } else if (IsChannelVector(given) && given.shape[1] == output.shape[1]) {
      step.operand = Step::Operand::kVector;
    } else {
      return absl::UnimplementedError(
          absl::StrCat("the operand of post-op ", op.name, " lies in another way"));
    }
  }
  return made;
}

void RowEpilogue::Run(const Arguments& arguments, int64_t row, int64_t rows) const {
  static constexpr float kNone = 0;
  float* const y = static_cast<float*>(arguments.outputs[0]) + row * columns_;
  for (const Step& step : steps_) {
    const auto* const operand = static_cast<const float*>(
        step.operand == Step::Operand::kNone ? &kNone : arguments.inputs[step.input]);
    switch (step.operand) {
      case Step::Operand::kNone:
        step.loop(y, operand, 0, rows * columns_, step.numbers);
        break;
      case Step::Operand::kRows:
        step.loop(y, operand + row * columns_, 1, rows * columns_, step.numbers);
        break;
      case Step::Operand::kVector:
        for (int64_t r = 0; r < rows; ++r)
          step.loop(y + r * columns_, operand, 1, columns_, step.numbers);
        break;
    }
  }
}

std::unique_ptr<Primitive> WithRowEpilogue(std::unique_ptr<Primitive> primitive, RowEpilogue finish,
                                           int64_t rows) {
  return std::make_unique<FinishedRows>(std::move(primitive), std::move(finish), rows);
}

}  // namespace kiln::library
