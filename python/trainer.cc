// SPDX-License-Identifier: Apache-2.0
// kiln.Trainer: one caller's. A thread that finds another in it raises FailedPrecondition.
#include "kiln/trainer.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings.h"
#include "python/gil.h"
#include "python/request.h"
#include "python/source.h"
#include "python/status.h"
#include "python/tensor.h"

namespace kiln::python {
namespace {

struct PyTrainer {
  Released<Trainer> trainer;
  std::atomic<bool> busy{false};

  explicit PyTrainer(Trainer made) : trainer(new Trainer(std::move(made))) {}
};

// For the length of one call.
class Turn {
 public:
  explicit Turn(PyTrainer& trainer) : trainer_(trainer) {
    if (trainer.busy.exchange(true)) {
      Raise(absl::FailedPreconditionError(
          "trainer: another thread uses it; give each thread a trainer of its own"));
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { trainer_.busy = false; }
  Trainer* operator->() const { return trainer_.trainer.get(); }

 private:
  PyTrainer& trainer_;
};

NamedTensors InputsOf(const nb::kwargs& arrays) {
  Request request;
  for (auto [name, array] : arrays) request.Add(nb::cast<std::string>(nb::str(name)), array);
  return std::move(request.inputs);
}

void Make(PyTrainer* self, nb::handle model, const CompileOptions& compile, const std::string& name,
          const std::string& folder, const std::string& loss, const std::string& optimizer,
          const std::string& schedule, double lr, const nb::dict& more) {
  TrainerOptions options;
  options.compile = compile;
  options.schedule.lr = lr;
  Check(training::SetLoss(loss, options));
  Check(training::SetOptimizer(optimizer, options));
  Check(training::SetSchedule(schedule, options));
  options.output = nb::cast<std::string>(more["output"]);
  options.labels = nb::cast<std::string>(more["labels"]);
  options.parameters = nb::cast<std::vector<std::string>>(more["parameters"]);
  options.frozen = nb::cast<std::vector<std::string>>(more["frozen"]);
  options.clip_norm = nb::cast<double>(more["clip_norm"]);
  options.clip_value = nb::cast<double>(more["clip_value"]);
  options.precision = DTypeNamed(nb::cast<std::string>(more["precision"]));
  options.loss_scale = nb::cast<double>(more["loss_scale"]);
  options.micro_batches = nb::cast<int>(more["micro_batches"]);
  options.batch_norm_momentum = nb::cast<double>(more["batch_norm_momentum"]);
  options.seed = nb::cast<uint32_t>(more["seed"]);
  const Source source = SourceOf(model, name, folder);
  Trainer made = Value(WithoutGil([&] {
    return source.bytes ? Trainer::Create(*source.bytes, options)
                        : Trainer::Create(source.path, options);
  }));
  new (self) PyTrainer(std::move(made));
}

double Step(PyTrainer& self, const nb::kwargs& arrays) {
  const NamedTensors inputs = InputsOf(arrays);
  const Turn trainer(self);
  return Value(WithoutGil([&] { return trainer->Step(inputs); }));
}

nb::dict OutputsOf(const Turn& trainer, const std::vector<Tensor>& outputs) {
  nb::dict made;
  for (size_t k = 0; k < outputs.size(); ++k)
    made[trainer->outputs()[k].name.c_str()] = ArrayOf(outputs[k], Home::kNumpy);
  return made;
}

nb::tuple Evaluate(PyTrainer& self, const nb::kwargs& arrays) {
  const NamedTensors inputs = InputsOf(arrays);
  const Turn trainer(self);
  const Evaluation found = Value(WithoutGil([&] { return trainer->Evaluate(inputs); }));
  return nb::make_tuple(found.loss, OutputsOf(trainer, found.outputs));
}

nb::dict Run(PyTrainer& self, const nb::kwargs& arrays) {
  const NamedTensors inputs = InputsOf(arrays);
  const Turn trainer(self);
  return OutputsOf(trainer, Value(WithoutGil([&] { return trainer->Run(inputs); })));
}

nb::object Parameter(PyTrainer& self, const std::string& name) {
  const Turn trainer(self);
  return ArrayOf(Value(trainer->Parameter(name)), Home::kNumpy);
}

void SetParameter(PyTrainer& self, const std::string& name, nb::handle array) {
  const Given given = TensorOf(array, {"parameter", name});
  const Turn trainer(self);
  Check(trainer->SetParameter(name, given.tensor));
}

void SetSchedule(PyTrainer& self, const std::string& schedule, double lr) {
  TrainerOptions options;
  options.schedule.lr = lr;
  Check(training::SetSchedule(schedule, options));
  const Turn trainer(self);
  Check(trainer->SetSchedule(options.schedule));
}

using Metadata = std::map<std::string, std::string>;

void Save(PyTrainer& self, nb::handle path, const Metadata& metadata) {
  const std::string file = PathOf(path);
  const Turn trainer(self);
  Check(WithoutGil([&] { return trainer->Save(file, metadata); }));
}

Metadata Load(PyTrainer& self, nb::handle path) {
  const std::string file = PathOf(path);
  const Turn trainer(self);
  return Value(WithoutGil([&] { return trainer->Load(file); }));
}

void Export(PyTrainer& self, nb::handle path) {
  const std::string file = PathOf(path);
  const Turn trainer(self);
  Check(WithoutGil([&] { return trainer->ExportOnnx(file); }));
}

constexpr const char* kInit =
    "def __init__(self, model: Any, compile: CompileOptions, name: str, folder: str, loss: str, "
    "optimizer: str, schedule: str, lr: float, more: dict[str, Any]) -> None";

}  // namespace

void BindTrainer(nb::module_& module) {
  nb::class_<PyTrainer>(module, "Trainer", "What kiln.Trainer is made of.")
      .def("__init__", Make, nb::arg("model"), nb::arg("compile"), nb::arg("name"),
           nb::arg("folder"), nb::arg("loss"), nb::arg("optimizer"), nb::arg("schedule"),
           nb::arg("lr"), nb::arg("more"), nb::sig(kInit))
      .def_prop_ro(
          "inputs", [](PyTrainer& self) { return Turn(self)->inputs(); },
          "Of a step: the model's, and labels.")
      .def_prop_ro("outputs", [](PyTrainer& self) { return Turn(self)->outputs(); })
      .def_prop_ro(
          "parameters", [](PyTrainer& self) { return Turn(self)->parameters(); },
          "What is trained.")
      .def_prop_ro(
          "statistics", [](PyTrainer& self) { return Turn(self)->statistics(); },
          "Running means and variances.")
      .def_prop_ro(
          "steps", [](PyTrainer& self) { return Turn(self)->step(); }, "Steps so far.")
      .def_prop_ro(
          "learning_rate", [](PyTrainer& self) { return Turn(self)->learning_rate(); },
          "Of the next step.")
      .def("step", Step, nb::sig("def step(self, **inputs: ArrayLike) -> float"),
           "One update by this batch; the loss before it.")
      .def("evaluate", Evaluate,
           nb::sig("def evaluate(self, **inputs: ArrayLike) -> tuple[float, dict[str, Any]]"),
           "Loss and outputs of the model in its form for inference.")
      .def("run", Run, nb::sig("def run(self, **inputs: ArrayLike) -> dict[str, Any]"),
           "The outputs alone; there are no labels.")
      .def("parameter", Parameter, nb::arg("name"),
           nb::sig("def parameter(self, name: str) -> Any"), "A copy of a parameter or statistic.")
      .def("set_parameter", SetParameter, nb::arg("name"), nb::arg("value"),
           nb::sig("def set_parameter(self, name: str, value: ArrayLike) -> None"),
           "Copies `value` into a parameter or statistic.")
      .def("set_schedule", SetSchedule, nb::arg("schedule"), nb::arg("lr"),
           "Another schedule; its steps count from the trainer's first.")
      .def("save", Save, nb::arg("path"), nb::arg("metadata") = Metadata(),
           nb::sig("def save(self, path: str | PathLike[str], metadata: dict[str, str] = {}) "
                   "-> None"),
           "Everything that later steps depend on, in a safetensors file.")
      .def("load", Load, nb::arg("path"),
           nb::sig("def load(self, path: str | PathLike[str]) -> dict[str, str]"),
           "The other way; gives the metadata.")
      .def("export_onnx", Export, nb::arg("path"),
           nb::sig("def export_onnx(self, path: str | PathLike[str]) -> None"),
           "The model for inference with the parameters as they are.");
}

}  // namespace kiln::python
