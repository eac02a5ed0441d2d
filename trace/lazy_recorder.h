// SPDX-License-Identifier: Apache-2.0
// LazyRecorder: where operations of a thread go outside of traces. A read flushes the log: it runs
// as one program, cached by its key (the words of the log and which values are live). So does the
// end of a loop's rounds (loop_detector.h). Belongs to one thread.
#ifndef KILN_TRACE_LAZY_RECORDER_H_
#define KILN_TRACE_LAZY_RECORDER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "kiln/trace.h"
#include "trace/eager_executor.h"
#include "trace/engine.h"
#include "trace/loop_detector.h"
#include "trace/program.h"
#include "trace/recorder.h"

namespace kiln::tracing {

class LazyRecorder : public Recorder {
 public:
  explicit LazyRecorder(Engine& engine)
      : Recorder(own_table_, own_log_, own_operands_), engine_(engine) {}
  absl::Status Read(Node* node, Location where) override;
  // `ends`: an exception left the log half written; what it has no value for gets the error.
  void Failed(const absl::Status& status, bool ends) override;
  // Runs what is recorded.
  absl::Status Flush();
  absl::Status SetOptions(const CompileOptions& options);
  LazyStats stats() const { return stats_; }

 protected:
  void Tidy() override;
  absl::Status Recorded() override;

 private:
  struct CachedProgram {
    Words words;
    std::unique_ptr<Program> program;
  };
  // The program for the log, which is now the newest.
  Program* GetOrAddProgram();
  absl::Status RunAll();
  // Forgets all programs, and all that is found by signatures; the log is empty.
  void Forget();

  Engine& engine_;
  CallTable own_table_;
  Log own_log_;
  OperandTypes own_operands_;
  LoopDetector loop_;
  CompileOptions options_ = BackgroundCompile();
  LazyStats stats_;
  EagerExecutor eager_;
  // Newest use first; a view of the words of each finds it.
  std::list<CachedProgram> programs_;
  std::unordered_map<WordsView, std::list<CachedProgram>::iterator, WordsHash, WordsEqual>
      by_words_;
  std::vector<uint32_t> live_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_LAZY_RECORDER_H_
