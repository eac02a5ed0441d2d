// SPDX-License-Identifier: Apache-2.0
// kiln.Cache and kiln.Runtime.
#include "kiln/cache.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "kiln/runtime.h"
#include "python/bindings.h"
#include "python/deferred.h"
#include "python/gil.h"
#include "python/source.h"
#include "python/status.h"

namespace kiln::python {

namespace nb = nanobind;
namespace {

constexpr const char* kEvents[] = {"hit",           "miss",    "published",
                                   "not_published", "damaged", "evicted"};

// The host's function, shared by copies of the settings and given up with the GIL.
std::shared_ptr<PyObject> Shared(nb::object function) {
  return {function.release().ptr(),
          [](PyObject* object) { Later([object] { Py_XDECREF(object); }); }};
}

CacheEventFn EventsTo(nb::object function) {
  return [function = Shared(std::move(function))](const CacheEvent& event) {
    Later([function, event] {
      const nb::bytes key(reinterpret_cast<const char*>(event.key.data()), event.key.size());
      try {
        nb::handle(function.get())(kEvents[static_cast<size_t>(event.kind)], key, event.target,
                                   event.wall_ms);
      } catch (nb::python_error& error) {
        error.restore();
      }
    });
  };
}

std::shared_ptr<Cache> Open(std::optional<std::string> directory, bool read_only, int64_t max_bytes,
                            std::vector<std::string> packs, bool trust_unsigned,
                            std::string shared_directory, nb::object on_event) {
  CacheSettings settings;
  settings.directory = CheckPath(directory.value_or(""));
  settings.read_only = read_only;
  settings.max_bytes = max_bytes;
  for (const std::string& pack : packs) CheckPath(pack);
  settings.packs = std::move(packs);
  settings.trust.unsigned_too = trust_unsigned;
  settings.shared_directory = CheckPath(shared_directory);
  if (!on_event.is_none()) settings.on_event = EventsTo(std::move(on_event));
  absl::StatusOr<std::shared_ptr<Cache>> cache;
  {
    const GilReleased released;
    cache = Cache::Open(std::move(settings));
  }
  return Value(std::move(cache));
}

nb::dict Counters(const Cache& cache) {
  const CacheCounters now = cache.Snapshot();
  nb::dict made;
  made["hits"] = now.hits;
  made["misses"] = now.misses;
  made["published"] = now.published;
  made["failures"] = now.failures;
  made["publish_failures"] = now.publish_failures;
  made["damaged"] = now.damaged;
  made["evictions"] = now.evictions;
  made["saved_ms"] = now.saved_ms;
  return made;
}

std::shared_ptr<Runtime> Create(int threads, int64_t spin_us, int64_t memory_budget,
                                int64_t idle_budget, int build_jobs, std::shared_ptr<Cache> cache,
                                const std::string& device, bool require_device) {
  RuntimeOptions options;
  options.threads = threads;
  options.spin_time = std::chrono::microseconds(spin_us);
  options.memory_budget = memory_budget;
  options.idle_budget = idle_budget;
  options.build_jobs = build_jobs;
  options.cache.open = std::move(cache);
  options.device = device;
  options.require_device = require_device;
  return Value(Runtime::Create(std::move(options)));
}

nb::dict Metrics(const Runtime& runtime) {
  const RuntimeMetrics now = runtime.metrics();
  nb::dict made;
  made["runs"] = now.runs;
  made["failed_runs"] = now.failed_runs;
  made["vm_runs"] = now.vm_runs;
  made["plans"] = now.plans;
  made["variants"] = now.variants;
  made["kernels_built"] = now.kernels_built;
  made["kernels_cached"] = now.kernels_cached;
  made["kernels_failed"] = now.kernels_failed;
  made["memory_bytes"] = now.memory_bytes;
  made["memory_peak"] = now.memory_peak;
  made["idle_bytes"] = now.idle_bytes;
  return made;
}

}  // namespace

void BindCache(nb::module_& module) {
  nb::class_<Cache>(module, "Cache",
                    "A kernel cache that a program opens for itself: CompileOptions.cache.")
      .def(nb::new_(&Open), nb::arg("directory") = nb::none(), nb::kw_only(),
           nb::arg("read_only") = false, nb::arg("max_bytes") = kDefaultCacheBytes,
           nb::arg("packs") = std::vector<std::string>(), nb::arg("trust_unsigned") = false,
           nb::arg("shared_directory") = "", nb::arg("on_event") = nb::none(),
           "on_event(kind, key, target, wall_ms) is called for each event, soon after it; kind is "
           "'hit', 'miss', 'published', 'not_published', 'damaged' or 'evicted'.")
      .def_prop_ro("directory", &Cache::directory)
      .def_prop_ro("read_only", &Cache::read_only)
      .def("counters", Counters, nb::sig("def counters(self) -> dict[str, int]"),
           "Counts since it was opened: hits, misses, published and so on.");
}

void BindRuntime(nb::module_& module) {
  nb::class_<Runtime>(module, "Runtime",
                      "What models share: threads, memory budgets, the cache, compiled kernels.")
      .def(nb::new_(&Create), nb::kw_only(), nb::arg("threads") = 0, nb::arg("spin_us") = 1000,
           nb::arg("memory_budget") = 0, nb::arg("idle_budget") = 0, nb::arg("build_jobs") = 0,
           nb::arg("cache").none() = nb::none(), nb::arg("device") = "",
           nb::arg("require_device") = false)
      .def_static("default", &Runtime::Default, "The process's.")
      .def_prop_ro("threads", &Runtime::threads)
      .def("metrics", Metrics, nb::sig("def metrics(self) -> dict[str, int]"),
           "Counts since it was made, and bytes now.")
      .def("maintain", &Runtime::Maintain, nb::call_guard<GilReleased>(),
           "Does now what is never done on a caller's thread: prunes the cache, and so on.");
}

}  // namespace kiln::python
