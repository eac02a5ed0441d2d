// SPDX-License-Identifier: Apache-2.0
// What kiln.trace is made of: calls of a traced function, regions left out, lazy options.
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/trace.h"
#include "python/array.h"
#include "python/bindings.h"
#include "python/gil.h"
#include "python/status.h"

namespace kiln::python {
namespace {

struct PyTrace {
  std::shared_ptr<tracing::Function> function;
};

void Make(PyTrace* self, const std::string& name, bool symbolic, bool capture_as_const,
          bool record_only, bool symbolic_shape, bool profiling, const CompileOptions& compile) {
  TraceOptions options;
  options.name = name;
  options.symbolic = symbolic;
  options.capture_as_const = capture_as_const;
  options.record_only = record_only;
  options.symbolic_shape = symbolic_shape;
  options.profiling = profiling;
  options.compile = compile;
  new (self) PyTrace{tracing::NewFunction(options, /*frozen=*/false)};
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

// The same object with arrays that have their values.
nb::object Returned(nb::handle returned, const std::vector<Array>& results) {
  if (nb::isinstance<Array>(returned)) return nb::cast(results[0]);
  if (returned.is_none()) return nb::none();
  nb::list made;
  for (const Array& result : results) made.append(result);
  if (nb::isinstance<nb::tuple>(returned)) return nb::tuple(made);
  return nb::object(made);
}

// Calls `function` with what it is given; arrays are arguments of the trace.
nb::object Call(PyTrace& self, nb::handle function, nb::tuple given) {
  std::vector<Array> arrays;
  std::vector<bool> is_array;
  for (nb::handle object : given) {
    is_array.push_back(IsArray(object));
    if (is_array.back()) arrays.push_back(ArrayOver(object, {"argument"}));
  }
  std::vector<const Array*> list;
  for (const Array& array : arrays) list.push_back(&array);
  const Location where = Caller();
  const auto call = WithoutGil([&] {
    return std::make_unique<tracing::Call>(self.function.get(), list.data(), list.size(), where);
  });
  if (!call->runs()) Raise(call->result(0).status());
  nb::list arguments;
  for (size_t k = 0, array = 0; k < is_array.size(); ++k) {
    if (is_array[k])
      arguments.append(call->argument(array++));
    else
      arguments.append(given[k]);
  }
  const nb::object returned = function(*arguments);
  std::vector<Array> results = ResultsOf(returned);
  Check(WithoutGil([&] {
    call->Finish(results.data(), results.size());
    return tracing::StatusOf(self.function.get());
  }));
  return Returned(returned, results);
}

nb::dict StatsOf(const PyTrace& self) {
  const TraceStats stats = tracing::StatsOf(self.function.get());
  nb::dict made;
  made["calls"] = stats.calls;
  made["records"] = stats.records;
  made["replays"] = stats.replays;
  made["errors"] = stats.errors;
  made["runs"] = stats.runs;
  made["variants"] = stats.variants;
  made["operations"] = stats.operations;
  made["segments"] = stats.segments;
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
  made["growth_cuts"] = stats.growth_cuts;
  return made;
}

}  // namespace

void BindTrace(nb::module_& module) {
  nb::class_<PyTrace>(module, "Trace", "What kiln.trace is made of.")
      .def("__init__", Make, nb::arg("name"), nb::arg("symbolic"), nb::arg("capture_as_const"),
           nb::arg("record_only"), nb::arg("symbolic_shape"), nb::arg("profiling"),
           nb::arg("compile"))
      .def("call", Call, nb::arg("function"), nb::arg("arguments"),
           nb::sig("def call(self, function: Callable[..., Any], arguments: tuple[object, ...]) "
                   "-> Any"))
      .def_prop_ro("stats", StatsOf, nb::sig("def stats(self) -> dict[str, int]"))
      .def("profile",
           [](const PyTrace& self) { return Value(tracing::ProfileOf(self.function.get())); })
      .def("forget", [](const PyTrace& self) { tracing::Forget(self.function.get()); });
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
             "Of the calling thread: operations, runs, structures, compiled, growth_cuts.");
}

}  // namespace kiln::python
