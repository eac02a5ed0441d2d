// SPDX-License-Identifier: Apache-2.0
// Tensors as .npy files, the array format of NumPy: magic, version, a header that is a Python
// dictionary, then the elements.
//
// Read: format versions 1, 2 and 3, C or Fortran order, little-endian, f64 f32 f16, the integers,
// bool. Everything else (big-endian, records, strings, complex) is refused by name. Written:
// version 1.0 (2.0 where the header is too long), byte for byte what numpy.save writes. NumPy has
// no bfloat16: it is written as a uint16 array of the same bits, see BitsAsBFloat16.
#ifndef KILN_BASE_NPY_H_
#define KILN_BASE_NPY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor.h"

namespace kiln {

// The tensor in a file: dense and owning its memory. Follows links and reads pipes. kNotFound and
// the other codes of ErrnoStatus; kDataLoss when the file is damaged, too short or too long;
// kUnimplemented for arrays of another kind. Bool elements other than 0 become 1.
absl::StatusOr<Tensor> ReadNpy(absl::string_view path);

// The same from bytes in memory; messages have no path.
absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes);

// Writes a tensor of CPU memory, whatever its strides, replacing the file.
absl::Status WriteNpy(absl::string_view path, const Tensor& tensor);
std::string NpyBytes(const Tensor& tensor);

// The same memory seen as bf16: for a u16 tensor read from a file that stands for bfloat16 values.
Tensor BitsAsBFloat16(const Tensor& u16);

}  // namespace kiln

#endif  // KILN_BASE_NPY_H_
