// SPDX-License-Identifier: Apache-2.0
// Options are attributes with the names of kiln/model.h and kiln/options.h; what is an enum there
// is text here, as on the command line.
#include "python/options.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kiln/cache.h"
#include "python/bindings.h"
#include "python/source.h"
#include "python/status.h"
#include "python/tensor.h"

namespace kiln::python {
namespace {

using States = std::vector<std::pair<std::string, std::string>>;

// An enum whose values from 0 on have these names.
template <auto Field, size_t N>
struct Choice {
  const char* option;
  std::array<const char*, N> names;

  template <typename Options>
  auto Get() const {
    return [names = names](const Options& self) { return names[static_cast<size_t>(self.*Field)]; };
  }
  template <typename Options>
  auto Set() const {
    return [*this](Options& self, const std::string& value) {
      for (size_t k = 0; k < N; ++k) {
        if (names[k] != value) continue;
        self.*Field = static_cast<std::decay_t<decltype(self.*Field)>>(k);
        return;
      }
      RaiseInvalid(
          absl::StrCat(option, ": is \"", value, "\", expected ", absl::StrJoin(names, " or ")));
    };
  }
};

constexpr Choice<&RunOptions::output_memory, 3> kOutputMemory{"output_memory",
                                                              {"reused", "fresh", "bound"}};
constexpr Choice<&RunOptions::temporaries, 3> kTemporaries{"temporaries",
                                                           {"planned", "separate", "allocated"}};
constexpr Choice<&CompileOptions::math, 2> kMath{"math", {"strict", "fast"}};
constexpr Choice<&CompileOptions::compile_mode, 3> kMode{"compile_mode",
                                                         {"block", "background", "never"}};
constexpr Choice<&CompileOptions::schedule_choice, 3> kScheduleChoice{
    "schedule_choice", {"heuristic", "profile", "reproducible"}};
constexpr Choice<&CompileOptions::external_data_links, 2> kLinks{"external_data_links",
                                                                 {"refuse", "follow"}};

// A context of Python's hands its outputs out, so they stay valid as long as they are held.
void SetOutputMemory(RunOptions& options, const std::string& value) {
  kOutputMemory.Set<RunOptions>()(options, value);
  if (options.output_memory == OutputMemory::kReused)
    RaiseInvalid("output_memory: \"reused\" is not for Python; use fresh or bound");
}

void SetStates(RunOptions& options, const States& pairs) {
  options.states.clear();
  for (const auto& [input, output] : pairs) options.states.push_back({input, output});
}

States StatesOf(const RunOptions& options) {
  States pairs;
  for (const StateBuffer& state : options.states) pairs.emplace_back(state.input, state.output);
  return pairs;
}

// None: the environment's; False: none; a directory; a kiln.Cache.
void SetCache(CacheOptions& options, nb::handle cache) {
  options = {};
  std::shared_ptr<Cache> open;
  if (cache.is_none()) return;
  if (cache.ptr() == Py_False) {
    options.enabled = false;
  } else if (nb::try_cast(cache, open)) {
    options.open = std::move(open);
  } else {
    options.directory = PathOf(cache);
  }
}

template <std::string CompileOptions::*field>
void SetPath(CompileOptions& options, const std::string& path) {
  options.*field = CheckPath(path);
}

nb::object CacheOf(const CacheOptions& options) {
  if (!options.enabled) return nb::bool_(false);
  if (options.open != nullptr) return nb::cast(options.open);
  if (options.directory.empty()) return nb::none();
  return nb::cast(options.directory);
}

std::string TargetOf(const CompileOptions& options) {
  return std::string(options.target.value_or(HostTarget()).name());
}

void SetTarget(CompileOptions& options, const std::string& name) {
  options.target = Target::Parse(name);
  if (!options.target) {
    RaiseInvalid(absl::StrCat("target: is \"", name,
                              "\", expected x86-64-v3 or another that `kiln devices` lists"));
  }
}

nb::dict ShapesOf(const NamedShapes& shapes) {
  nb::dict made;
  for (const auto& [name, extents] : shapes) made[name.c_str()] = ExtentsOf(extents);
  return made;
}

void SetConstShapes(CompileOptions& options, const nb::dict& shapes) {
  options.const_shapes = ShapesFrom(shapes);
}

void BindRunOptions(nb::module_& module) {
  nb::class_<RunOptions>(module, "RunOptions", "How a model runs. Names are those of kiln/model.h.")
      .def("__init__",
           [](RunOptions* made) {
             new (made) RunOptions();
             made->output_memory = OutputMemory::kFresh;
           })
      .def_rw("threads", &RunOptions::threads,
              "Hard cap of the model, however many callers it has; 0: the CPUs of this process.")
      .def_rw("runtime", &RunOptions::runtime, nb::arg().none(),
              nb::for_getter(nb::sig("def runtime(self) -> Runtime | None")),
              "Whose threads, memory and budgets are used; None: the process's.")
      .def_rw("workspace_limit", &RunOptions::workspace_limit,
              "Bytes beside its operands that a launch may take; 0: no limit.")
      .def_prop_rw("states", StatesOf, SetStates,
                   "Pairs of an input and the output that is its next value: a context keeps them.")
      .def_prop_rw("temporaries", kTemporaries.Get<RunOptions>(), kTemporaries.Set<RunOptions>(),
                   "'planned', 'separate' or 'allocated': where temporaries lie.")
      .def_prop_rw("output_memory", kOutputMemory.Get<RunOptions>(), SetOutputMemory,
                   "'fresh': new memory for outputs that nobody has bound; 'bound': an error.")
      .def_rw("check_first_run", &RunOptions::check_first_run,
              "Each plan is verified before its first run.")
      .def_rw("batch_invariant", &RunOptions::batch_invariant,
              "Each sample of a batch has the bits that it has alone.")
      .def_rw("record_level", &RunOptions::record_level,
              "1: the first shapes are the only ones; 2: and what made plans is given up.")
      .def(
          "__copy__", [](const RunOptions& self) { return RunOptions(self); },
          nb::sig("def __copy__(self) -> RunOptions"));
}

}  // namespace

NamedShapes ShapesFrom(const nb::dict& shapes) {
  NamedShapes made;
  for (auto [name, shape] : shapes) {
    const std::string input = nb::cast<std::string>(nb::str(name));
    made.emplace_back(input, ExtentsFrom(shape, {"input", input}));
  }
  return made;
}

void BindOptions(nb::module_& module) {
  BindRunOptions(module);
  nb::class_<CompileOptions, RunOptions>(
      module, "CompileOptions",
      "How a model is compiled, and runs. Names are those of kiln/options.h.")
      .def("__init__",
           [](CompileOptions* made) {
             new (made) CompileOptions();
             made->output_memory = OutputMemory::kFresh;
           })
      .def_rw("graph_opt_level", &CompileOptions::graph_opt_level, "0 to 3.")
      .def_rw("jit_level", &CompileOptions::jit_level,
              "0: no fusion, 1: element-wise groups, 2: and reductions.")
      .def_prop_rw("math", kMath.Get<CompileOptions>(), kMath.Set<CompileOptions>(),
                   "'strict' or 'fast'.")
      .def_prop_rw("compile_mode", kMode.Get<CompileOptions>(), kMode.Set<CompileOptions>(),
                   "When kernels are built: 'block', 'background' or 'never'.")
      .def_prop_rw(
          "cache", [](const CompileOptions& self) { return CacheOf(self.cache); },
          [](CompileOptions& self, nb::handle cache) { SetCache(self.cache, cache); },
          nb::arg().none(),
          nb::for_getter(nb::sig("def cache(self) -> Cache | str | Literal[False] | None")),
          nb::for_setter(nb::sig("def cache(self, value: Cache | str | PathLike[str] | "
                                 "Literal[False] | None, /) -> None")),
          "None: the environment's; False: none at all; a directory; or a kiln.Cache.")
      .def_prop_rw(
          "cache_read_only", [](const CompileOptions& self) { return self.cache.read_only; },
          [](CompileOptions& self, bool value) { self.cache.read_only = value; },
          "The cache is looked into and never written.")
      .def_prop_rw(
          "codegen", [](const CompileOptions& self) { return self.codegen; },
          SetPath<&CompileOptions::codegen>, "Path of kiln-codegen; '': looked for.")
      .def_prop_rw(
          "validator", [](const CompileOptions& self) { return self.validator; },
          SetPath<&CompileOptions::validator>, "Path of kiln-validate; '': looked for.")
      .def_prop_rw("target", TargetOf, SetTarget,
                   "'x86-64-v3' or the like: this machine's at first.")
      .def_rw("build_jobs", &CompileOptions::build_jobs, "Kernels built at once; 0: by CPUs.")
      .def_rw("kernel_timeout_ms", &CompileOptions::kernel_timeout_ms, "For building one kernel.")
      .def_rw("kernel_cpu_ms", &CompileOptions::kernel_cpu_ms,
              "Processor time for building one kernel; 0: no limit.")
      .def_rw("max_weight_bytes", &CompileOptions::max_weight_bytes,
              "A model whose constants have more is refused.")
      .def_prop_rw("external_data_links", kLinks.Get<CompileOptions>(),
                   kLinks.Set<CompileOptions>(),
                   "'refuse' or 'follow': links on the way to external data.")
      .def_rw("updatable", &CompileOptions::updatable,
              "Names of constants that Model.update may replace.")
      .def_prop_rw(
          "const_shapes", [](const CompileOptions& self) { return ShapesOf(self.const_shapes); },
          SetConstShapes,
          nb::for_getter(nb::sig("def const_shapes(self) -> dict[str, tuple[int, ...]]")),
          nb::for_setter(nb::sig("def const_shapes(self, value: Mapping[str, int | Sequence[int]], "
                                 "/) -> None")),
          "Inputs that always have these shapes.")
      .def_rw("disabled_passes", &CompileOptions::disabled_passes)
      .def_rw("no_fuse", &CompileOptions::no_fuse, "Names of nodes that join no kernel.")
      .def_prop_rw("schedule_choice", kScheduleChoice.Get<CompileOptions>(),
                   kScheduleChoice.Set<CompileOptions>(),
                   "'heuristic', 'profile' (measure first) or 'reproducible' (by price alone).")
      .def_rw("tune_at", &CompileOptions::tune_at,
              "Values of the model's symbols for which 'profile' measures.")
      .def(
          "__copy__", [](const CompileOptions& self) { return CompileOptions(self); },
          nb::sig("def __copy__(self) -> CompileOptions"));
}

}  // namespace kiln::python
