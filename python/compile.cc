// SPDX-License-Identifier: Apache-2.0
// From a path or bytes to a kiln.Model, and what can be said of a model before.
#include "kiln/compile.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "python/bindings.h"
#include "python/model.h"
#include "python/source.h"
#include "python/status.h"
#include "python/tensor.h"

namespace kiln::python {

const std::string& CheckPath(const std::string& path) {
  const size_t nul = path.find('\0');
  if (nul != std::string::npos) {
    RaiseInvalid(absl::StrCat("path \"", path.substr(0, nul), "\\0...\": character ", nul,
                              " is NUL, which no path has"));
  }
  return path;
}

std::string PathOf(nb::handle path) {
  PyObject* const text = PyOS_FSPath(path.ptr());
  if (text == nullptr) nb::raise_python_error();
  return CheckPath(nb::cast<std::string>(nb::steal<nb::object>(text)));
}

Source SourceOf(nb::handle model, const std::string& name, const std::string& folder) {
  CheckPath(folder);
  if (PyObject_CheckBuffer(model.ptr()) != 0) {
    CheckPath(name);
    Bytes bytes = BytesOf(model);
    return {"", ModelBytes{bytes.data, bytes.size, std::move(bytes.owner), name, folder}};
  }
  if (PyUnicode_Check(model.ptr()) == 0 && !nb::hasattr(model, "__fspath__")) {
    RaiseInvalid(absl::StrCat("model: is a ", nb::cast<std::string>(nb::inst_name(model)),
                              ", expected a path, bytes, or an onnx.ModelProto"));
  }
  return {PathOf(model), std::nullopt};
}

namespace {

PyModel* CompileModel(nb::handle model, const CompileOptions& options, const std::string& name,
                      const std::string& folder) {
  const Source source = SourceOf(model, name, folder);
  return new PyModel(Value(WithoutGil([&] {
    return source.bytes ? Compile(*source.bytes, options) : Compile(source.path, options);
  })));
}

PyModel* Load(const std::string& path, const RunOptions& options, bool validate) {
  const auto check = validate ? PackageValidation::kFirstUse : PackageValidation::kTrust;
  CheckPath(path);
  return new PyModel(Value(WithoutGil([&] { return LoadPackage(path, options, check); })));
}

ModelDescription DescribeModel(nb::handle model, const std::string& name,
                               const std::string& folder) {
  const Source source = SourceOf(model, name, folder);
  return Value(
      WithoutGil([&] { return source.bytes ? Describe(*source.bytes) : Describe(source.path); }));
}

// (1, "batch", "2*seq").
nb::object ShapeOf(const PortInfo& port) {
  if (port.any_rank) return nb::none();
  nb::list dims;
  for (const Dim& dim : port.shape) {
    if (const std::optional<int64_t> extent = dim.constant()) {
      dims.append(*extent);
    } else {
      dims.append(dim.ToString());
    }
  }
  return nb::tuple(dims);
}

std::string Text(const PortInfo& port) {
  return absl::StrCat("<", port.name, ": ", NumpyName(port.type), " ",
                      port.any_rank ? "of any rank" : ToString(port.shape), ">");
}

}  // namespace

void BindPort(nb::module_& module) {
  nb::class_<PortInfo>(module, "Port", "An input or output as the model declares it.")
      .def_ro("name", &PortInfo::name)
      .def_prop_ro(
          "dtype", [](const PortInfo& port) { return NumpyName(port.type); },
          "NumPy's name of it: 'float32', 'int64', 'bfloat16'.")
      .def_prop_ro("shape", ShapeOf, nb::sig("def shape(self) -> tuple[int | str, ...] | None"),
                   "Numbers, and expressions over symbols; None: a run tells.")
      .def_ro("optional", &PortInfo::optional)
      .def("__repr__", Text);
  nb::class_<ThunkTime>(module, "Launch", "Time of one launch of a profiled run.")
      .def_ro("kind", &ThunkTime::kind, "'kernel', 'library', 'copy' or 'host'.")
      .def_ro("name", &ThunkTime::name, "The user's nodes.")
      .def_ro("ms", &ThunkTime::ms)
      .def_ro("bytes", &ThunkTime::bytes, "Read and written.")
      .def_ro("vm", &ThunkTime::vm, "Whether the VM ran it.")
      .def("__repr__", [](const ThunkTime& time) {
        return absl::StrCat("<", time.kind, " ", time.name, ": ", time.ms, " ms>");
      });
}

void BindCompile(nb::module_& module) {
  nb::class_<ModelDescription>(module, "Description", "What a model takes and gives.")
      .def_ro("inputs", &ModelDescription::inputs)
      .def_ro("outputs", &ModelDescription::outputs)
      .def_ro("form", &ModelDescription::form, "'onnx', 'graph' or 'package'.")
      .def_ro("unsupported", &ModelDescription::unsupported, "Operators that compile() refuses.");
  module.def("compile", CompileModel, nb::arg("model"), nb::arg("options"), nb::arg("name"),
             nb::arg("folder"),
             nb::sig("def compile(model: Any, options: CompileOptions, name: str, folder: str) -> "
                     "Model"));
  module.def("load", Load, nb::arg("path"), nb::arg("options"), nb::arg("validate"));
  module.def("describe", DescribeModel, nb::arg("model"), nb::arg("name"), nb::arg("folder"));
}

}  // namespace kiln::python
