// SPDX-License-Identifier: Apache-2.0
// The graphs of a model for the sets of inputs that --shapes, --shape, --dim and --input mean.
//
// A line of the file given with --shapes is one set of inputs: NAME=EXTENTS for an input,
// NAME=NUMBER for a symbolic dim, NAME=@FILE.npy for a value, separated by blanks; "#" begins a
// comment. Without the file there is one set, that of --shape, --dim and --input: what `kiln run`
// would take.
//
//   x=1x3x224x224
//   batch=8 seq=128        # three variants
//   batch=8 seq=512
#ifndef KILN_TOOLS_MODEL_GRAPHS_H_
#define KILN_TOOLS_MODEL_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/target.h"
#include "compiler/model_source.h"
#include "exec/provider.h"
#include "graph/graph.h"
#include "tools/common.h"

namespace kiln {

class Flags;  // tools/flags.h

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

inline constexpr int64_t kMaxShapesBytes = int64_t{16} << 20;

// What the user says about one set of inputs.
struct InputLine {
  CommonOptions common;
  std::vector<std::string> values;  // as --input
  std::string where;                // for errors

  // The error, with the line.
  absl::Status At(const absl::Status& status) const;
};
absl::StatusOr<std::vector<InputLine>> InputLines(const ModelFlags& flags, const Graph& graph,
                                                  const CommonOptions& common);

// A graph, and the sets of inputs that it is compiled for. A model that needs inputs to have a
// graph has one for each set.
struct GraphForInputs {
  std::shared_ptr<const OnnxImport> import;
  Graph graph;  // with the shapes of --const-shape
  std::vector<std::vector<InputInfo>> inputs;
  absl::Span<const InputLine> lines;  // a set each
};

// What the model takes and gives, with the shapes of --const-shape.
struct ModelPorts {
  std::vector<PortInfo> inputs, outputs;
};
absl::StatusOr<ModelPorts> PortsOf(const ModelSource& source, const CompileOptions& options);

// Calls `see` with one after the other. `closed`: as packages have them, where recurrent networks
// of known shapes are no loops. Errors of `see` end it; kUnimplemented: a dim or a value on which
// the model's structure depends is not given.
absl::Status ForEachGraph(const ModelFlags& flags, const CommonOptions& common,
                          const ModelSource& source, const CompileOptions& options, bool closed,
                          const std::function<absl::Status(const GraphForInputs&)>& see);

// The targets that --target names.
std::vector<Target> TargetsNamed(const ModelFlags& flags);
// The same; where it names none, that of the options: --device's, or this CPU.
std::vector<Target> TargetsOf(const ModelFlags& flags, const CompileOptions& options);

}  // namespace kiln

#endif  // KILN_TOOLS_MODEL_GRAPHS_H_
