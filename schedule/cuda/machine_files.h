// SPDX-License-Identifier: Apache-2.0
// The texts of *.machine files here, one for each level, put into the library by the build; others
// are for --machine.
#ifndef KILN_SCHEDULE_CUDA_MACHINE_FILES_H_
#define KILN_SCHEDULE_CUDA_MACHINE_FILES_H_

namespace kiln {

extern const char kMachineFileA100[];  // what cuda-sm80 is priced by
extern const char kMachineFileH100[];  // cuda-sm90
extern const char kMachineFileB200[];  // cuda-sm100
extern const char kMachineFileRtx[];   // cuda-sm120

}  // namespace kiln

#endif  // KILN_SCHEDULE_CUDA_MACHINE_FILES_H_
