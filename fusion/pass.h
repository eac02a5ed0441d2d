// SPDX-License-Identifier: Apache-2.0
// Pass: one named rewriting of a Graph.
//
// A pass keeps what the graph computes, says whether it changed anything, is idempotent (a second
// run changes nothing) and leaves a graph that Verify accepts. All passes stand in one table
// (AllPasses), in the order in which they run. There is no other list: levels, `kiln opt
// --list-passes` and the docs read this one.
#ifndef KILN_FUSION_PASS_H_
#define KILN_FUSION_PASS_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/target.h"
#include "fusion/device_call.h"
#include "graph/graph.h"
#include "schedule/device.h"

namespace kiln {

// What passes may know besides the graph.
struct PassContext {
  int level = 3;      // the optimisation level of the run
  bool fast = false;  // also rules that round otherwise; no option sets it
  // Groups will be reductions with what they reduce: what a pass writes as such needs no memory
  // for what is reduced.
  bool fuses_reductions = true;
  LibraryRules library = {};                     // whose calls library operators are
  int64_t max_folded_bytes = int64_t{64} << 20;  // constants larger than this are not made
};

struct Pass {
  const char* name;
  int level;        // runs at this optimisation level and above
  const char* doc;  // one sentence
  absl::StatusOr<bool> (*run)(Graph& graph, const PassContext& context);
  bool last = false;  // runs once, after the others have left the graph alone
  // Runs only for devices of which this holds; null: the pass is about no device.
  bool (*wanted)(const DeviceModel& model) = nullptr;
};

// All passes, in running order. Immutable.
std::span<const Pass> AllPasses();
// The pass of that name, or null.
const Pass* FindPass(absl::string_view name);

// ---- The passes, one file each.
absl::StatusOr<bool> FoldShapes(Graph& graph, const PassContext& context);
absl::StatusOr<bool> FoldConstants(Graph& graph, const PassContext& context);
absl::StatusOr<bool> Algebra(Graph& graph, const PassContext& context);
absl::StatusOr<bool> StrengthReduction(Graph& graph, const PassContext& context);
absl::StatusOr<bool> ConstantChains(Graph& graph, const PassContext& context);
absl::StatusOr<bool> Reductions(Graph& graph, const PassContext& context);
absl::StatusOr<bool> HoistGathers(Graph& graph, const PassContext& context);
absl::StatusOr<bool> SinkTransposes(Graph& graph, const PassContext& context);
absl::StatusOr<bool> FuseHorizontalGemms(Graph& graph, const PassContext& context);
absl::StatusOr<bool> BatchSkinnyGemms(Graph& graph, const PassContext& context);
absl::StatusOr<bool> CommonSubexpressions(Graph& graph, const PassContext& context);
absl::StatusOr<bool> ExpandComposites(Graph& graph, const PassContext& context);
absl::StatusOr<bool> ExpandLibrary(Graph& graph, const PassContext& context);
absl::StatusOr<bool> ExpandSplits(Graph& graph, const PassContext& context);
absl::StatusOr<bool> ConcatOfSplits(Graph& graph, const PassContext& context);
absl::StatusOr<bool> SplitConcats(Graph& graph, const PassContext& context);
absl::StatusOr<bool> FoldBatchNorm(Graph& graph, const PassContext& context);
absl::StatusOr<bool> ChannelGroups(Graph& graph, const PassContext& context);
absl::StatusOr<bool> LookupTables(Graph& graph, const PassContext& context);
absl::StatusOr<bool> SumsOfProducts(Graph& graph, const PassContext& context);
absl::StatusOr<bool> SharedPanels(Graph& graph, const PassContext& context);
absl::StatusOr<bool> ChannelsLast(Graph& graph, const PassContext& context);
absl::StatusOr<bool> DeadCode(Graph& graph, const PassContext& context);

}  // namespace kiln

#endif  // KILN_FUSION_PASS_H_
