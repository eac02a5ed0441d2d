// SPDX-License-Identifier: Apache-2.0
// From an ONNX TensorProto to a Tensor: a view where the bytes lie well in a mapped file, else a
// copy.
#ifndef KILN_GRAPH_ONNX_TENSOR_PROTO_H_
#define KILN_GRAPH_ONNX_TENSOR_PROTO_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/bump_allocator.h"
#include "base/dtype.h"
#include "base/tensor.h"
#include "graph/onnx/limits.h"

namespace kiln::onnx {

class ExternalFiles;
class TensorProto;

// Kiln's type for the number of an ONNX element type. kUnimplemented, naming the type, for strings,
// complex numbers, floats of 8 and integers of 4 bits; kInvalidArgument for a number that ONNX does
// not define.
absl::StatusOr<DType> ToDType(int64_t onnx_type);

// A tensor that has the bytes at `at` of a file, as a view or as a copy.
struct TensorOrigin {
  Tensor tensor;
  const char* at = nullptr;
};

// Where the bytes of tensors are, and what may still be taken.
struct TensorSource {
  absl::string_view bytes;                     // the whole file: raw_offset counts from its start
  std::shared_ptr<void> owner;                 // keeps `bytes` alive; null: tensors are copied out
  ExternalFiles* external = nullptr;           // null: external data is refused
  int64_t max_bytes = kDefaultMaxTotalBytes;   // that all tensors may have together
  int64_t taken = 0;                           // of these
  int64_t table_elements = kMaxTableElements;  // that converters may still compute
  std::vector<TensorOrigin>* origins = nullptr;  // null: not wanted
  BumpAllocator allocator = {};                  // memory for copies
};

// Counts a tensor of `bytes` bytes. kResourceExhausted beyond source.max_bytes, with both values;
// `what` begins the message: "has 8 bytes".
absl::Status TakeBytes(TensorSource& source, int64_t bytes, absl::string_view what);

// The tensor of a proto that Parse has made of a skeleton of source.bytes. Sizes are checked before
// memory is taken: kInvalidArgument if the extents are negative or do not fit the bytes,
// kResourceExhausted as TakeBytes, or over the rank limit, kUnimplemented as ToDType. Messages do
// not name the tensor; the caller does. Every element of a bool tensor is 0 or 1.
absl::StatusOr<Tensor> ToTensor(const TensorProto& proto, TensorSource& source);

// Reads a serialized TensorProto, as the ONNX node tests keep their data. The tensor owns its
// elements.
absl::StatusOr<Tensor> ReadTensorProto(absl::string_view bytes);

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_TENSOR_PROTO_H_
