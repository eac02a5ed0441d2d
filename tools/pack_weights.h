// SPDX-License-Identifier: Apache-2.0
// Which constants of a package library operators pack on this CPU, and into what.
#ifndef KILN_TOOLS_PACK_WEIGHTS_H_
#define KILN_TOOLS_PACK_WEIGHTS_H_

#include "absl/status/status.h"
#include "compiler/package_writer.h"
#include "persistent_cache/store.h"
#include "tools/common.h"
#include "tools/model_graphs.h"

namespace kiln {

// Runs the package that `writer` would write, once on each set of inputs that the flags mean, and
// adds what was packed. Adds nothing where a kernel of it does not run compiled on this CPU. Writes
// to a file without a name in the folder of `output`; errors are those of that, and of the inputs.
absl::Status PackWeights(const ModelFlags& flags, const CommonOptions& common,
                         const std::string& output, Store& store, PackageWriter& writer);

}  // namespace kiln

#endif  // KILN_TOOLS_PACK_WEIGHTS_H_
