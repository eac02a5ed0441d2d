// SPDX-License-Identifier: Apache-2.0
// What of a tensor from DLPack (kiln/tensor.h) only its owner knows.
#ifndef KILN_BASE_DLPACK_H_
#define KILN_BASE_DLPACK_H_

#include "kiln/tensor.h"

namespace kiln {

// Whether the tensor's memory came from a producer that forbids writing. Views that share in the
// same owner are as read-only as it is.
bool IsReadOnly(const Tensor& tensor);

}  // namespace kiln

#endif  // KILN_BASE_DLPACK_H_
