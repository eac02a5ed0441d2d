// SPDX-License-Identifier: Apache-2.0
// The kernels that a model needs for given targets and shapes, as `kiln compile` and `kiln cache`
// are asked for them.
#ifndef KILN_TOOLS_MODEL_KERNELS_H_
#define KILN_TOOLS_MODEL_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/package_writer.h"
#include "compiler/precompile.h"
#include "tools/common.h"
#include "tools/model_graphs.h"

namespace kiln {

// The kernels of all graphs that the flags mean (model_graphs.h). Schedules are chosen by the tune
// records of `tune`. With `keep` the Programs are kept in its store, and what `common` wants
// measured is; with a `package` they go into that. Errors are those of ForEachGraph.
absl::StatusOr<std::vector<KernelJob>> KernelsOfModel(
    const ModelFlags& flags, const CommonOptions& common, TuneUse& tune, bool keep = false,
    std::unique_ptr<PackageWriter>* package = nullptr);

// The files that these flags name beside the model: of --shapes, and of values. Errors of reading.
absl::StatusOr<std::vector<std::string>> FilesNamed(const ModelFlags& flags);

// Runs the model once on each of these sets of inputs, random where nothing is given, so that its
// library calls are chosen, and measured as `common` says. The records go into `tune`.
absl::Status PlanForInputs(const ModelFlags& flags, const CommonOptions& common,
                           const std::shared_ptr<KernelService>& service, TuneUse& tune);

}  // namespace kiln

#endif  // KILN_TOOLS_MODEL_KERNELS_H_
