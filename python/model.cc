// SPDX-License-Identifier: Apache-2.0
#include "python/model.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "python/bindings.h"
#include "python/context.h"
#include "python/options.h"
#include "python/request.h"
#include "python/status.h"

namespace kiln::python {
namespace {

// The same memory without a share in it.
Tensor Unowned(const Tensor& tensor) {
  return Tensor::View(tensor.data(), tensor.dtype(), tensor.shape(), tensor.strides());
}

Released<Context> Take(PyModel& self, const PortMask& mask) {
  std::vector<Released<Context>>& idle = self.idle[mask];
  if (idle.empty()) return Released<Context>(new Context(self.model->NewContext()));
  Released<Context> context = std::move(idle.back());
  idle.pop_back();
  return context;
}

// A run that writes into memory of the caller, who holds inputs and outputs meanwhile.
std::vector<nb::object> RunInto(PyModel& self, const Request& request) {
  const std::vector<PortInfo>& outputs = self.model->outputs();
  PortMask mask(self.model->inputs().size() + outputs.size());
  std::vector<std::pair<size_t, const Tensor*>> inputs;
  for (const auto& [name, tensor] : request.inputs) {
    const size_t at = Value(self.model->InputIndex(name));
    if (mask[at]) RaiseInvalid(absl::StrCat("input \"", name, "\": given twice"));
    mask[at] = true;
    inputs.emplace_back(at, &tensor);
  }
  std::vector<std::pair<size_t, Tensor>> bound;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (request.out[k].is_none()) continue;
    mask[self.model->inputs().size() + k] = true;
    bound.emplace_back(k, OutputOf(request.out[k], {"output", outputs[k].name}));
  }
  Released<Context> context = Take(self, mask);
  for (const auto& [at, tensor] : inputs) Check(context->Bind(at, Unowned(*tensor)));
  for (const auto& [at, tensor] : bound) Check(context->BindOutput(at, Unowned(tensor)));
  Check(WithoutGil([&] { return context->Run(request.control); }));
  std::vector<nb::object> made = request.out;
  for (size_t k = 0; k < made.size(); ++k) {
    if (made[k].is_none()) made[k] = ArrayOf(Value(context->Output(k)), request.home);
  }
  self.idle[mask].push_back(std::move(context));
  return made;
}

std::vector<nb::object> Run(PyModel& self, const Request& request) {
  if (!request.out.empty()) return RunInto(self, request);
  std::vector<Tensor> outputs =
      Value(WithoutGil([&] { return self.model->Run(request.inputs, request.control); }));
  std::vector<nb::object> made;
  made.reserve(outputs.size());
  for (Tensor& output : outputs) made.push_back(ArrayOf(std::move(output), request.home));
  return made;
}

nb::object Call(PyModel& self, const nb::args& args, const nb::kwargs& named) {
  return OneOrAll(Run(self, RequestOf(args, named, self.model->inputs(), self.model->outputs())));
}

nb::dict RunNamed(PyModel& self, nb::handle inputs, nb::handle out, nb::handle timeout,
                  nb::handle cancel) {
  Request request;
  if (!nb::isinstance<nb::dict>(inputs)) {
    RaiseInvalid(absl::StrCat("inputs: is a ", nb::cast<std::string>(nb::inst_name(inputs)),
                              ", expected a dict from names to arrays"));
  }
  for (auto [name, array] : nb::borrow<nb::dict>(inputs))
    request.Add(nb::cast<std::string>(nb::str(name)), array);
  request.SetOut(out, self.model->outputs());
  request.SetControl(timeout, cancel);
  return Named(self.model->outputs(), Run(self, request));
}

nb::dict OutputShapes(PyModel& self, const nb::kwargs& shapes) {
  const NamedShapes given = ShapesFrom(shapes);
  const auto told = Value(WithoutGil([&] { return self.model->OutputShapes(given); }));
  nb::dict made;
  for (size_t k = 0; k < told.size(); ++k)
    made[self.model->outputs()[k].name.c_str()] = ExtentsOf(told[k]);
  return made;
}

void Update(PyModel& self, const std::string& name, nb::handle array) {
  const Given given = TensorOf(array, {"constant", name});
  Check(WithoutGil([&] { return self.model->Update(name, given.tensor); }));
}

nb::dict Memory(const PyModel& self) {
  const MemoryReport now = self.model->memory();
  nb::dict made;
  made["constants"] = now.constants;
  made["arenas"] = now.arenas;
  made["copies"] = now.copies;
  made["outputs"] = now.outputs;
  made["states"] = now.states;
  made["plans"] = now.plans;
  made["plan_bytes"] = now.plan_bytes;
  made["idle_contexts"] = now.idle_contexts;
  made["idle_bytes"] = now.idle_bytes;
  made["device_arenas"] = now.device_arenas;
  made["device_constants"] = now.device_constants;
  return made;
}

void Trim(PyModel& self) {
  self.idle.clear();
  WithoutGil([&] {
    self.model->Trim();
    return 0;
  });
}

std::vector<ThunkTime> Profile(PyModel& self, const nb::args& args, const nb::kwargs& named) {
  const Request request = RequestOf(args, named, self.model->inputs(), self.model->outputs());
  Released<Context> context(new Context(self.model->NewContext()));
  for (const auto& [name, tensor] : request.inputs) Check(context->Bind(name, tensor));
  Check(WithoutGil([&] { return context->Run(); }));
  return Value(WithoutGil([&] { return context->Profile(); }));
}

std::string Text(const PyModel& self) {
  const auto count = [](size_t n, const char* what) {
    return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
  };
  return absl::StrCat("<kiln.Model of ", count(self.model->inputs().size(), "input"), " and ",
                      count(self.model->outputs().size(), "output"), ">");
}

constexpr const char* kCall = "def __call__(self, *args: ArrayLike, **inputs: ArrayLike) -> Any";

}  // namespace

void BindModel(nb::module_& module) {
  nb::class_<Cancel>(module, "Cancel", "Tells runs that were given it to stop.")
      .def(nb::init<>())
      .def(
          "set", [](const Cancel& self) { self.flag->store(true); }, "From any thread.")
      .def_prop_ro("is_set", [](const Cancel& self) { return self.flag->load(); });
  nb::class_<PyModel>(module, "Model", "A model ready to run, by any number of threads at once.")
      .def_prop_ro("inputs", [](const PyModel& self) { return self.model->inputs(); })
      .def_prop_ro("outputs", [](const PyModel& self) { return self.model->outputs(); })
      .def_prop_ro(
          "updatable", [](const PyModel& self) { return self.model->updatable(); },
          "Constants that update() may replace.")
      .def_prop_ro("threads", [](const PyModel& self) { return self.model->threads(); })
      .def("__call__", Call, nb::sig(kCall),
           "Runs once, with inputs by place or by name. The array of the output, or a tuple where "
           "there are several; torch tensors where an input is one. `out`, an array, a list or a "
           "dict, says where outputs are written.")
      .def("run", RunNamed, nb::arg("inputs"), nb::kw_only(), nb::arg("out") = nb::none(),
           nb::arg("timeout") = nb::none(), nb::arg("cancel") = nb::none(),
           nb::sig("def run(self, inputs: dict[str, ArrayLike], *, out: ArrayLike | "
                   "Sequence[ArrayLike | None] | dict[str, ArrayLike] | None = None, timeout: "
                   "float | None = None, cancel: Cancel | None = None) -> dict[str, Any]"),
           "Runs once; arrays by name. It stops after `timeout` seconds, or when `cancel` is set.")
      .def(
          "prepare",
          [](PyModel& self, const nb::kwargs& shapes) {
            const NamedShapes given = ShapesFrom(shapes);
            Check(WithoutGil([&] { return self.model->Prepare(given); }));
          },
          nb::sig("def prepare(self, **shapes: int | Sequence[int]) -> None"),
          "Compiles and plans for inputs of these shapes, so that no run has to.")
      .def("output_shapes", OutputShapes,
           nb::sig("def output_shapes(self, **shapes: int | Sequence[int]) -> dict[str, "
                   "tuple[int, ...]]"),
           "Shapes of the outputs for inputs of these shapes.")
      .def("update", Update, nb::arg("name"), nb::arg("value"),
           nb::sig("def update(self, name: str, value: ArrayLike) -> None"),
           "Copies `value` in place of an updatable constant; runs that begin later read it.")
      .def("memory", Memory, nb::sig("def memory(self) -> dict[str, int]"),
           "Where the bytes of the model are.")
      .def("trim", Trim, "Gives back the memory of what does not run, and plans but the newest.")
      .def("profile", Profile,
           nb::sig("def profile(self, *args: ArrayLike, **inputs: ArrayLike) -> list[Launch]"),
           "Runs twice, the second time with a clock around every launch.")
      .def(
          "context", [](const PyModel& self) { return new PyContext(*self.model); },
          "Buffers of one caller, with bound inputs and outputs, and states.")
      .def("__repr__", Text);
}

}  // namespace kiln::python
