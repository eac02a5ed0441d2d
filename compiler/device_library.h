// SPDX-License-Identifier: Apache-2.0
// Which libraries a model's calls may be of: what CompileOptions::device_library comes to.
#ifndef KILN_COMPILER_DEVICE_LIBRARY_H_
#define KILN_COMPILER_DEVICE_LIBRARY_H_

#include "base/library_set.h"
#include "fusion/device_call.h"
#include "kiln/options.h"

namespace kiln {

// The host's, and those of the target. With kFound the runtime's device is asked, which opens them.
LibrarySet LibrariesOf(const CompileOptions& options);

// The same, as fusion wants it.
LibraryRules LibraryRulesOf(const CompileOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_DEVICE_LIBRARY_H_
