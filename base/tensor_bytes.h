// SPDX-License-Identifier: Apache-2.0
// The elements of a dense tensor as bytes, for digests and comparisons. Not in tensor.h, whose
// interface has no third-party type.
#ifndef KILN_BASE_TENSOR_BYTES_H_
#define KILN_BASE_TENSOR_BYTES_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "base/tensor.h"

namespace kiln {

// Valid as long as the tensor's memory.
inline absl::string_view BytesOf(const Tensor& dense) {
  return {static_cast<const char*>(dense.data()), static_cast<size_t>(dense.size_bytes())};
}

}  // namespace kiln

#endif  // KILN_BASE_TENSOR_BYTES_H_
