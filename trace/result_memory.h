// SPDX-License-Identifier: Apache-2.0
// ResultMemory: where a result of a program goes. Memory that nobody has any more is used again, so
// that a loop takes none: `w = step(w)` goes to and fro between two blocks.
#ifndef KILN_TRACE_RESULT_MEMORY_H_
#define KILN_TRACE_RESULT_MEMORY_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kiln/runtime.h"
#include "kiln/tensor.h"
#include "trace/value_type.h"

namespace kiln::tracing {

class ResultMemory {
 public:
  explicit ResultMemory(const ValueType& type) : type_(type) {}

  // Finds memory that nobody else has. kResourceExhausted: there is no more.
  absl::Status Find(const std::shared_ptr<Runtime>& runtime);
  // What was found, with a share in its memory; whoever has a copy keeps it.
  const Tensor& tensor() const { return blocks_[current_]; }
  void Drop() { blocks_.clear(); }

 private:
  // memory: that is kept; as many as a value and the next one computed of it take.
  static constexpr size_t kMost = 2;
  static bool IsFree(const Tensor& block);

  ValueType type_;
  std::vector<Tensor> blocks_;
  size_t current_ = 0;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_RESULT_MEMORY_H_
