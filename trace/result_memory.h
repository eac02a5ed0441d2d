// SPDX-License-Identifier: Apache-2.0
// ResultMemory: where a result of a program goes. Unreferenced memory is used again, so that a loop
// allocates nothing: `w = step(w)` alternates between two blocks. Belongs to one caller at a time;
// the tensors may be released by any thread.
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

  // Makes tensor() memory that nobody else refers to, newly allocated where need be.
  // kResourceExhausted: there is none.
  absl::Status Acquire(const std::shared_ptr<Runtime>& runtime);
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
