// SPDX-License-Identifier: Apache-2.0
// Which model of processor this is: what a validation of compiled code was made on. No part of any
// key.
#ifndef KILN_BASE_CPU_MODEL_H_
#define KILN_BASE_CPU_MODEL_H_

#include <string>

namespace kiln {

// "AuthenticAMD-25-17-1": vendor, family, model and stepping as CPUID tells them.
const std::string& CpuModelId();

}  // namespace kiln

#endif  // KILN_BASE_CPU_MODEL_H_
