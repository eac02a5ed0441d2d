// SPDX-License-Identifier: Apache-2.0
// What adds classes and functions to the module, each after those whose classes it names.
#ifndef KILN_PYTHON_BINDINGS_H_
#define KILN_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace kiln::python {

void BindLog(nanobind::module_& module);
void BindTensor(nanobind::module_& module);
void BindPort(nanobind::module_& module);
void BindCache(nanobind::module_& module);
void BindRuntime(nanobind::module_& module);
void BindOptions(nanobind::module_& module);
void BindContext(nanobind::module_& module);
void BindModel(nanobind::module_& module);
void BindCompile(nanobind::module_& module);
void BindTrainer(nanobind::module_& module);
void BindArray(nanobind::module_& module);
void BindDump(nanobind::module_& module);
void BindTrace(nanobind::module_& module);

}  // namespace kiln::python

#endif  // KILN_PYTHON_BINDINGS_H_
