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

namespace kiln {

struct ModelFlags {
  std::string model;
  std::vector<std::string> targets;  // empty: this machine's
  std::string shapes;                // file
  std::vector<std::string> inputs;   // values, as MakeInputs takes them
};

// --shapes and --input.
void AddInputFlags(Flags& command, ModelFlags& flags);
// --target and those.
void AddModelFlags(Flags& command, ModelFlags& flags);

// A line of the file given with --shapes is one set of inputs: NAME=EXTENTS for an input,
// NAME=NUMBER for a symbolic dim, NAME=@FILE.npy for a value, separated by blanks; "#" begins a
// comment. Without the file there is one set, that of --shape, --dim and --input: what `kiln run`
// would take.
//
//   x=1x3x224x224
//   batch=8 seq=128        # three variants
//   batch=8 seq=512
// Schedules are chosen by the tune records of `tune`. With `keep` the Programs are kept in its
// store, and what `common` wants measured is; with a `package` they go into that.
// kUnimplemented: a dim or a value on which the model's structure depends is not given.
absl::StatusOr<std::vector<KernelJob>> KernelsOfModel(
    const ModelFlags& flags, const CommonOptions& common, TuneUse& tune, bool keep = false,
    std::unique_ptr<PackageWriter>* package = nullptr);

// Runs the model once on each of these sets of inputs, random where nothing is given, so that its
// library calls are chosen, and measured as `common` says. The records go into `tune`.
absl::Status PlanForInputs(const ModelFlags& flags, const CommonOptions& common,
                           const std::shared_ptr<KernelService>& service, TuneUse& tune);

}  // namespace kiln

#endif  // KILN_TOOLS_MODEL_KERNELS_H_
