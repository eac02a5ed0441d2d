// SPDX-License-Identifier: Apache-2.0
// Arrays of Python as kiln::Tensor and back, without a copy: NumPy's and whatever else has the
// buffer protocol, ml_dtypes' bfloat16 in NumPy's arrays, and DLPack (PyTorch, JAX).
//
//   Given x = TensorOf(array, {"input", "x"});  // x.tensor holds the array
//   nb::object y = ArrayOf(tensor, x.home);   // of the caller's library
//
// All of it needs the GIL; tensors made here may be destroyed without it.
#ifndef KILN_PYTHON_TENSOR_H_
#define KILN_PYTHON_TENSOR_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/tensor.h"

namespace kiln::python {

namespace nb = nanobind;

// kiln.Tensor.
struct PyTensor {
  Tensor tensor;
  bool read_only = false;
};

// Whose arrays a caller wants back.
enum class Home : unsigned char { kNumpy, kKiln, kTorch };

struct Given {
  Tensor tensor;
  bool read_only = false;
  Home home = Home::kNumpy;
};

// "float32", "bfloat16", "bool": NumPy's names of element types, and back; both know all of
// Kiln's. kiln's own ("f32") are taken too.
const char* NumpyName(DType type);
DType DTypeNamed(const std::string& name);  // raises InvalidArgument

// What a message is about: `input "x"`. It is only put together for a message.
struct Subject {
  const char* kind;
  absl::string_view name = "";

  std::string text() const;
};

// Raises InvalidArgument, with `what` as its subject: no array, a type that Kiln does not have,
// memory that cannot be described.
Given TensorOf(nb::handle array, Subject what);
// The same for memory that a run writes: raises where it is read-only.
Tensor OutputOf(nb::handle array, Subject what);

// A view of the tensor's memory: NumPy's array, or kiln.Tensor where there is no NumPy or no
// ml_dtypes for a bfloat16.
nb::object ArrayOf(Tensor tensor, Home home);

nb::tuple ExtentsOf(const std::vector<int64_t>& extents);
std::vector<int64_t> ExtentsFrom(nb::handle shape, Subject what);

// Bytes of an object with a buffer, and a share in it.
struct Bytes {
  const void* data = nullptr;
  size_t size = 0;
  std::shared_ptr<void> owner;
};
Bytes BytesOf(nb::handle object);

// ---- DLPack.
nb::object ToCapsule(const PyTensor& tensor, bool versioned);
Given FromCapsule(nb::handle capsule, Subject what);

}  // namespace kiln::python

#endif  // KILN_PYTHON_TENSOR_H_
