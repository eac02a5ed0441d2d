// SPDX-License-Identifier: Apache-2.0
// What kiln.trace and kiln.grad are made of: calls of a traced or differentiated function, regions
// left out, lazy options.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/trace.h"
#include "kiln/trace_dump.h"
#include "kiln/trace_grad.h"
#include "python/array.h"
#include "python/bindings.h"
#include "python/gil.h"
#include "python/status.h"

namespace kiln::python {
namespace {

// What a traced function has returned, beside the arrays in it.
enum class Form : unsigned char { kNothing, kOne, kTuple, kList };

struct PyTrace {
  std::shared_ptr<tracing::Function> function;
  bool frozen = false;
  std::optional<Form> form = std::nullopt;  // of the last call that ran the function
};

void Make(PyTrace* self, const std::string& name, bool symbolic, bool capture_as_const,
          bool record_only, bool symbolic_shape, bool profiling, const CompileOptions& compile,
          bool frozen) {
  TraceOptions options;
  options.name = name;
  options.symbolic = symbolic;
  options.capture_as_const = capture_as_const;
  options.record_only = record_only;
  options.symbolic_shape = symbolic_shape;
  options.profiling = profiling;
  options.compile = compile;
  new (self) PyTrace{tracing::NewFunction(options, frozen), frozen};
}

// The arrays among what a function has returned.
std::vector<Array> ResultsOf(nb::handle returned) {
  std::vector<Array> results;
  if (returned.is_none()) return results;
  if (nb::isinstance<Array>(returned)) return {nb::cast<Array>(returned)};
  const bool several = nb::isinstance<nb::tuple>(returned) || nb::isinstance<nb::list>(returned);
  if (several) {
    for (nb::handle one : returned) {
      if (!nb::isinstance<Array>(one)) break;
      results.push_back(nb::cast<Array>(one));
    }
  }
  if (!several || results.size() != nb::len(returned)) {
    throw nb::type_error(
        "a traced function returns a kiln.Array, a tuple or list of them, or None");
  }
  return results;
}

Form FormOf(nb::handle returned) {
  if (returned.is_none()) return Form::kNothing;
  if (nb::isinstance<Array>(returned)) return Form::kOne;
  return nb::isinstance<nb::tuple>(returned) ? Form::kTuple : Form::kList;
}

// Arrays as a function returns them.
nb::object Returned(Form form, const std::vector<Array>& results) {
  if (form == Form::kNothing) return nb::none();
  if (form == Form::kOne) return nb::cast(results[0]);
  nb::list made;
  for (const Array& result : results) made.append(result);
  return form == Form::kTuple ? nb::object(nb::tuple(made)) : nb::object(made);
}

// The elements of a result never change: one that lies in memory of the caller's, as an argument
// that is returned, becomes a copy.
void TakeOver(std::vector<Array>& results, const std::vector<std::shared_ptr<void>>& callers) {
  if (callers.empty()) return;
  for (Array& result : results) {
    const absl::StatusOr<Tensor> tensor = result.tensor(Caller());
    if (!tensor.ok()) continue;  // of record_only, which has none
    if (std::find(callers.begin(), callers.end(), tensor->owner()) != callers.end())
      result = Array::of(tensor->Clone());
  }
}

// What a call that did not run its function gives.
nb::object Replayed(const PyTrace& self, const tracing::Call& call,
                    const std::vector<std::shared_ptr<void>>& callers) {
  std::vector<Array> results;
  for (size_t k = 0; k < call.num_results(); ++k) results.push_back(Checked(call.result(k)));
  Check(tracing::StatusOf(self.function.get()));
  TakeOver(results, callers);
  return Returned(self.form.value_or(Form::kList), results);
}

// Calls `function` with what it is given; arrays are arguments of the trace.
nb::object Call(PyTrace& self, nb::handle function, nb::tuple given) {
  std::vector<Array> arrays;
  std::vector<bool> is_array;
  std::vector<std::shared_ptr<void>> callers;  // of memory that is not Kiln's
  for (nb::handle object : given) {
    is_array.push_back(IsArray(object));
    if (self.frozen && !is_array.back())  // nothing would compare it
      throw nb::type_error(
          "a frozen function takes arrays alone; trace it, or make an array of it");
    if (!is_array.back()) continue;
    if (nb::isinstance<Array>(object)) {
      arrays.push_back(nb::cast<Array>(object));
      continue;
    }
    const Tensor tensor = TensorOf(object, {"argument"}).tensor;
    callers.push_back(tensor.owner());
    arrays.push_back(Checked(Array::of(tensor)));
  }
  std::vector<const Array*> list;
  for (const Array& array : arrays) list.push_back(&array);
  const Location where = Caller();
  const auto call = WithoutGil([&] {
    return std::make_unique<tracing::Call>(self.function, list.data(), list.size(), where);
  });
  if (!call->runs()) return Replayed(self, *call, callers);
  nb::list arguments;
  for (size_t k = 0, array = 0; k < is_array.size(); ++k) {
    if (is_array[k])
      arguments.append(call->argument(array++));
    else
      arguments.append(given[k]);
  }
  const nb::object returned = function(*arguments);
  std::vector<Array> results = ResultsOf(returned);
  const Form form = FormOf(returned);
  if (self.frozen && self.form.value_or(form) != form)
    throw nb::type_error("a frozen function returns the same kind of object in each call");
  self.form = form;
  Check(WithoutGil([&] {
    call->Finish(results.data(), results.size());
    return tracing::StatusOf(self.function.get());
  }));
  TakeOver(results, callers);
  return Returned(form, results);
}

// kiln.grad: what the function returned, where that is wanted, and the gradients.
nb::tuple Differentiate(nb::handle function, nb::tuple given, const std::vector<size_t>& by,
                        bool with_values) {
  const Location where = Caller();
  std::vector<Array> arrays(nb::len(given));
  for (size_t k = 0; k < arrays.size(); ++k) {
    // What is computed may be computed later, and the caller's memory be written by then.
    if (IsArray(given[k])) arrays[k] = PyOperand(given[k], where).array;
  }
  for (const size_t k : by) {
    if (k < arrays.size() && arrays[k].valid()) continue;
    throw nb::type_error(absl::StrCat("gradient: argument ", k, " of ", arrays.size(),
                                      " is no array; it is differentiated by")
                             .c_str());
  }
  const auto call = WithoutGil([&] {
    return std::make_unique<tracing::GradientCall>(arrays.data(), by.data(), by.size(), where);
  });
  nb::list arguments;
  for (size_t k = 0; k < arrays.size(); ++k) {
    if (arrays[k].valid())
      arguments.append(Checked(arrays[k]));
    else
      arguments.append(given[k]);
  }
  const nb::object returned = function(*arguments);
  std::vector<Array> values = ResultsOf(returned), gradients(by.size());
  if (values.empty())
    throw nb::type_error("gradient: the function returns nothing; return its value");
  WithoutGil([&] {
    call->Finish(values.data(), values.size(), with_values, gradients.data());
    return 0;
  });
  nb::list made;
  for (Array& gradient : gradients) made.append(Checked(std::move(gradient)));
  if (!with_values) return nb::make_tuple(nb::none(), nb::tuple(made));
  for (const Array& value : values) Check(value.status());
  return nb::make_tuple(Returned(FormOf(returned), values), nb::tuple(made));
}

nb::dict StatsOf(const PyTrace& self) {
  const TraceStats stats = tracing::StatsOf(self.function.get());
  nb::dict made;
  made["calls"] = stats.calls;
  made["records"] = stats.records;
  made["replays"] = stats.replays;
  made["frozen_calls"] = stats.frozen_calls;
  made["errors"] = stats.errors;
  made["runs"] = stats.runs;
  made["variants"] = stats.variants;
  made["operations"] = stats.operations;
  made["segments"] = stats.segments;
  made["compiled"] = stats.compiled;
  return made;
}

struct PyRegion {
  std::unique_ptr<ExcludeFromTrace> scope;
};

nb::dict LazyStatsOf() {
  const LazyStats stats = lazy_stats();
  nb::dict made;
  made["operations"] = stats.operations;
  made["runs"] = stats.runs;
  made["structures"] = stats.structures;
  made["compiled"] = stats.compiled;
  made["loop_flushes"] = stats.loop_flushes;
  return made;
}

}  // namespace

void BindTrace(nb::module_& module) {
  nb::class_<PyTrace>(module, "Trace", "What kiln.trace is made of.")
      .def("__init__", Make, nb::arg("name"), nb::arg("symbolic"), nb::arg("capture_as_const"),
           nb::arg("record_only"), nb::arg("symbolic_shape"), nb::arg("profiling"),
           nb::arg("compile"), nb::arg("frozen"))
      .def("call", Call, nb::arg("function"), nb::arg("arguments"),
           nb::sig("def call(self, function: Callable[..., Any], arguments: tuple[object, ...]) "
                   "-> Any"))
      .def_prop_ro("stats", StatsOf, nb::sig("def stats(self) -> dict[str, int]"))
      .def("profile",
           [](const PyTrace& self) { return Value(tracing::ProfileOf(self.function.get())); })
      .def(
          "dump",
          [](const PyTrace& self, const std::string& file, const DumpOptions& options) {
            return Value(
                WithoutGil([&] { return tracing::DumpTo(self.function.get(), file, options); }));
          },
          nb::arg("file"), nb::arg("options"))
      .def("forget", [](const PyTrace& self) { tracing::Forget(self.function.get()); });
  module.def("differentiate", Differentiate,
             nb::sig("def differentiate(function: Callable[..., Any], arguments: tuple[object, "
                     "...], by: Sequence[int], with_values: bool) -> tuple[Any, tuple[Array, "
                     "...]]"),
             "What kiln.grad and kiln.value_and_grad are made of.");
  nb::class_<PyRegion>(module, "Excluded",
                       "A region that is left out of the trace it is in; also outside of one.")
      .def(nb::init<>())
      .def(
          "__enter__",
          [](nb::handle self) {
            nb::cast<PyRegion&>(self).scope = std::make_unique<ExcludeFromTrace>(Caller());
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Excluded"))
      .def(
          "__exit__", [](PyRegion& self, const nb::args&) { self.scope = nullptr; },
          nb::sig("def __exit__(self, *error: object) -> None"));
  module.def(
      "set_lazy_options",
      [](const CompileOptions& options) {
        Check(WithoutGil([&] { return SetLazyOptions(options); }));
      },
      nb::arg("options"));
  module.def("lazy_stats", LazyStatsOf, nb::sig("def lazy_stats() -> dict[str, int]"),
             "Of the calling thread: operations, runs, structures, compiled, loop_flushes.");
}

}  // namespace kiln::python
