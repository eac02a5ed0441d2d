// SPDX-License-Identifier: Apache-2.0
// The functions of exec/cuda/driver_api.h as libkiln_ptx_driver.so exports them, for programs that
// link it; others open it as they would libcuda.so.1.
#ifndef KILN_PTX_EMULATOR_DRIVER_FUNCTIONS_H_
#define KILN_PTX_EMULATOR_DRIVER_FUNCTIONS_H_

#include "exec/cuda/driver_api.h"
#include "ptx_emulator/control.h"

namespace kiln::cuda {

extern "C" {
#define KILN_PTX_DECLARE(name, parameters) KILN_PTX_API Result name parameters;
KILN_CUDA_FUNCTIONS(KILN_PTX_DECLARE)
#undef KILN_PTX_DECLARE
}

}  // namespace kiln::cuda

#endif  // KILN_PTX_EMULATOR_DRIVER_FUNCTIONS_H_
