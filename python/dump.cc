// SPDX-License-Identifier: Apache-2.0
// What a traced function is written as: options are attributes with the names of
// kiln/trace_dump.h.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kiln/trace_dump.h"
#include "python/bindings.h"

namespace kiln::python {
namespace {

namespace nb = nanobind;

void MakeOptimizations(OptimizeForInference* self, bool enable_io16xc32, bool enable_ioc16,
                       const std::string& layout, bool fuse_conv_bias_nonlinearity,
                       bool fuse_conv_bias_with_z, bool fuse_preprocess) {
  new (self) OptimizeForInference{.enable_io16xc32 = enable_io16xc32,
                                  .enable_ioc16 = enable_ioc16,
                                  .layout = layout,
                                  .fuse_conv_bias_nonlinearity = fuse_conv_bias_nonlinearity,
                                  .fuse_conv_bias_with_z = fuse_conv_bias_with_z,
                                  .fuse_preprocess = fuse_preprocess};
}

// True: with all of its defaults; None, False: not at all.
void SetOptimizations(DumpOptions& self, nb::handle value) {
  if (value.is_none() || value.ptr() == Py_False)
    self.optimize_for_inference = std::nullopt;
  else if (value.ptr() == Py_True)
    self.optimize_for_inference.emplace();
  else
    self.optimize_for_inference = nb::cast<OptimizeForInference>(value);
}

nb::object OptimizationsOf(const DumpOptions& self) {
  if (!self.optimize_for_inference) return nb::none();
  return nb::cast(*self.optimize_for_inference);
}

void BindOptimizations(nb::module_& module) {
  using Self = OptimizeForInference;
  nb::class_<Self>(module, "OptimizeForInference",
                   "Simplifications of a dump. Names are those of kiln/trace_dump.h.")
      .def("__init__", MakeOptimizations, nb::kw_only(), nb::arg("enable_io16xc32") = false,
           nb::arg("enable_ioc16") = false, nb::arg("layout") = "",
           nb::arg("fuse_conv_bias_nonlinearity") = false, nb::arg("fuse_conv_bias_with_z") = false,
           nb::arg("fuse_preprocess") = false)
      .def_rw("enable_io16xc32", &Self::enable_io16xc32,
              "Floats between operations, and results, become f16; each computes in f32.")
      .def_rw("enable_ioc16", &Self::enable_ioc16, "Not there: an error.")
      .def_rw("layout", &Self::layout, "Of activations, in a package: 'nhwc', 'nchw'; '': as is.")
      .def_rw("fuse_conv_bias_nonlinearity", &Self::fuse_conv_bias_nonlinearity)
      .def_rw("fuse_conv_bias_with_z", &Self::fuse_conv_bias_with_z)
      .def_rw("fuse_preprocess", &Self::fuse_preprocess);
}

void BindDumpOptions(nb::module_& module) {
  using Self = DumpOptions;
  nb::class_<Self>(module, "DumpOptions",
                   "What a traced function is written as. Names are those of kiln/trace_dump.h.")
      .def(nb::init<>())
      .def_rw("arg_names", &Self::arg_names, "Of arguments, in their order.")
      .def_rw("output_names", &Self::output_names, "Of results, in their order.")
      .def_rw("append", &Self::append, "Not there: an error.")
      .def_rw("keep_var_name", &Self::keep_var_name,
              "Which names values have: 0, of arguments; 1, and of results; 2, of all.")
      .def_rw("keep_opr_name", &Self::keep_opr_name,
              "Operations are called after operator and line.")
      .def_rw("keep_param_name", &Self::keep_param_name, "Captured arrays are 'param_0' and so on.")
      .def_prop_rw(
          "optimize_for_inference", OptimizationsOf, SetOptimizations, nb::arg().none(),
          nb::for_getter(nb::sig("def optimize_for_inference(self) -> OptimizeForInference | "
                                 "None")),
          nb::for_setter(nb::sig("def optimize_for_inference(self, value: OptimizeForInference | "
                                 "bool | None, /) -> None")),
          "True: what is exact is simplified; more as an OptimizeForInference says.")
      .def_rw("input_data", &Self::input_data, "Test cases of a package: 'x:x.npy', '#rand(0, 1)'.")
      .def_rw("resize_input", &Self::resize_input,
              "What files hold is resized to the argument's extents.")
      .def_rw("repeat", &Self::repeat, "And stands so often behind itself.")
      .def_rw("input_transform", &Self::input_transform, "And is an expression over `data`.")
      .def_rw("maxerr", &Self::maxerr, "Of floats, absolute and relative.")
      .def_rw("silent", &Self::silent, "The self-test says nothing of cases that are right.")
      .def_rw("no_assert", &Self::no_assert, "It runs them, and compares nothing.")
      .def_rw("strip_info_file", &Self::strip_info_file,
              "A JSON file with operators and types of the model.")
      .def_rw("append_json", &Self::append_json, "As a further model of that file.")
      .def_rw("user_info", &Self::user_info, "A text, stored in the file.")
      .def_rw("metadata", &Self::metadata, "Pairs of texts, stored in the file.")
      .def_rw("model_version", &Self::model_version)
      .def(
          "__copy__", [](const Self& self) { return Self(self); },
          nb::sig("def __copy__(self) -> DumpOptions"));
}

}  // namespace

void BindDump(nb::module_& module) {
  BindOptimizations(module);
  BindDumpOptions(module);
  nb::class_<DumpInfo>(module, "DumpInfo", "What a dump has written.")
      .def_ro("operations", &DumpInfo::operations, "Of the model.")
      .def_ro("bytes", &DumpInfo::bytes, "Of the file.")
      .def_ro("kernels", &DumpInfo::kernels, "Of a package.")
      .def_ro("on_vm", &DumpInfo::on_vm, "Of these, those without code.")
      .def_ro("inputs", &DumpInfo::inputs)
      .def_ro("outputs", &DumpInfo::outputs)
      .def_ro("parameters", &DumpInfo::parameters)
      .def(
          "__repr__",
          [](const DumpInfo& info) {
            return absl::StrCat("DumpInfo(operations=", info.operations, ", bytes=", info.bytes,
                                ", kernels=", info.kernels, ", on_vm=", info.on_vm, ", inputs=[\"",
                                absl::StrJoin(info.inputs, "\", \""), "\"], outputs=[\"",
                                absl::StrJoin(info.outputs, "\", \""), "\"])");
          },
          nb::sig("def __repr__(self) -> str"));
}

}  // namespace kiln::python
