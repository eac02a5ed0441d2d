// SPDX-License-Identifier: Apache-2.0
// The texts of machines/*.machine, put into the library by the build.
#ifndef KILN_FUSION_MACHINE_FILES_H_
#define KILN_FUSION_MACHINE_FILES_H_

namespace kiln {

extern const char kMachineFileV3[];
extern const char kMachineFileV4[];

}  // namespace kiln

#endif  // KILN_FUSION_MACHINE_FILES_H_
