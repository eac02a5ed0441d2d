// SPDX-License-Identifier: Apache-2.0
// CallTable: the different calls of a recorder (an operator with its attributes), each with a
// number, and the types of their results. A call that was seen before costs no memory; the owner
// bounds what others take (RetainOnly). Belongs to one caller at a time.
#ifndef KILN_TRACE_CALL_TABLE_H_
#define KILN_TRACE_CALL_TABLE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/op.h"
#include "kiln/trace.h"
#include "trace/value_type.h"
#include "trace/words.h"

namespace kiln::tracing {

// An operator with attributes, and how often it gives a result.
struct CallSignature {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<Attribute> given;  // all of a call, absent ones too: views of `op` and `attrs`
  uint32_t id = 0;
  size_t num_results = 1;
  // Whether operand k has an integer type of its own: OpDef::index_inputs.
  bool IsIndex(size_t k) const {
    const InputRange& range = op->index_inputs;
    return range.first >= 0 && static_cast<int64_t>(k) >= range.first &&
           (range.last < 0 || static_cast<int64_t>(k) <= range.last);
  }
  // Whether a call is of this signature, where that is seen at once; false: ask the table.
  bool Is(const OpDef& other, std::span<const Attribute> attributes, size_t results) const {
    return op == &other && num_results == results && given.size() == attributes.size() &&
           (given.empty() || HasBeenGiven(attributes));
  }
  // As many as there are.
  bool HasBeenGiven(std::span<const Attribute> attributes) const;
  // "softmax {axis = 1}"
  std::string ToString() const;
};

class CallTable {
 public:
  // The signature of these; lives as long as the table. `likely` is one of its signatures, or null.
  // kInvalidArgument: an attribute is wrong.
  absl::StatusOr<const CallSignature*> GetOrAdd(const OpDef& op,
                                                std::span<const Attribute> attributes,
                                                size_t num_results,
                                                const CallSignature* likely = nullptr);
  // Types of the results for operands of these types; null is an absent one. Valid until the next
  // call. An error as the operator's rule says.
  absl::StatusOr<std::span<const ValueType>> Infer(const CallSignature& signature,
                                                   std::span<const ValueType* const> operands);

  // Whether there are more signatures than RetainOnly left, by kMost or twice as many.
  bool full() const { return size() > most_; }
  // Forgets all signatures but these, of which every one is in the table; numbers of the others are
  // given again. Invalidates what Infer gave.
  void RetainOnly(const std::vector<const CallSignature*>& signatures);

 private:
  // memory: signatures and lists of types, of some 4 KB with what is found by them.
  static constexpr size_t kMost = 2048;
  size_t size() const { return by_words_.size() + types_.size(); }

  // What each signature was asked for last, and what came of it.
  struct Last {
    std::vector<ValueType> operands;  // empty: an absent one was among them, or nothing yet
    const std::vector<ValueType>* results = nullptr;
  };
  const CallSignature*& RecentOf(const OpDef& op);
  absl::StatusOr<const std::vector<ValueType>*> InferAnew(
      const CallSignature& signature, std::span<const ValueType* const> operands);
  bool IsLast(const Last& last, std::span<const ValueType* const> operands) const;

  size_t most_ = kMost;
  std::deque<CallSignature> signatures_;  // by number; some are free
  std::vector<uint32_t> free_;
  std::deque<Last> last_;  // by signature
  // What calls of an operator were last, by its address; or those of another operator.
  std::array<const CallSignature*, 128> recent_ = {};
  std::unordered_map<Words, const CallSignature*, WordsHash, WordsEqual> by_words_;
  std::unordered_map<Words, std::vector<ValueType>, WordsHash, WordsEqual> types_;
  Words key_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_CALL_TABLE_H_
