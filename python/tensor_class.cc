// SPDX-License-Identifier: Apache-2.0
// kiln.Tensor: memory of Kiln for those who have no NumPy, and what arrays of NumPy are views of.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "python/bindings.h"
#include "python/status.h"
#include "python/tensor.h"

namespace kiln::python {
namespace {

// PEP 3118 has no bfloat16.
constexpr const char* kFormats[] = {"f", "d", "e", nullptr, "b", "h", "i",
                                    "q", "B", "H", "I",     "Q", "?"};

// The extents and strides of one view.
struct Dims {
  std::vector<ssize_t> shape, strides;
};

int Refuse(Py_buffer* view, const char* why) {
  view->obj = nullptr;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const PyTensor& own = *nb::inst_ptr<PyTensor>(self);
  const Tensor& tensor = own.tensor;
  const bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  const char* const format = kFormats[static_cast<size_t>(tensor.dtype())];
  if ((flags & PyBUF_WRITABLE) != 0 && own.read_only)
    return Refuse(view, "kiln.Tensor: the memory is read-only");
  if (!strided && !tensor.is_dense())
    return Refuse(view, "kiln.Tensor: the elements do not lie densely");
  if ((flags & PyBUF_FORMAT) != 0 && format == nullptr)
    return Refuse(view, "kiln.Tensor: buffers have no format for bfloat16");
  *view = {};
  view->buf = tensor.data();
  view->len = tensor.size_bytes();
  view->itemsize = static_cast<ssize_t>(SizeOf(tensor.dtype()));
  view->readonly = own.read_only ? 1 : 0;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
  view->ndim = tensor.rank();
  if ((flags & PyBUF_ND) == PyBUF_ND) {
    auto dims = std::make_unique<Dims>();
    dims->shape.assign(tensor.shape().begin(), tensor.shape().end());
    for (const int64_t stride : tensor.strides()) dims->strides.push_back(stride * view->itemsize);
    view->shape = dims->shape.data();
    if (strided) view->strides = dims->strides.data();
    view->internal = dims.release();
  }
  view->obj = self;
  Py_INCREF(self);
  return 0;
}

void ReleaseBuffer(PyObject*, Py_buffer* view) noexcept {
  delete static_cast<Dims*>(view->internal);
}

PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
                        {Py_bf_releasebuffer, reinterpret_cast<void*>(ReleaseBuffer)},
                        {0, nullptr}};

PyTensor Empty(nb::handle shape, const std::string& dtype) {
  const std::vector<int64_t> extents = ExtentsFrom(shape, {"empty"});
  for (const int64_t extent : extents) {
    if (extent < 0) RaiseInvalid(absl::StrCat("empty: extent is ", extent, ", expected 0 or more"));
  }
  return {Tensor::Allocate(DTypeNamed(dtype), extents)};
}

// Of what numpy.asarray asks for, all but the view itself is numpy's to do.
nb::object ToNumpy(const PyTensor& self, nb::handle dtype, nb::handle copy) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array = ArrayOf(self.tensor, Home::kNumpy);
  if (self.read_only) array.attr("setflags")(nb::arg("write") = false);
  if (!dtype.is_none() && !array.attr("dtype").equal(numpy.attr("dtype")(dtype)))
    return array.attr("astype")(dtype);
  return !copy.is_none() && nb::cast<bool>(copy) ? nb::object(array.attr("copy")()) : array;
}

std::string Text(const PyTensor& self) {
  return absl::StrCat("<kiln.Tensor ", NumpyName(self.tensor.dtype()), " ",
                      nb::cast<std::string>(nb::repr(ExtentsOf(self.tensor.shape()))), ">");
}

}  // namespace

void BindTensor(nb::module_& module) {
  nb::class_<PyTensor>(module, "Tensor", nb::type_slots(kSlots),
                       "A view of memory with an element type, a shape and strides.\n\n"
                       "It has the buffer protocol and DLPack, so numpy.asarray(t) and "
                       "torch.from_dlpack(t) are views too.")
      .def(
          "__init__",
          [](PyTensor* made, nb::handle array) {
            Given given = TensorOf(array, {"Tensor"});
            new (made) PyTensor{std::move(given.tensor), given.read_only};
          },
          nb::arg("array"), nb::sig("def __init__(self, array: object) -> None"),
          "A view of an array of any library.")
      .def_prop_ro(
          "shape", [](const PyTensor& self) { return ExtentsOf(self.tensor.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const PyTensor& self) { return ExtentsOf(self.tensor.strides()); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "In elements.")
      .def_prop_ro("dtype", [](const PyTensor& self) { return NumpyName(self.tensor.dtype()); })
      .def_prop_ro("nbytes", [](const PyTensor& self) { return self.tensor.size_bytes(); })
      .def(
          "numpy", [](const PyTensor& self) { return ToNumpy(self, nb::none(), nb::none()); },
          nb::sig("def numpy(self) -> Any"), "The same memory as an array of NumPy.")
      .def("__array__", ToNumpy, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
           nb::sig("def __array__(self, dtype: object = None, copy: bool | None = None) -> Any"))
      .def(
          "__dlpack__",
          [](const PyTensor& self, nb::handle, nb::handle version, nb::handle, nb::handle copy) {
            if (!copy.is_none() && nb::cast<bool>(copy))
              return ToCapsule({self.tensor.Clone()}, !version.is_none());
            return ToCapsule(self, !version.is_none() && nb::cast<int>(version[0]) >= 1);
          },
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | "
                  "None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = "
                  "None) -> Any"))
      .def(
          "__dlpack_device__", [](const PyTensor&) { return nb::make_tuple(1, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__repr__", Text);
  module.def("empty", Empty, nb::arg("shape"), nb::arg("dtype") = "float32",
             nb::sig("def empty(shape: int | Sequence[int], dtype: str = 'float32') -> Tensor"),
             "New memory, dense, aligned to 64 bytes and not initialised.");
}

}  // namespace kiln::python
