// SPDX-License-Identifier: Apache-2.0
// kiln lock, and --locked of run and compile: what is compiled is what was reviewed.
#ifndef KILN_TOOLS_LOCK_H_
#define KILN_TOOLS_LOCK_H_

#include <string>

#include "persistent_cache/store.h"
#include "tools/common.h"
#include "tools/model_kernels.h"

namespace kiln {

class Flags;  // tools/flags.h

// The verb.
void AddLock(Flags& command);

// --locked, of verbs that compile.
void AddLockedFlag(Flags& command, std::string& file);

// kExitOk if all that these flags compile stands in the lock `file`, or that is empty. Else tells
// what does not, as a diff on stderr, and gives the exit code. `package` and `store` as LockOf.
int CheckLocked(const std::string& file, const ModelFlags& flags, const CommonOptions& common,
                bool package, Store* store);

}  // namespace kiln

#endif  // KILN_TOOLS_LOCK_H_
