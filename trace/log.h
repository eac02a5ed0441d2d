// SPDX-License-Identifier: Apache-2.0
// Log: operations in the order of the program, on values that are numbered in the order in which
// they came up. All that a later call is compared with, or a structure is found by, stands in
// `words`: two logs with the same words are the same program: the same operations and data-flow
// edges, for the same types.
//
//   x * 2.0f + y      values      0 x (argument), 1 number, 2 mul, 3 y (captured), 4 add
//                     operations  mul(0, 1) -> 2, add(2, 3) -> 4
//
// A log has a share in the nodes of its values: one that nobody else has is not needed. Once its
// vectors have grown nothing here takes memory. Belongs to one thread.
#ifndef KILN_TRACE_LOG_H_
#define KILN_TRACE_LOG_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kiln/array.h"
#include "trace/call_table.h"
#include "trace/node.h"
#include "trace/value_type.h"
#include "trace/words.h"

namespace kiln::tracing {

inline constexpr uint32_t kAbsent = UINT32_MAX;  // an operand that is not there

struct LogValue {
  enum class Kind : uint8_t {
    kResult,    // of operation `origin`
    kArgument,  // number `origin` of the traced function
    kCaptured,  // an array from elsewhere, which operation `origin` takes first
    kNumber,    // an input of no axes, of operation `origin`
    kConstant,  // such a number that decides what is computed, or an array of numbers that do
  };
  LogValue() {}  // NOLINT: what `type` does not use stays as it is
  Kind kind = Kind::kResult;
  uint32_t origin = 0;
  // Of numbers, in the value's type; of captured arrays, DeviceBits; of arrays of kConstant, a
  // hash.
  uint64_t bits = 0;
  Node* node = nullptr;  // of arrays
  ValueType type;
};

// A device as one number; 0 is the host.
inline uint64_t DeviceBits(Device device) {
  return static_cast<uint64_t>(device.kind) << 16 | static_cast<uint16_t>(device.index);
}
inline Device DeviceOf(uint64_t bits) {
  return {static_cast<DeviceKind>(bits >> 16), static_cast<uint16_t>(bits)};
}

struct Operation {
  enum class Kind : uint8_t { kCall, kRead, kExclude, kResume, kResults };
  Kind kind = Kind::kCall;
  const CallSignature* signature = nullptr;  // of kCall
  // The same for any extents of the values before it, where attributes are made of those
  // (extents.h); else `signature`. It is what words have.
  const CallSignature* symbolic = nullptr;
  uint32_t first_operand = 0, num_operands = 0;  // in Log::operands
  uint32_t first_result = kAbsent;               // of kCall: values in a row
  uint32_t first_word = 0;
  Location where;
};

// From nodes to their values in a log.
class NodeTable {
 public:
  const uint32_t* Find(const Node* node) const;
  void Insert(const Node* node, uint32_t id);
  void Clear();

 private:
  struct Slot {
    const Node* node = nullptr;
    uint32_t id = 0;
  };
  size_t Place(const Node* node) const;
  std::vector<Slot> slots_;
  std::vector<size_t> used_;
};

// The bytes of a dense tensor of the CPU.
void AppendElements(Words& words, const Tensor& tensor);

class Log {
 public:
  Log() = default;
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::vector<Operation> operations;
  std::vector<uint32_t> operands;  // values, or kAbsent
  std::vector<LogValue> values;
  Words words;
  // Whether words tell which arrays are captured and what numbers are: then programs have the
  // numbers as constants.
  bool exact = false;
  // And captured arrays, whose elements nobody changes.
  bool constant_arrays = false;

  // Begins an operation; as many operands follow.
  void Begin(Operation::Kind kind, const CallSignature* signature, const CallSignature* symbolic,
             size_t operand_count, Location where) {
    Operation& operation = operations.emplace_back();
    operation.kind = kind;
    operation.signature = signature;
    operation.symbolic = symbolic;
    operation.first_operand = static_cast<uint32_t>(operands.size());
    operation.first_word = static_cast<uint32_t>(words.size());
    operation.where = where;
    // The count says where the next operation begins: the encoding is unambiguous.
    words.push_back(static_cast<uint64_t>(kind) << 56 | operand_count << 32 |
                    (symbolic != nullptr ? symbolic->id : 0));
  }
  // One that is no call.
  void Begin(Operation::Kind kind, size_t operand_count, Location where) {
    Begin(kind, nullptr, nullptr, operand_count, where);
  }
  void AddAbsent();
  void AddNumber(LogValue::Kind kind, DType type, uint64_t bits);
  // A value of this log, or one from elsewhere, which must have its elements where they are needed.
  void AddNode(Node* node);
  // One that has, as a kConstant: words have its elements.
  void AddConstant(Node* node);
  // Argument k of a traced function, before all operations; takes over a count of its node.
  void AddArgument(Node* node);
  // The results of a kCall get nodes of these types, each with a count for the caller.
  void AddResult(const ValueType& type);

  // The number of a node here; kAbsent if it is none of this log's.
  uint32_t IdOf(const Node* node) const {
    if (node->log.load(std::memory_order_relaxed) == this) return node->id;
    const uint32_t* const known = externals_.Find(node);
    return known != nullptr ? *known : kAbsent;
  }
  std::span<const uint32_t> OperandsOf(const Operation& operation) const {
    return {operands.data() + operation.first_operand, operation.num_operands};
  }
  // Results of operations that others than the log hold and that have no value yet.
  void FindLive(std::vector<uint32_t>& ids) const;
  // Gives up all nodes. Those without a value that somebody holds get the error, which is OK only
  // where there are none.
  void Clear(const absl::Status& why);
  void ReleaseValue(uint32_t id) { ReleaseNode(values[id], absl::OkStatus()); }
  // Forgets the nodes of results and arguments, and of captured arrays unless they are compared;
  // constants stay.
  void ReleaseNodes();

 private:
  void ReleaseNode(LogValue& value, const absl::Status& why);
  NodeTable externals_;
  std::vector<Node*> free_;  // nodes without a value, for the next results
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_LOG_H_
