// SPDX-License-Identifier: Apache-2.0
#include "python/tensor.h"

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/deferred.h"
#include "python/status.h"

namespace kiln::python {
namespace {

constexpr std::array<const char*, kNumDTypes> kNames = {
    "float32", "float64", "float16", "bfloat16", "int8",   "int16", "int32",
    "int64",   "uint8",   "uint16",  "uint32",   "uint64", "bool"};

// A share in a Python object, given back with the GIL whenever that is.
class Held {
 public:
  explicit Held(nb::object object) : object_(object.release().ptr()) {}
  explicit Held(const Py_buffer& view) : view_(view) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (HaveGil()) {
      Release(object_, view_);
    } else {
      Later([object = object_, view = view_]() mutable { Release(object, view); });
    }
  }

 private:
  static void Release(PyObject* object, Py_buffer& view) {
    if (view.obj != nullptr) PyBuffer_Release(&view);
    Py_XDECREF(object);
  }

  PyObject* object_ = nullptr;
  Py_buffer view_ = {};
};

// The type that a format of PEP 3118 and its size say.
std::optional<DType> TypeOf(const Py_buffer& view) {
  const char* format = view.format != nullptr ? view.format : "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strlen(format) != 1) return std::nullopt;
  using Types = std::array<std::optional<DType>, 4>;  // of 1, 2, 4 and 8 bytes
  const auto sized = [&](const Types& types) -> std::optional<DType> {
    for (size_t k = 0; k < types.size(); ++k) {
      if (view.itemsize == ssize_t{1} << k) return types[k];
    }
    return std::nullopt;
  };
  if (*format == '?') return sized(Types{DType::kBool});
  if (std::strchr("efd", *format) != nullptr)
    return sized(Types{std::nullopt, DType::kF16, DType::kF32, DType::kF64});
  if (std::strchr("bhilqn", *format) != nullptr)
    return sized(Types{DType::kI8, DType::kI16, DType::kI32, DType::kI64});
  if (std::strchr("BHILQN", *format) != nullptr)
    return sized(Types{DType::kU8, DType::kU16, DType::kU32, DType::kU64});
  return std::nullopt;
}

// From bytes to elements.
std::vector<int64_t> ElementStrides(const ssize_t* bytes, int rank, ssize_t size, Subject what) {
  std::vector<int64_t> strides(static_cast<size_t>(rank));
  for (size_t i = 0; i < strides.size(); ++i) {
    if (bytes[i] % size != 0) {
      RaiseInvalid(absl::StrCat(what.text(), ": stride ", i, " is ", bytes[i],
                                " bytes, which is no multiple of its elements of ", size,
                                "; copy the array (numpy.ascontiguousarray)"));
    }
    strides[i] = bytes[i] / size;
  }
  return strides;
}

Tensor FromBuffer(const Py_buffer& view, Subject what) {
  auto owner = std::make_shared<Held>(view);  // from here on what is thrown gives it back
  const std::optional<DType> type = TypeOf(view);
  if (!type) {
    RaiseInvalid(absl::StrCat(what.text(), ": elements are of format \"",
                              view.format != nullptr ? view.format : "", "\" and ", view.itemsize,
                              " bytes, which Kiln does not have; convert the array"));
  }
  std::vector<int64_t> strides;
  if (view.strides != nullptr)
    strides = ElementStrides(view.strides, view.ndim, view.itemsize, what);
  return Tensor::View(view.buf, *type, {view.shape, view.shape + view.ndim}, std::move(strides),
                      std::move(owner));
}

// An array of ml_dtypes' bfloat16, for which NumPy gives no buffer.
std::optional<Given> FromBFloat16(nb::handle array, Subject what) {
  if (!nb::hasattr(array, "__array_interface__") || !nb::hasattr(array, "dtype")) return {};
  const nb::str type(nb::object(array.attr("dtype")));
  if (PyUnicode_CompareWithASCIIString(type.ptr(), "bfloat16") != 0) return {};
  const nb::object told = array.attr("__array_interface__");
  const nb::object data = told["data"], bytes = told["strides"];
  std::vector<int64_t> strides;
  if (!bytes.is_none()) {
    const std::vector<int64_t> wide = ExtentsFrom(bytes, what);
    const std::vector<ssize_t> sized(wide.begin(), wide.end());
    strides = ElementStrides(sized.data(), static_cast<int>(sized.size()), 2, what);
  }
  void* const memory = PyLong_AsVoidPtr(nb::object(data[0]).ptr());
  return Given{Tensor::View(memory, DType::kBF16, ExtentsFrom(nb::object(told["shape"]), what),
                            std::move(strides), std::make_shared<Held>(nb::borrow(array))),
               nb::object(data[1]).is(nb::bool_(true)), Home::kNumpy};
}

bool IsTorch(nb::handle array) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  const nb::object torch = modules.attr("get")("torch");
  return !torch.is_none() && nb::isinstance(array, torch.attr("Tensor"));
}

// Asks for DLPack 1.x, and for what was before it where the producer does not know that.
nb::object CapsuleOf(nb::handle array) {
  const nb::object make = array.attr("__dlpack__");
  try {
    return make(nb::arg("max_version") = nb::make_tuple(1, 1));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return make();
}

std::optional<Given> FromProtocol(nb::handle array, Subject what) {
  if (!nb::hasattr(array, "__dlpack__")) return {};
  Given given = FromCapsule(CapsuleOf(array), what);
  if (IsTorch(array)) given.home = Home::kTorch;
  return given;
}

// NumPy, if it is there; objects live as long as the process.
struct Numpy {
  PyObject* ndarray = nullptr;
  std::array<PyObject*, kNumDTypes> types = {};

  // The GIL guards it: a thread that waited in a static's initialisation would keep the GIL from
  // the one that imports.
  static const Numpy& Get() {
    static const Numpy* numpy = nullptr;
    if (numpy == nullptr) {
      const Numpy* const found = new Numpy(Find());
      if (numpy == nullptr) numpy = found;  // else another thread has found the same meanwhile
    }
    return *numpy;
  }

 private:
  static Numpy Find() {
    Numpy found;
    try {
      const nb::module_ numpy = nb::module_::import_("numpy");
      for (size_t k = 0; k < found.types.size(); ++k) {
        if (static_cast<DType>(k) != DType::kBF16)
          found.types[k] = nb::object(numpy.attr("dtype")(kNames[k])).release().ptr();
      }
      found.ndarray = nb::object(numpy.attr("ndarray")).release().ptr();
      const nb::module_ more = nb::module_::import_("ml_dtypes");
      const nb::object bfloat16 = numpy.attr("dtype")(more.attr("bfloat16"));
      found.types[static_cast<size_t>(DType::kBF16)] = nb::object(bfloat16).release().ptr();
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) throw;
    }
    return found;
  }
};

}  // namespace

const char* NumpyName(DType type) { return kNames[static_cast<size_t>(type)]; }

DType DTypeNamed(const std::string& name) {
  for (size_t k = 0; k < kNames.size(); ++k) {
    if (kNames[k] == name) return static_cast<DType>(k);
  }
  if (const std::optional<DType> type = ParseDType(name)) return *type;
  RaiseInvalid(absl::StrCat("dtype: is \"", name, "\", expected float32, int64 or the like"));
}

std::string Subject::text() const {
  return name.empty() ? kind : absl::StrCat(kind, " \"", name, "\"");
}

Given TensorOf(nb::handle array, Subject what) {
  PyTensor* own = nullptr;
  if (nb::try_cast(array, own, false) && own != nullptr)
    return {own->tensor, own->read_only, Home::kNumpy};
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_RECORDS_RO) == 0)
    return {FromBuffer(view, what), view.readonly != 0, Home::kNumpy};
  PyErr_Clear();
  if (std::optional<Given> given = FromBFloat16(array, what)) return *std::move(given);
  if (std::optional<Given> given = FromProtocol(array, what)) return *std::move(given);
  RaiseInvalid(absl::StrCat(what.text(), ": is a ", nb::cast<std::string>(nb::inst_name(array)),
                            ", expected an array: NumPy's, or one with a buffer or __dlpack__"));
}

Tensor OutputOf(nb::handle array, Subject what) {
  Given given = TensorOf(array, what);
  if (given.read_only)
    RaiseInvalid(
        absl::StrCat(what.text(), ": the array is read-only; give one that can be written"));
  return std::move(given.tensor);
}

nb::object ArrayOf(Tensor tensor, Home home) {
  if (!tensor.is_dense()) tensor = tensor.Clone();
  const nb::tuple shape = ExtentsOf(tensor.shape());
  const auto type = static_cast<size_t>(tensor.dtype());
  nb::object own = nb::cast(PyTensor{std::move(tensor)});
  if (home == Home::kTorch) return nb::module_::import_("torch").attr("from_dlpack")(own);
  const Numpy& numpy = Numpy::Get();
  if (home == Home::kKiln || numpy.ndarray == nullptr || numpy.types[type] == nullptr) return own;
  PyObject* const arguments[] = {shape.ptr(), numpy.types[type], own.ptr()};
  PyObject* const made = PyObject_Vectorcall(numpy.ndarray, arguments, 3, nullptr);
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

Bytes BytesOf(nb::handle object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) nb::raise_python_error();
  return {view.buf, static_cast<size_t>(view.len), std::make_shared<Held>(view)};
}

nb::tuple ExtentsOf(const std::vector<int64_t>& extents) {
  nb::object made = nb::steal(PyTuple_New(static_cast<ssize_t>(extents.size())));
  if (!made.is_valid()) nb::raise_python_error();
  for (size_t i = 0; i < extents.size(); ++i)
    PyTuple_SET_ITEM(made.ptr(), static_cast<ssize_t>(i), PyLong_FromLongLong(extents[i]));
  return nb::borrow<nb::tuple>(made);
}

std::vector<int64_t> ExtentsFrom(nb::handle shape, Subject what) {
  std::vector<int64_t> extents;
  if (PyLong_Check(shape.ptr())) {
    extents.push_back(nb::cast<int64_t>(shape));
    return extents;
  }
  try {
    for (nb::handle extent : shape) extents.push_back(nb::cast<int64_t>(nb::int_(extent)));
  } catch (nb::python_error&) {
    RaiseInvalid(absl::StrCat(what.text(), ": shape is ", nb::cast<std::string>(nb::repr(shape)),
                              ", expected whole numbers"));
  } catch (const std::bad_cast&) {
    RaiseInvalid(absl::StrCat(what.text(), ": shape is ", nb::cast<std::string>(nb::repr(shape)),
                              ", expected whole numbers of 64 bits"));
  }
  return extents;
}

}  // namespace kiln::python
