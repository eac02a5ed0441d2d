// SPDX-License-Identifier: Apache-2.0
// Recorder: where the operations of a thread go, and the one there is without a trace.
//
// Each thread has a LazyRecorder. While it is in a traced function its recorder is the CallCore of
// that call (function.h), but for regions that are left out of the trace.
#ifndef KILN_TRACE_RECORDER_H_
#define KILN_TRACE_RECORDER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "kiln/trace.h"
#include "trace/call_table.h"
#include "trace/engine.h"
#include "trace/log.h"
#include "trace/loop_detector.h"
#include "trace/program.h"
#include "trace/steps.h"

namespace kiln::tracing {

// One call as the program makes it.
struct Request {
  const OpDef& op;
  std::span<const Operand* const> operands;
  std::span<const Attribute> attributes;
  Location where;
};

// Of the operands of a request; null: one that is absent. Kept by who owns a log, as its memory is.
struct OperandTypes {
  std::vector<const ValueType*> types;
  std::vector<ValueType> numbers;  // types of those that are numbers
  std::vector<uint64_t> bits;
};

// An operand as it is written down.
struct TypedOperand {
  enum class Kind : uint8_t { kAbsent, kArray, kNumber, kConstant };
  Kind kind = Kind::kAbsent;
  Node* node = nullptr;  // kArray; kConstant with axes
  ValueType type;        // but of kArray
  uint64_t bits = 0;     // of numbers
};

class Recorder {
 public:
  Recorder(CallTable& table, Log& log, OperandTypes& operands)
      : table_(table), log_(log), operands_(operands) {}
  virtual ~Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Writes the call down; the results get a count each. An error as the operator's rule says.
  absl::Status Apply(const Request& request, std::span<Array> results);
  // The same for operands whose types are known: for calls that the program did not write itself.
  absl::Status Write(const OpDef& op, std::span<const Attribute> attributes,
                     std::span<const TypedOperand> operands, Location where,
                     std::span<Array> results);
  // A call has failed: its results carry the error. `ends`: nothing can be written down after it.
  virtual void Failed(const absl::Status& /*status*/, bool /*ends*/) {}
  // The recorder that this one's values go to in the end; null: none but itself.
  virtual Recorder* around() const { return nullptr; }
  // Makes sure that the node has its value. It is one of the log's, or of no log.
  virtual absl::Status Read(Node* node, Location where) = 0;
  bool Owns(const Node* node) const { return node->log.load(std::memory_order_relaxed) == &log_; }

 protected:
  // Whether operands of other logs must have their elements.
  virtual bool needs_values() const { return true; }
  // The signature of a request that is made of extents, for any that this log's values have;
  // `signature` is that of its numbers.
  virtual absl::StatusOr<const CallSignature*> Open(const Request& /*request*/,
                                                    const CallSignature* signature) {
    return signature;
  }
  // Called before a call is written down: makes room where the table has too many signatures.
  virtual void Tidy() {}
  // What is written down next; an error ends it before it is.
  virtual absl::Status CheckCall(const CallSignature& signature,
                                 std::span<const ValueType* const> types,
                                 std::span<const ValueType>* results) = 0;
  // The call at the end of the log has its operands; its results are not there yet.
  virtual absl::Status Compare() { return absl::OkStatus(); }
  virtual absl::Status Written() { return absl::OkStatus(); }

  CallTable& table_;
  Log& log_;
  absl::Status status_;  // why nothing is written down any more
  // What is replayed: then CheckCall gives no types, for its values have them.
  const Log* replayed_ = nullptr;

 private:
  // What the next call is, which has attributes, as the record has it; null: there is none.
  const CallSignature* Likely(std::span<const Attribute> attributes) const;
  // A call of `pad` whose fill value is a number.
  absl::Status ApplyPad(const Request& request, std::span<Array> results);
  absl::Status FindTypes(const Request& request, const CallSignature& signature);
  // Makes sure that the node can be an operand.
  absl::Status CheckOperand(Node* node, Location where);
  // The call at the end of the log gets its results.
  absl::Status AddResults(std::span<const ValueType> types, std::span<Array> results);
  OperandTypes& operands_;
};

class LazyRecorder : public Recorder {
 public:
  explicit LazyRecorder(Engine& engine)
      : Recorder(own_table_, own_log_, own_operands_), engine_(engine) {}
  absl::Status Read(Node* node, Location where) override;
  // Runs what is written down.
  absl::Status Flush();
  absl::Status SetOptions(const CompileOptions& options);
  LazyStats stats() const { return stats_; }

 protected:
  void Tidy() override;
  absl::Status CheckCall(const CallSignature& signature, std::span<const ValueType* const> types,
                         std::span<const ValueType>* results) override;
  absl::Status Written() override;

 private:
  struct Structure {
    Words words;
    std::unique_ptr<Program> program;
  };
  Program* Find();
  absl::Status RunAll();
  // Forgets structures, and all that is found by signatures; nothing is written down.
  void Forget();

  Engine& engine_;
  CallTable own_table_;
  Log own_log_;
  OperandTypes own_operands_;
  LoopDetector loop_;
  CompileOptions options_ = BackgroundCompile();
  LazyStats stats_;
  Steps steps_;
  // Newest use first; a view of the words of each finds it.
  std::list<Structure> structures_;
  std::unordered_map<WordsView, std::list<Structure>::iterator, WordsHash, WordsEqual> by_words_;
  std::vector<uint32_t> live_;
};

class CallCore;  // function.h
struct Tapes;    // gradient.h

// Of the calling thread. Null: the thread is ending.
struct ThreadState {
  Engine engine;
  LazyRecorder lazy{engine};
  Recorder* recorder = &lazy;    // where operations go
  CallCore* call = nullptr;      // the traced function that the thread is in
  std::shared_ptr<Tapes> tapes;  // null: nothing was differentiated
  // In a region of it that is left out.
  bool excluded() const {
    const Recorder* outermost = recorder;
    while (outermost->around() != nullptr) outermost = outermost->around();
    return call != nullptr && outermost == &lazy;
  }
  // In a traced function, or in one that is differentiated, and not in such a region.
  bool records() const { return recorder != &lazy; }
  static ThreadState* Get();
};

// A value for the node, whatever it belongs to. kFailedPrecondition: another thread's.
absl::Status Evaluate(Node* node, Location where);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_RECORDER_H_
