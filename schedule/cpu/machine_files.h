// SPDX-License-Identifier: Apache-2.0
// The texts of the *.machine files here, put into the library by the build.
#ifndef KILN_SCHEDULE_CPU_MACHINE_FILES_H_
#define KILN_SCHEDULE_CPU_MACHINE_FILES_H_

namespace kiln {

extern const char kMachineFileV3[];
extern const char kMachineFileV4[];

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_MACHINE_FILES_H_
