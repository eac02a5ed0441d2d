// SPDX-License-Identifier: Apache-2.0
// GradientRecorder: where operations of a function go that is differentiated (kiln/trace_grad.h):
// into a log of its own, none of which runs. At its end the log is made a Tape, or one is found by
// its words, and the tape is written into the recorder around.
//
// What the function takes from elsewhere need not have a value.
#ifndef KILN_TRACE_GRADIENT_H_
#define KILN_TRACE_GRADIENT_H_

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/trace.h"
#include "trace/call_table.h"
#include "trace/log.h"
#include "trace/recorder.h"
#include "trace/tape.h"
#include "trace/thread_state.h"
#include "trace/words.h"

namespace kiln::tracing {

// What a thread knows of the functions that it has differentiated.
struct Tapes {
  CallTable table;
  OperandTypes operands;  // of the call that is recorded now
  std::unordered_map<Words, std::shared_ptr<const Tape>, WordsHash, WordsEqual> by_words;
  std::vector<std::unique_ptr<Log>> logs;  // for the next functions
  size_t depth = 0;                        // of functions that are running
};

class GradientRecorder : public Recorder {
 public:
  static std::unique_ptr<GradientRecorder> Begin(ThreadState& thread);
  ~GradientRecorder() override;

  // A placeholder for an argument of this type; all of them before the function runs.
  Array AddArgument(const ValueType& type);
  absl::Status Read(Node* node, Location where) override;
  Recorder* parent() const override { return parent_; }
  void Failed(const absl::Status& status, bool ends) override;
  // The function has ended: `values` are what it returned. Gives the values, if they are wanted,
  // and the gradients by `arguments`, as values of the recorder around.
  absl::StatusOr<std::vector<Array>> Finish(std::span<const Array> values,
                                            std::span<const Array> arguments, bool wanted,
                                            Location where);

 protected:
  bool needs_values() const override { return false; }

 private:
  GradientRecorder(ThreadState& thread, std::shared_ptr<Tapes> tapes, std::unique_ptr<Log> log);
  void Leave();
  absl::Status AddResults(std::span<const Array> values, Location where);
  absl::StatusOr<std::shared_ptr<const Tape>> GetOrMakeTape(size_t arguments, bool wanted);

  ThreadState& thread_;
  Recorder* const parent_;
  const std::shared_ptr<Tapes> tapes_;
  std::unique_ptr<Log> own_log_;
  bool running_ = true;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_GRADIENT_H_
