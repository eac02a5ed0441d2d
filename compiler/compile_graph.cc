// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile_graph.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "compiler/device_library.h"
#include "compiler/example_launch.h"
#include "compiler/program_builder.h"
#include "compiler/segments.h"
#include "fusion/pipeline.h"
#include "fusion/recompute.h"
#include "graph/text.h"

namespace kiln {
namespace {

PipelineOptions PassesFor(const CompileOptions& options) {
  PipelineOptions passes;
  passes.level = options.graph_opt_level;
  passes.target = TargetOf(options);
  passes.fast = options.math == MathMode::kFast;
  passes.libraries = LibrariesOf(options);
  passes.fuses_reductions = options.jit_level > 1 && options.fusion_rules == FusionRules::kPriced;
  passes.disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  if (options.dump) {
    passes.on_changed = [&](absl::string_view pass, const Graph& g) {
      options.dump("graph", std::string(pass), Print(g));
    };
  }
  return passes;
}

GroupOptions GroupingFor(const CompileOptions& options, const Machine& machine) {
  return {.level = options.graph_opt_level,
          .jit_level = options.jit_level,
          .rules = options.fusion_rules,
          .alone = {options.no_fuse.begin(), options.no_fuse.end()},
          .forced = {options.forced_fusion.begin(), options.forced_fusion.end()},
          .machine = &machine,
          .library = LibraryRulesOf(options)};
}

}  // namespace

absl::StatusOr<Compiled> CompileGraph(const Graph& graph, const CompileOptions& options) {
  Compiled compiled;
  compiled.graph = graph;
  if (options.dump) options.dump("graph", "imported", Print(graph));

  // Graph -> Graph, pass by pass.
  KILN_RETURN_IF_ERROR(RunPasses(compiled.graph, PassesFor(options)));

  // Graph -> groups: what becomes one kernel, one library call, one view.
  KILN_ASSIGN_OR_RETURN(
      compiled.grouping,
      FormGroupsAndRecompute(compiled.graph, GroupingFor(options, MachineOf(options))));
  if (options.dump) options.dump("groups", "groups", ToString(compiled.grouping, compiled.graph));

  // Groups -> Program: each kernel group is lowered to a Kernel (LowerGroup), a schedule is chosen
  // for each of its size classes (ChooseSchedule), and a thunk launches it (BuildProgram).
  KILN_ASSIGN_OR_RETURN(BuiltProgram built,
                        BuildProgram(compiled.graph, compiled.grouping, options));

  // Program -> Variant: the program with what it assumes and what it holds.
  compiled.variant.guards = compiled.graph.guards();
  compiled.variant.program = std::move(built.program);
  SetExampleLaunches(compiled.variant.guards, compiled.variant.program);
  compiled.variant.constants = std::move(built.constants);
  compiled.thunk_of = std::move(built.thunk_of);
  return compiled;
}

absl::StatusOr<std::vector<Compiled>> CompileParts(const Graph& graph,
                                                   const CompileOptions& options) {
  std::vector<Compiled> parts;
  if (!HasDynamicNodes(graph)) {
    KILN_ASSIGN_OR_RETURN(parts.emplace_back(), CompileGraph(graph, options));
    return parts;
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<Graph> segments, Segments(graph));
  for (const Graph& segment : segments) {
    KILN_ASSIGN_OR_RETURN(parts.emplace_back(), CompileGraph(segment, options));
  }
  return parts;
}

}  // namespace kiln
