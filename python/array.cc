// SPDX-License-Identifier: Apache-2.0
// kiln.Array and the operators on it.
#include "python/array.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "python/bindings.h"
#include "python/gil.h"
#include "python/status.h"

namespace kiln::python {
namespace {

// Whether a source file is one of the package's own, which is not where a user is.
bool IsOwn(absl::string_view file) {
  const size_t slash = file.rfind('/');
  if (slash == absl::string_view::npos) return false;
  const absl::string_view folder = file.substr(0, slash), name = file.substr(slash + 1);
  return folder.size() > 5 && folder.substr(folder.size() - 5) == "/kiln" &&
         (name == "ops.py" || name == "_trace.py" || name == "_arrays.py" || name == "_numpy.py" ||
          name == "_grad.py");
}

nb::object NumpyGeneric() {
  const nb::object numpy = nb::module_::import_("sys").attr("modules").attr("get")("numpy");
  return numpy.is_none() ? numpy : nb::object(numpy.attr("generic"));
}

// A scalar of NumPy as a number of Python; any other object as it is.
nb::object Plain(nb::handle object) {
  const nb::object generic = NumpyGeneric();
  if (!generic.is_none() && nb::isinstance(object, generic)) return object.attr("item")();
  return nb::borrow(object);
}

std::optional<Operand> NumberOf(nb::handle object, Location where) {
  PyObject* const number = object.ptr();
  if (PyBool_Check(number)) return Operand(number == Py_True, where);
  if (PyFloat_Check(number)) return Operand(PyFloat_AS_DOUBLE(number), where);
  if (!PyLong_Check(number)) return std::nullopt;
  int overflow = 0;
  const long long whole = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow == 0) return Operand(static_cast<int64_t>(whole), where);
  const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(number) : 0;
  if (overflow > 0 && !PyErr_Occurred()) return Operand(static_cast<uint64_t>(large), where);
  PyErr_Clear();
  RaiseInvalid(absl::StrCat("number: is ", nb::cast<std::string>(nb::repr(object)),
                            ", expected one of 64 bits"));
}

// Of whatever NumPy makes an array of: lists of numbers too.
nb::object AsArray(nb::handle object) {
  if (IsArray(object)) return nb::borrow(object);
  return nb::module_::import_("numpy").attr("asarray")(object);
}

Array ArrayFrom(nb::handle object, nb::handle dtype, bool copy) {
  Array made;
  if (Array* own = nullptr; nb::try_cast(object, own, false) && own != nullptr) {
    made = *own;
  } else {
    const Given given = TensorOf(AsArray(object), {"array"});
    made = Array::of(copy ? given.tensor.Clone() : given.tensor);
  }
  if (!dtype.is_none()) {
    const DType type = DTypeNamed(
        nb::cast<std::string>(nb::module_::import_("kiln._arrays").attr("dtype_name")(dtype)));
    static const OpDef* const cast = tracing::FindOperator("cast");
    const Operand operand(made, Caller());
    if (made.dtype() != type)
      made = tracing::Apply(cast, "cast", {&operand}, {{"to", std::optional(type)}}, Caller());
  }
  return Checked(std::move(made));
}

// ---- Operators.

bool IsOfIntegers(const PyOperand& x) { return x.array.valid() && !IsFloat(x.array.dtype()); }

// What NumPy does not give integers for, and Kiln's operators would.
void CheckIntegers(absl::string_view op, const PyOperand& x, const PyOperand& y, nb::handle b) {
  if (op == "div" && (IsOfIntegers(x) || IsOfIntegers(y))) {
    throw nb::type_error(
        "divide: an array is of integers, whose quotients are floats; cast it (kiln.ops.cast), or "
        "call kiln.ops.div, which truncates");
  }
  if (op != "pow" || !IsOfIntegers(x) || y.array.valid()) return;
  if (Plain(b).attr("__lt__")(0).is(nb::bool_(true)))
    throw nb::value_error("power: an array is of integers, which have no negative powers; cast it");
}

Array Called(const char* name, nb::handle a, nb::handle b) {
  const Location where = Caller();
  const PyOperand x(a, where), y(b, where);
  CheckIntegers(name, x, y, b);
  return Checked(WithoutGil([&] {
    return tracing::Apply(tracing::FindOperator(name), name, {&x.operand, &y.operand}, {}, where);
  }));
}

Array CalledOnOne(const char* name, nb::handle a) {
  const Location where = Caller();
  const PyOperand x(a, where);
  return Checked(WithoutGil(
      [&] { return tracing::Apply(tracing::FindOperator(name), name, {&x.operand}, {}, where); }));
}

// What Python asks of both sides in turn.
bool IsOperand(nb::handle object) {
  PyObject* const o = object.ptr();
  return PyFloat_Check(o) || PyLong_Check(o) || IsArray(object) || !Plain(object).is(object);
}

// Whose results Python says are bools.
bool IsEquality(absl::string_view op) { return op == "equal" || op == "not_equal"; }

// What the other side, which is no operand, says of equality. Python would go on to compare where
// both are in memory, which gives False for a list of the same numbers.
nb::object AskOther(absl::string_view op, nb::handle self, nb::handle other) {
  nb::object said = nb::borrow(other.type()).attr(op == "equal" ? "__eq__" : "__ne__")(other, self);
  if (!said.is(nb::handle(Py_NotImplemented))) return said;
  const auto type = nb::cast<std::string>(other.type().attr("__name__"));
  throw nb::type_error(absl::StrCat(op, ": an array is compared with ", type,
                                    ", expected an array or a number; make an array of it "
                                    "(kiln.array), or ask whether it is None")
                           .c_str());
}

nb::object Attempt(const char* name, nb::handle a, nb::handle b, nb::handle other) {
  if (IsOperand(other)) return nb::cast(Called(name, a, b));
  return IsEquality(name) ? AskOther(name, a, other) : nb::borrow(Py_NotImplemented);
}

struct Method {
  const char *left, *right, *op;
};
constexpr Method kMethods[] = {{"__add__", "__radd__", "add"},
                               {"__sub__", "__rsub__", "sub"},
                               {"__mul__", "__rmul__", "mul"},
                               {"__truediv__", "__rtruediv__", "div"},
                               {"__mod__", "__rmod__", "mod"},
                               {"__pow__", "__rpow__", "pow"},
                               {"__matmul__", "__rmatmul__", "matmul"},
                               {"__and__", "__rand__", "and"},
                               {"__or__", "__ror__", "or"},
                               {"__xor__", "__rxor__", "xor"},
                               {"__lt__", nullptr, "less"},
                               {"__le__", nullptr, "less_equal"},
                               {"__gt__", nullptr, "greater"},
                               {"__ge__", nullptr, "greater_equal"},
                               {"__eq__", nullptr, "equal"},
                               {"__ne__", nullptr, "not_equal"}};
constexpr std::pair<const char*, const char*> kUnary[] = {
    {"__neg__", "neg"}, {"__abs__", "abs"}, {"__invert__", "not"}};

void BindOperators(nb::class_<Array>& array) {
  for (const auto& [left, right, op] : kMethods) {
    array.def(
        left,
        [op = op](nb::handle self, nb::handle other) { return Attempt(op, self, other, other); },
        nb::arg("other").none(),
        nb::sig(absl::StrCat("def ", left, "(self, other: object, /) -> ",
                             IsEquality(op) ? "Any" : "Array")
                    .c_str()));
    if (right == nullptr) continue;
    array.def(
        right,
        [op = op](nb::handle self, nb::handle other) { return Attempt(op, other, self, other); },
        nb::arg("other").none(),
        nb::sig(absl::StrCat("def ", right, "(self, other: object, /) -> Array").c_str()));
  }
  for (const auto& [method, op] : kUnary)
    array.def(method, [op = op](nb::handle self) { return CalledOnOne(op, self); });
}

// ---- Reads.

Tensor Read(const Array& array) {
  const Location where = Caller();
  return Value(WithoutGil([&] { return array.tensor(where); }));
}

// The elements never change: NumPy's view is read-only.
nb::object ToNumpy(const Array& self, nb::handle dtype, nb::handle copy) {
  return nb::cast(PyTensor{Read(self), /*read_only=*/true}).attr("__array__")(dtype, copy);
}

nb::object Item(const Array& self) {
  if (self.num_elements() != 1) {
    RaiseInvalid(absl::StrCat("array: item() of ", self.num_elements(),
                              " elements, expected 1; reduce it, or read it with numpy()"));
  }
  return ToNumpy(self, nb::none(), nb::none()).attr("item")();
}

std::string Text(const Array& self) {
  return absl::StrCat("<kiln.Array ", NumpyName(self.dtype()), " ",
                      nb::cast<std::string>(nb::repr(ExtentsOf(self.extents()))), ">");
}

void BindReads(nb::class_<Array>& array) {
  array
      .def(
          "eval",
          [](nb::handle self) {
            const Location where = Caller();
            const Array& own = nb::cast<const Array&>(self);
            Check(WithoutGil([&] { return own.eval(where); }));
            return nb::borrow(self);
          },
          nb::sig("def eval(self) -> Array"), "Runs what the array is computed of; the array.")
      .def("item", Item, nb::sig("def item(self) -> Any"), "The one element. A read.")
      .def(
          "numpy", [](const Array& self) { return ToNumpy(self, nb::none(), nb::none()); },
          nb::sig("def numpy(self) -> Any"), "The elements as a read-only array of NumPy. A read.")
      .def("__array__", ToNumpy, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
           nb::sig("def __array__(self, dtype: object = None, copy: bool | None = None) -> Any"))
      .def(
          "__dlpack__",
          [](const Array& self, const nb::kwargs& how) {
            return nb::cast(PyTensor{Read(self)}).attr("__dlpack__")(**how);
          },
          nb::sig("def __dlpack__(self, **how: Any) -> Any"))
      .def(
          "__dlpack_device__", [](const Array&) { return nb::make_tuple(1, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__float__", [](const Array& self) { return nb::float_(Item(self)); })
      .def("__int__", [](const Array& self) { return nb::int_(Item(self)); })
      .def("__bool__", [](const Array& self) { return nb::bool_(Item(self)); });
}

// ---- What kiln/_arrays.py and kiln/_numpy.py do.

nb::object InPython(const char* name) { return nb::module_::import_("kiln._arrays").attr(name); }

void BindPlaces(nb::class_<Array>& array) {
  array
      .def(
          "__getitem__", [](nb::handle self, nb::handle key) { return InPython("get")(self, key); },
          nb::arg("key").none(), nb::sig("def __getitem__(self, key: Any, /) -> Array"))
      .def(
          "__array_ufunc__",
          [](nb::handle, nb::handle function, nb::handle method, const nb::args& operands,
             const nb::kwargs& settings) {
            return InPython("ufunc")(function, method, operands, settings);
          },
          nb::sig("def __array_ufunc__(self, function: Any, method: str, *operands: Any, "
                  "**settings: Any) -> Any"))
      .def(
          "__array_function__",
          [](nb::handle, nb::handle function, nb::handle /*types*/, nb::handle arguments,
             nb::handle named) {
            return nb::module_::import_("kiln._numpy").attr("call")(function, arguments, named);
          },
          nb::sig("def __array_function__(self, function: Any, types: Any, arguments: Any, named: "
                  "Any, /) -> Any"));
  constexpr std::pair<const char*, const char*> kReductions[] = {
      {"sum", "reduce_sum"}, {"mean", "reduce_mean"}, {"max", "reduce_max"}, {"min", "reduce_min"}};
  for (const auto& [method, op] : kReductions) {
    array.def(
        method,
        [op = op](nb::handle self, nb::handle axis, bool keepdims, const nb::kwargs& more) {
          return InPython("reduce")(op, self, axis, keepdims, **more);
        },
        nb::arg("axis") = nb::none(), nb::arg("keepdims") = false, nb::arg("more"),
        nb::sig(absl::StrCat("def ", method,
                             "(self, axis: int | Sequence[int] | None = None, keepdims: bool = "
                             "False, **more: None) -> Array")
                    .c_str()));
  }
}

// ---- Operators by name.

tracing::Attribute AttributeOf(const char* name, nb::handle value, Ints& ints, std::string& text) {
  if (value.is_none()) return {name, Ints()};
  if (PyLong_Check(value.ptr())) return {name, nb::cast<int64_t>(value)};
  if (PyFloat_Check(value.ptr())) return {name, nb::cast<double>(value)};
  if (PyUnicode_Check(value.ptr())) {
    text = nb::cast<std::string>(value);
    return {name, absl::string_view(text)};
  }
  ints = Ints(ExtentsFrom(value, {"attribute", name}));
  return {name, ints};
}

// kiln._kiln.apply("softmax", (x,), {"axis": -1}, {}, 1). Types are attributes whose values are
// names of element types.
nb::object Apply(const std::string& name, nb::tuple operands, nb::dict attributes, nb::dict types,
                 size_t num_results) {
  const Location where = Caller();
  std::vector<std::unique_ptr<PyOperand>> held;
  std::vector<const Operand*> list;
  for (nb::handle operand : operands) {
    held.push_back(std::make_unique<PyOperand>(operand, where));
    list.push_back(&held.back()->operand);
  }
  std::vector<std::string> names, texts(attributes.size());
  std::vector<Ints> ints(attributes.size());
  std::vector<tracing::Attribute> given;
  names.reserve(attributes.size() + types.size());
  for (auto [key, value] : attributes) {
    names.push_back(nb::cast<std::string>(key));
    const size_t k = names.size() - 1;
    given.push_back(AttributeOf(names[k].c_str(), value, ints[k], texts[k]));
  }
  for (auto [key, value] : types) {
    names.push_back(nb::cast<std::string>(key));
    std::optional<DType> type;
    if (!value.is_none()) type = DTypeNamed(nb::cast<std::string>(value));
    given.emplace_back(names.back().c_str(), type);
  }
  std::vector<Array> results(num_results);
  WithoutGil([&] {
    tracing::Apply(tracing::FindOperator(name.c_str()), name.c_str(), list.data(), list.size(),
                   given.data(), given.size(), where, results.data(), results.size());
    return 0;
  });
  if (num_results == 1) return nb::cast(Checked(results[0]));
  nb::list made;
  for (Array& result : results) made.append(Checked(std::move(result)));
  return nb::tuple(made);
}

}  // namespace

Location Caller() {
  nb::object frame =
      nb::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame.is_valid()) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    PyObject* const name = reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename;
    const char* const file = PyUnicode_AsUTF8(name);
    if (file != nullptr && !IsOwn(file)) {
      // A record keeps the pointer: the text, which all code of a file shares, stays.
      Py_INCREF(name);
      return {file, PyFrame_GetLineNumber(at)};
    }
    if (file == nullptr) PyErr_Clear();
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return {};
}

Array Checked(Array array) {
  Check(array.status());
  return array;
}

PyOperand::PyOperand(nb::handle object, Location where) {
  if (object.is_none()) return;
  if (Array* own = nullptr; nb::try_cast(object, own, false) && own != nullptr) {
    array = *own;
    operand = Operand(array, where);
    return;
  }
  const nb::object plain = Plain(object);
  if (const std::optional<Operand> number = NumberOf(plain, where)) {
    operand = *number;
    return;
  }
  array = Array::of(TensorOf(plain, {"operand"}).tensor.Clone());
  operand = Operand(array, where);
}

bool IsArray(nb::handle object) {
  if (nb::isinstance<Array>(object) || nb::isinstance<PyTensor>(object)) return true;
  if (nb::hasattr(object, "__dlpack__") || nb::hasattr(object, "__array_interface__")) {
    const nb::object generic = NumpyGeneric();
    return generic.is_none() || !nb::isinstance(object, generic);
  }
  return false;
}

void BindArray(nb::module_& module) {
  nb::class_<Array> array(
      module, "Array",
      "A value with operators. What it is computed of is recorded, and is computed in "
      "one program when the value is read.");
  array
      .def_prop_ro(
          "shape", [](const Array& self) { return ExtentsOf(self.extents()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("dtype", [](const Array& self) { return NumpyName(self.dtype()); })
      .def_prop_ro("ndim", [](const Array& self) { return self.rank(); })
      .def_prop_ro("size", [](const Array& self) { return self.num_elements(); })
      .def("__len__",
           [](const Array& self) {
             if (self.rank() == 0) throw nb::type_error("len() of an array of no axes");
             return self.extents()[0];
           })
      .def("__repr__", Text);
  array.attr("__hash__") = nb::none();
  BindOperators(array);
  BindReads(array);
  BindPlaces(array);
  module.def("array", ArrayFrom, nb::arg("object"), nb::arg("dtype") = nb::none(), nb::kw_only(),
             nb::arg("copy") = true,
             nb::sig("def array(object: object, dtype: object = None, *, copy: bool = True) -> "
                     "Array"),
             "An array of the elements of any array, or of what NumPy makes one of. Without `copy` "
             "it is over that memory: what is written there is seen by runs that begin later.");
  module.def("apply", Apply,
             nb::sig("def apply(name: str, operands: tuple[object, ...], attributes: dict[str, "
                     "Any], types: dict[str, str | None], results: int) -> Any"),
             "One call of an operator, by its name; kiln.ops has a function for each.");
}

}  // namespace kiln::python
