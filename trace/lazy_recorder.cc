// SPDX-License-Identifier: Apache-2.0
#include "trace/lazy_recorder.h"

#include <iterator>
#include <utility>

#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "compiler/check_options.h"

namespace kiln::tracing {

absl::Status LazyRecorder::Recorded() {
  ++stats_.operations;
  if (!loop_.Add(log_)) return absl::OkStatus();
  ++stats_.loop_flushes;
  return Flush();
}

void LazyRecorder::Failed(const absl::Status& status, bool ends) {
  if (!ends) return;
  log_.Clear(status);
  loop_.Clear();
}

absl::Status LazyRecorder::Read(Node* node, Location) {
  if (node->ready()) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(Flush());
  return node->failed() ? node->error : absl::OkStatus();
}

Program* LazyRecorder::GetOrAddProgram() {
  // compile time and memory: programs that are kept, and those of them that have run once and keep
  // more than their graph.
  constexpr size_t kMost = 256, kResident = 32;
  // Which values are live is part of the key.
  for (const uint32_t id : live_) log_.words.push_back(id);
  log_.words.push_back(live_.size());
  if (const auto found = by_words_.find(WordsView(log_.words)); found != by_words_.end()) {
    programs_.splice(programs_.begin(), programs_, found->second);
    return programs_.front().program.get();
  }
  programs_.push_front({log_.words, std::make_unique<Program>(0, log_.operations.size(), live_)});
  by_words_.emplace(WordsView(programs_.front().words), programs_.begin());
  ++stats_.structures;
  if (programs_.size() > kResident)
    std::next(programs_.begin(), kResident)->program->ReleaseScratch();
  if (programs_.size() > kMost) {
    by_words_.erase(WordsView(programs_.back().words));
    programs_.pop_back();
  }
  return programs_.front().program.get();
}

absl::Status LazyRecorder::RunAll() {
  live_.clear();
  log_.FindLive(live_);
  if (live_.empty()) return absl::OkStatus();
  Program* const program = GetOrAddProgram();
  KILN_RETURN_IF_ERROR(program->Run(log_, eager_, engine_, options_, /*timed=*/false));
  ++stats_.runs;
  if (program->runs() == 2 && options_.compile_mode != CompileMode::kNever) ++stats_.compiled;
  return absl::OkStatus();
}

absl::Status LazyRecorder::Flush() {
  const absl::Status status = CatchExceptions("running lazy arrays", [&] { return RunAll(); });
  log_.Clear(status);
  loop_.Clear();
  return status;
}

absl::Status LazyRecorder::SetOptions(const CompileOptions& options) {
  KILN_RETURN_IF_ERROR(CheckOptions(options));
  const absl::Status status = Flush();
  Forget();
  options_ = options;
  return status;
}

void LazyRecorder::Tidy() {
  (void)Flush();  // an error is that of its arrays
  Forget();
}

void LazyRecorder::Forget() {
  by_words_.clear();
  programs_.clear();
  eager_.Clear();
  table_.RetainOnly({});
}

}  // namespace kiln::tracing
