// SPDX-License-Identifier: Apache-2.0
// Which build of the validator this is: a library talks to the kiln-validate of its own build only.
#ifndef KILN_EXEC_VALIDATE_BUILD_ID_H_
#define KILN_EXEC_VALIDATE_BUILD_ID_H_

namespace kiln {

extern const char kValidatorBuildId[];  // generated: the digest of the sources

}  // namespace kiln

#endif  // KILN_EXEC_VALIDATE_BUILD_ID_H_
