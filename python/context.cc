// SPDX-License-Identifier: Apache-2.0
#include "python/context.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "python/bindings.h"
#include "python/request.h"

namespace kiln::python {
namespace {

void Bind(PyContext& self, const std::string& name, nb::handle array) {
  const Busy context(self);
  Check(context->Bind(name, TensorOf(array, {"input", name}).tensor));
}

void BindParts(PyContext& self, const std::string& name, const nb::sequence& arrays) {
  std::vector<Tensor> parts;
  for (nb::handle array : arrays) parts.push_back(TensorOf(array, {"input", name}).tensor);
  const Busy context(self);
  Check(context->BindParts(name, parts));
}

void BindOutput(PyContext& self, const std::string& name, nb::handle array) {
  const Busy context(self);
  Check(context->BindOutput(name, OutputOf(array, {"output", name})));
}

void SetOutputs(PyContext& self, const std::vector<std::string>& names) {
  const Busy context(self);
  Check(context->SetOutputs(names));
}

void Run(PyContext& self, nb::handle timeout, nb::handle cancel) {
  const Busy context(self);
  Request request;
  request.SetControl(timeout, cancel);
  Check(WithoutGil([&] { return context->Run(request.control); }));
}

nb::object Output(PyContext& self, const std::string& name) {
  const Busy context(self);
  return ArrayOf(Value(context->Output(name)), Home::kNumpy);
}

// The next run may write the state in place.
nb::object State(PyContext& self, const std::string& name) {
  const Busy context(self);
  return ArrayOf(Value(context->State(name)).Clone(), Home::kNumpy);
}

void SetState(PyContext& self, const std::string& name, nb::handle array) {
  const Given given = TensorOf(array, {"state", name});
  const Busy context(self);
  Check(context->SetState(name, given.tensor));
}

void ResetStates(PyContext& self) {
  const Busy context(self);
  Check(context->ResetStates());
}

void Trim(PyContext& self) {
  const Busy context(self);
  context->Trim();
}

nb::dict Report(PyContext& self) {
  const Busy context(self);
  const PlanReport& last = context->report();
  nb::dict made;
  made["arena"] = last.arena;
  made["lower_bound"] = last.lower_bound;
  made["sum"] = last.sum;
  made["constants"] = last.constants;
  made["kernel_launches"] = last.kernel_launches;
  made["library_launches"] = last.library_launches;
  made["other_launches"] = last.other_launches;
  made["vm_launches"] = last.vm_launches;
  made["bytes_moved"] = last.bytes_moved;
  return made;
}

std::vector<ThunkTime> Profile(PyContext& self) {
  const Busy context(self);
  return Value(WithoutGil([&] { return context->Profile(); }));
}

// Those of the outputs that are wanted; the others are left out.
nb::dict Call(PyContext& self, const nb::kwargs& named) {
  const Busy context(self);
  const Request request = RequestOf(nb::make_tuple(), named, self.model.inputs(), {});
  for (const auto& [name, tensor] : request.inputs) Check(context->Bind(name, tensor));
  Check(WithoutGil([&] { return context->Run(); }));
  nb::dict made;
  for (size_t k = 0; k < self.model.outputs().size(); ++k) {
    const absl::StatusOr<Tensor> output = context->Output(k);
    if (output.ok()) made[self.model.outputs()[k].name.c_str()] = ArrayOf(*output, request.home);
  }
  return made;
}

}  // namespace

void BindContext(nb::module_& module) {
  nb::class_<PyContext>(module, "Context",
                        "One caller's buffers: what is bound stays bound, states are kept.")
      .def("bind", Bind, nb::arg("input"), nb::arg("array"),
           nb::sig("def bind(self, input: str, array: ArrayLike) -> None"),
           "The array is read where it lies by every run, and held.")
      .def("bind_parts", BindParts, nb::arg("input"), nb::arg("arrays"),
           nb::sig("def bind_parts(self, input: str, arrays: Sequence[ArrayLike]) -> None"),
           "The input is the concatenation of the arrays along its first dim.")
      .def("bind_output", BindOutput, nb::arg("output"), nb::arg("array"),
           nb::sig("def bind_output(self, output: str, array: ArrayLike) -> None"),
           "The output is written into the array, which is held.")
      .def("set_outputs", SetOutputs, nb::arg("names"),
           "Only these outputs are computed from now on; none named: all.")
      .def("run", Run, nb::kw_only(), nb::arg("timeout") = nb::none(),
           nb::arg("cancel") = nb::none(),
           nb::sig("def run(self, *, timeout: float | None = None, cancel: Cancel | None = None) "
                   "-> None"))
      .def("__call__", Call, nb::sig("def __call__(self, **inputs: ArrayLike) -> dict[str, Any]"),
           "Binds the inputs, runs, and returns the outputs by name.")
      .def("output", Output, nb::arg("name"), nb::sig("def output(self, name: str) -> Any"),
           "The last run's output, without a copy.")
      .def("state", State, nb::arg("input"), nb::sig("def state(self, input: str) -> Any"),
           "A copy of what the next run reads.")
      .def("set_state", SetState, nb::arg("input"), nb::arg("value"),
           nb::sig("def set_state(self, input: str, value: ArrayLike) -> None"), "Copies.")
      .def("reset_states", ResetStates, "As they were at the beginning.")
      .def("report", Report, nb::sig("def report(self) -> dict[str, int]"),
           "Of the last run's plan: memory in bytes, and launches.")
      .def("profile", Profile, "Runs once with a clock around every launch.")
      .def("trim", Trim, "Gives back all memory but that of states.");
}

}  // namespace kiln::python
