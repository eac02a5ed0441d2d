// SPDX-License-Identifier: Apache-2.0
// Recorder: where the operations of a thread go. It checks each call, infers the types of its
// results and appends it to a log; what a subclass does with the log is its own: LazyRecorder runs
// it at a read, CallCore compares it with a record, GradientRecorder differentiates it. A thread's
// recorders are in its ThreadState. Belongs to one thread.
#ifndef KILN_TRACE_RECORDER_H_
#define KILN_TRACE_RECORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kiln/trace.h"
#include "trace/call_table.h"
#include "trace/log.h"

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

// An operand as it is recorded.
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

  // Records the call; each result gets a reference. An error as the operator's rule says.
  absl::Status Apply(const Request& request, std::span<Array> results);
  // The same for operands whose types are known: for calls that the program did not write itself.
  absl::Status Write(const OpDef& op, std::span<const Attribute> attributes,
                     std::span<const TypedOperand> operands, Location where,
                     std::span<Array> results);
  // A call has failed: its results carry the error. `ends`: nothing can be recorded after it.
  virtual void Failed(const absl::Status& /*status*/, bool /*ends*/) {}
  // The recorder that this one's values go to in the end; null: there is none.
  virtual Recorder* parent() const { return nullptr; }
  // Makes sure that the node has its value. It is one of the log's, or of no log.
  virtual absl::Status Read(Node* node, Location where) = 0;
  bool Owns(const Node* node) const { return node->log.load(std::memory_order_relaxed) == &log_; }

 protected:
  // Whether operands of other logs must have their elements.
  virtual bool needs_values() const { return true; }
  // The signature of a request whose attributes are made of extents, for any extents of this log's
  // values; `signature` is that of their numbers.
  virtual absl::StatusOr<const CallSignature*> WithSymbolicExtents(const Request& /*request*/,
                                                                   const CallSignature* signature) {
    return signature;
  }
  // Called before a call is recorded where the table has too many signatures: makes room.
  virtual void Tidy() {}
  // Infers the types of the results of the next call; with an error it is not recorded.
  virtual absl::Status CheckCall(const CallSignature& signature,
                                 std::span<const ValueType* const> types,
                                 std::span<const ValueType>* results);
  // Where a log is replayed: the call at the end of the log has its operands; its results are not
  // there yet.
  virtual absl::Status Compare() { return absl::OkStatus(); }
  // The call at the end of the log is complete.
  virtual absl::Status Recorded() { return absl::OkStatus(); }

  CallTable& table_;
  Log& log_;
  absl::Status status_;  // why nothing is recorded any more
  // What is replayed: then CheckCall gives no types, for its values have them.
  const Log* replayed_ = nullptr;

 private:
  // What the next call is, which has attributes, as the record has it; null: there is none.
  const CallSignature* Likely(std::span<const Attribute> attributes) const;
  absl::Status FindTypes(const Request& request, const CallSignature& signature);
  // Makes sure that the node can be an operand.
  absl::Status CheckOperand(Node* node, Location where);
  // The call at the end of the log gets its results.
  absl::Status AddResults(std::span<const ValueType> types, std::span<Array> results);
  OperandTypes& operands_;
};

// Makes sure that the node, whatever log it belongs to, has its value. kFailedPrecondition: another
// thread's. (thread_state.cc)
absl::Status Evaluate(Node* node, Location where);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_RECORDER_H_
