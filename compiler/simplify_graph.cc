// SPDX-License-Identifier: Apache-2.0
#include "compiler/simplify_graph.h"

#include "fusion/pipeline.h"

namespace kiln {

absl::Status SimplifyGraph(Graph& graph) {
  PipelineOptions passes;
  passes.level = 2;
  passes.disabled = {"expand_composites", "expand_splits",      "split_concats",
                     "channel_groups",    "batch_skinny_gemms", "fuse_horizontal_gemms",
                     "sums_of_products",  "lookup_tables",      "shared_panels",
                     "channels_last"};
  return RunPasses(graph, passes);
}

}  // namespace kiln
