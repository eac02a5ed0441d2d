// SPDX-License-Identifier: Apache-2.0
// An input that is bound in parts (Context::BindParts): tensors that lie apart, and are copied
// together before each run.
//
//   KILN_ASSIGN_OR_RETURN(InputParts parts, InputParts::Of(port, 2, {a, b}));
//   memory.Reserve(parts.bytes());
//   parts.CopyTo(memory.data());     // rows of a, then rows of b; allocates nothing
#ifndef KILN_EXEC_INPUT_PARTS_H_
#define KILN_EXEC_INPUT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "exec/strided_copy.h"
#include "kiln/model.h"

namespace kiln {

class InputParts {
 public:
  // kInvalidArgument: there is none, a port without a first dim, or parts that do not go together;
  // whether the whole suits the port is not asked.
  static absl::StatusOr<InputParts> Of(const PortInfo& port, size_t input,
                                       const std::vector<Tensor>& parts);

  size_t input() const { return input_; }
  const std::vector<int64_t>& shape() const { return shape_; }  // of the whole
  int64_t bytes() const { return bytes_; }
  void CopyTo(void* whole) const;

 private:
  struct Part {
    Tensor tensor;
    StridedCopy copy;
    int64_t offset = 0;  // in bytes
  };
  size_t input_ = 0;
  std::vector<int64_t> shape_;
  int64_t bytes_ = 0;
  std::vector<Part> parts_;
};

}  // namespace kiln

#endif  // KILN_EXEC_INPUT_PARTS_H_
