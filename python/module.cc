// SPDX-License-Identifier: Apache-2.0
// kiln._kiln, the part of the Python package that is compiled.
#include <nanobind/nanobind.h>

#include "kiln/kiln.h"
#include "kiln/target.h"
#include "python/bindings.h"

NB_MODULE(_kiln, module) {
  using namespace kiln::python;
  // A function of the host, as Cache's on_event, may hold what holds it until the process ends.
  nanobind::set_leak_warnings(false);
  module.doc() = "Kiln's C++ interface; import kiln.";
  BindLog(module);
  BindTensor(module);
  BindPort(module);
  BindCache(module);
  BindRuntime(module);
  BindOptions(module);
  BindContext(module);
  BindModel(module);
  BindCompile(module);
  BindTrainer(module);
  BindArray(module);
  BindDump(module);
  BindTrace(module);
  const absl::string_view target = kiln::HostTarget().name();
  module.attr("version") = kiln_version();
  module.attr("target") = nanobind::str(target.data(), target.size());
}
