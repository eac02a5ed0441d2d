// SPDX-License-Identifier: Apache-2.0
#include "fusion/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/stop.h"

namespace kiln {
namespace {

bool OnHost(const DeviceModel& model) { return model.device == DefaultDevice(); }
bool OnOtherDevice(const DeviceModel& model) { return !OnHost(model); }

// Each round makes the graph simpler; more rounds than this mean passes that undo each other. What
// they leave is right all the same.
constexpr int kMaxRounds = 20;  // compile time

constexpr Pass kPasses[] = {
    {"dead_code", 0, "Drops nodes and constants that no output needs.", DeadCode},
    {"fold_shapes", 0, "Makes constants of values that shape arithmetic has found.", FoldShapes},
    {"expand_composites", 0, "Writes composite operators as what they mean.", ExpandComposites},
    {"expand_splits", 0, "Writes a split as a slice for each part.", ExpandSplits},
    {"concat_of_splits", 1, "Drops concats of all the parts that a value was cut into.",
     ConcatOfSplits},
    {"split_concats", 0, "Writes a concat of many parts as a concat of concats.", SplitConcats},
    {"algebra", 1, "Exact simplifications: x * 1, transpose of transpose, views of views, casts.",
     Algebra},
    {"strength_reduction", 1, "Writes powers and divisions by numbers as products and roots.",
     StrengthReduction},
    {"constant_chains", 1, "Joins the numbers of (x op c1) op c2.", ConstantChains},
    {"reductions", 1, "Joins reductions of reductions, and makes sums over counts means.",
     Reductions},
    {"sink_transposes", 1,
     "Drops transposes and reshapes that are undone behind element-wise nodes.", SinkTransposes},
    {"hoist_gathers", 1, "Computes what is picked from element-wise nodes for what is picked only.",
     HoistGathers},
    {"fold_constants", 1, "Evaluates nodes whose inputs are all constants.", FoldConstants},
    {"common_subexpressions", 1, "Computes equal nodes once.", CommonSubexpressions},
    {"fold_batch_norm", 2,
     "Makes constant factors and terms of channels part of the weights before them.",
     FoldBatchNorm},
    {"channel_groups", 2,
     "Reduces groups of channels channel by channel first, so that shapes stay what they are.",
     ChannelGroups},
    {"fuse_horizontal_gemms", 2,
     "Joins products of one value with several constant matrices, as in attention.",
     FuseHorizontalGemms},
    {"batch_skinny_gemms", 2,
     "Joins products of few rows each with one constant matrix, as in recurrent networks.",
     BatchSkinnyGemms},
    {"sums_of_products", 2,
     "Joins the products of few terms each that are added up, as in gradients of shared weights.",
     SumsOfProducts, /*last=*/false, OnHost},
    {"lookup_tables", 2, "Looks what chains of nodes make of bytes up in tables.", LookupTables,
     /*last=*/true},
    {"expand_library", 3, "Writes library operators as kernels where the device has no library.",
     ExpandLibrary, /*last=*/true, OnOtherDevice},
    {"shared_panels", 2,
     "Packs a matrix that changes once for all products of few rows, as in recurrent networks.",
     SharedPanels, /*last=*/true, OnHost},
    {"channels_last", 2, "Lays activations around convolutions out with their channels innermost.",
     ChannelsLast, /*last=*/true,
     [](const DeviceModel& model) { return model.layout == ActivationLayout::kChannelsLast; }},
};

}  // namespace

std::span<const Pass> AllPasses() { return kPasses; }

const Pass* FindPass(absl::string_view name) {
  const auto found = std::find_if(std::begin(kPasses), std::end(kPasses),
                                  [&](const Pass& pass) { return name == pass.name; });
  return found == std::end(kPasses) ? nullptr : found;
}

absl::StatusOr<bool> RunPass(const Pass& pass, Graph& graph, const PassContext& context) {
  KILN_RETURN_IF_ERROR(CheckStopped());
  const std::string subject = absl::StrCat("pass \"", pass.name, "\"");
  const absl::StatusOr<bool> changed = pass.run(graph, context);
  if (!changed.ok()) return Annotate(changed.status(), subject);
  if (*changed) {
    if (const absl::Status status = Verify(graph); !status.ok()) {
      return absl::InternalError(
          absl::StrCat(subject, " leaves a graph that does not verify: ", status.message(),
                       "; report this, and disable the pass meanwhile"));
    }
  }
  return changed;
}

absl::Status RunPasses(Graph& graph, const PipelineOptions& options) {
  for (const std::string& name : options.disabled) {
    if (FindPass(name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pass \"", name, "\": there is none of that name; see kiln opt --list-passes"));
    }
  }
  const PassContext context{.level = options.level,
                            .fast = options.fast,
                            .fuses_reductions = options.fuses_reductions,
                            .library = {options.target.device, options.libraries, options.fast}};
  const auto run = [&](const Pass& pass) -> absl::StatusOr<bool> {
    if (pass.level > options.level || options.disabled.count(pass.name) != 0) return false;
    if (pass.wanted != nullptr && !pass.wanted(ModelOf(options.target))) return false;
    KILN_ASSIGN_OR_RETURN(const bool changed, RunPass(pass, graph, context));
    if (changed && options.on_changed) options.on_changed(pass.name, graph);
    return changed;
  };
  bool changed = true;
  for (int round = 0; changed; ++round) {
    if (round == kMaxRounds) {
      LogWarning("passes: the graph still changes after ", kMaxRounds,
                 " rounds and is taken as it is; please report this");
      break;
    }
    changed = false;
    for (const Pass& pass : AllPasses()) {
      if (pass.last) continue;
      KILN_ASSIGN_OR_RETURN(const bool changed_now, run(pass));
      changed = changed || changed_now;
    }
  }
  for (const Pass& pass : AllPasses()) {
    if (pass.last) KILN_RETURN_IF_ERROR(run(pass).status());
  }
  return absl::OkStatus();
}

}  // namespace kiln
