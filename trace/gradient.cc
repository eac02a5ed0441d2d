// SPDX-License-Identifier: Apache-2.0
#include "trace/gradient.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "kiln/trace_grad.h"
#include "trace/failure.h"

namespace kiln::tracing {

GradientRecorder::GradientRecorder(ThreadState& thread, std::shared_ptr<Tapes> tapes,
                                   std::unique_ptr<Log> log)
    : Recorder(tapes->table, *log, tapes->operands),
      thread_(thread),
      parent_(thread.recorder),
      tapes_(std::move(tapes)),
      own_log_(std::move(log)) {
  ++tapes_->depth;
  thread.recorder = this;
}

std::unique_ptr<GradientRecorder> GradientRecorder::Begin(ThreadState& thread) {
  if (thread.tapes == nullptr) thread.tapes = std::make_shared<Tapes>();
  Tapes& tapes = *thread.tapes;
  if (tapes.depth == 0 && tapes.table.full()) {  // no log has signatures of it
    tapes.by_words.clear();
    tapes.table.RetainOnly({});
  }
  tapes.logs.reserve(tapes.logs.size() + tapes.depth + 1);  // the destructor takes no memory
  std::unique_ptr<Log> log;
  if (tapes.logs.empty()) {
    log = std::make_unique<Log>();
  } else {
    log = std::move(tapes.logs.back());
    tapes.logs.pop_back();
  }
  return std::unique_ptr<GradientRecorder>(
      new GradientRecorder(thread, thread.tapes, std::move(log)));
}

GradientRecorder::~GradientRecorder() {
  Leave();
  log_.Clear(CatchExceptions("gradient", [] {
    return absl::FailedPreconditionError(
        "gradient: a value of a function that was differentiated is held, and has no elements; "
        "return it beside the function's value (value_and_grad)");
  }));
  if (tapes_->logs.size() < tapes_->logs.capacity()) tapes_->logs.push_back(std::move(own_log_));
  --tapes_->depth;
}

void GradientRecorder::Leave() {
  if (running_) thread_.recorder = parent_;
  running_ = false;
}

void GradientRecorder::Failed(const absl::Status& status, bool ends) {
  if (ends && status_.ok()) status_ = status;
}

Array GradientRecorder::AddArgument(const ValueType& type) {
  Node* const node = NewNode();
  node->type = type;
  Array argument(Share(node));
  log_.AddArgument(node);
  return argument;
}

absl::Status GradientRecorder::Read(Node* node, Location where) {
  if (node->failed()) return node->error;
  const absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("gradient: a value is read at ", ToString(where),
                   " in a function that is differentiated, and has none before its end; return it "
                   "beside the function's value (value_and_grad), or compute it outside"));
  Failed(status, /*ends=*/true);
  return status;
}

absl::Status GradientRecorder::AddResults(std::span<const Array> values, Location where) {
  KILN_RETURN_IF_ERROR(status_);
  if (values.empty()) {
    return Invalid("gradient (", ToString(where),
                   "): the function returns nothing; return a float of one element first");
  }
  for (const Array& value : values) KILN_RETURN_IF_ERROR(value.status());
  const ValueType& type = values[0].node()->type;
  if (!IsFloat(type.type) || type.num_elements() != 1) {
    return Invalid("gradient (", ToString(where), "): the function's value is ", type.ToString(),
                   ", expected a float of one element; ",
                   IsFloat(type.type) ? "reduce it (reduce_sum, reduce_mean)"
                                      : "cast it where that has a gradient");
  }
  log_.Begin(Operation::Kind::kResults, values.size(), where);
  for (const Array& value : values) log_.AddNode(value.node());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Tape>> GradientRecorder::GetOrMakeTape(size_t arguments,
                                                                            bool wanted) {
  constexpr size_t kMost = 256;  // memory: tapes of a thread
  log_.words.push_back(2 * arguments + (wanted ? 1 : 0));
  const auto found = tapes_->by_words.find(WordsView(log_.words));
  if (found != tapes_->by_words.end()) return found->second;
  KILN_ASSIGN_OR_RETURN(Tape tape, Tape::Of(log_, arguments, wanted));
  if (tapes_->by_words.size() >= kMost) tapes_->by_words.clear();
  auto made = std::make_shared<const Tape>(std::move(tape));
  tapes_->by_words.emplace(log_.words, made);
  return made;
}

absl::StatusOr<std::vector<Array>> GradientRecorder::Finish(std::span<const Array> values,
                                                            std::span<const Array> arguments,
                                                            bool wanted, Location where) {
  Leave();
  KILN_RETURN_IF_ERROR(AddResults(values, where));
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const Tape> tape,
                        GetOrMakeTape(arguments.size(), wanted));
  try {
    absl::StatusOr<std::vector<Array>> made = tape->Write(log_, arguments, *parent_, where);
    if (!made.ok()) parent_->Failed(made.status(), /*ends=*/false);
    return made;
  } catch (...) {
    const absl::Status status = StatusOfException("gradient");
    parent_->Failed(status, /*ends=*/true);
    return status;
  }
}

GradientCall::GradientCall(Array* arguments, const size_t* by, size_t num_by,
                           Location where) noexcept
    : num_by_(num_by), where_(where) {
  error_ = CatchExceptions("gradient", [&]() -> absl::Status {
    ThreadState* const thread = ThreadState::Get();
    const Entry entry(thread);
    if (!entry.ok()) return Entry::Refusal(thread);
    for (size_t i = 0; i < num_by; ++i) {
      const Array& argument = arguments[by[i]];
      KILN_RETURN_IF_ERROR(argument.status());
      if (!IsFloat(argument.dtype())) {
        return Invalid("gradient (", ToString(where), "): argument ", by[i], " is ",
                       argument.node()->type.ToString(),
                       ", expected floats; cast it before the call, or do not differentiate by it");
      }
      by_.push_back(argument);
    }
    recorder_ = GradientRecorder::Begin(*thread).release();
    for (size_t i = 0; i < num_by; ++i)
      arguments[by[i]] = recorder_->AddArgument(by_[i].node()->type);
    return absl::OkStatus();
  });
  // The function is run: it says how many results there are.
  for (size_t i = 0; i < num_by && !error_.ok(); ++i)
    arguments[by[i]] = Array(NewErrorNode(error_));
}

GradientCall::~GradientCall() {
  const Entry entry(recorder_ != nullptr ? ThreadState::Get() : nullptr);
  delete recorder_;
}

void GradientCall::Finish(Array* values, size_t count, bool wanted, Array* gradients) noexcept {
  if (error_.ok()) {
    error_ = CatchExceptions("gradient", [&]() -> absl::Status {
      ThreadState* const thread = ThreadState::Get();
      const Entry entry(thread);
      if (!entry.ok()) return Entry::Refusal(thread);
      KILN_ASSIGN_OR_RETURN(std::vector<Array> made,
                            recorder_->Finish({values, count}, by_, wanted, where_));
      const size_t given = wanted ? count : 0;
      for (size_t k = 0; k < made.size(); ++k)
        (k < given ? values[k] : gradients[k - given]) = std::move(made[k]);
      return absl::OkStatus();
    });
  }
  if (error_.ok()) return;
  for (size_t k = 0; k < count && wanted; ++k) values[k] = Array(NewErrorNode(error_));
  for (size_t k = 0; k < num_by_; ++k) gradients[k] = Array(NewErrorNode(error_));
}

}  // namespace kiln::tracing
