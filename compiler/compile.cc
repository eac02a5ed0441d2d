// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/compile.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kiln/base/file_system.h"
#include "kiln/base/status_macros.h"
#include "kiln/compiler/value_variants.h"
#include "kiln/compiler/variants.h"
#include "kiln/graph/onnx/import.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

absl::Status Check(const CompileOptions& options) {
  if (options.graph_opt_level < 0 || options.graph_opt_level > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph_opt_level: is ", options.graph_opt_level, ", expected 0 to 3"));
  }
  if (options.jit_level < 0 || options.jit_level > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("jit_level: is ", options.jit_level, ", expected 0 to 2"));
  }
  if (options.threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: is ", options.threads, ", expected 0 (all) or more"));
  }
  if (options.math == MathMode::kFast)
    return absl::UnimplementedError("math mode \"fast\" is not there yet; use strict");
  if (options.compile_mode == CompileMode::kBackground) {
    return absl::UnimplementedError(
        "compile mode \"background\" is not there yet; use block or never");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Graph> ReadModel(absl::string_view path) {
  if (absl::EndsWith(path, ".graph")) {
    KILN_ASSIGN_OR_RETURN(const std::string text, RealFileSystem().ReadFile(path, kMaxTextBytes));
    absl::StatusOr<Graph> graph = ParseGraph(text);
    if (graph.ok()) return graph;
    return absl::Status(graph.status().code(),
                        absl::StrCat("\"", path, "\": ", graph.status().message()));
  }
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path));
  return std::move(import.graph);
}

absl::StatusOr<Model> Compile(absl::string_view path, const CompileOptions& options) {
  KILN_RETURN_IF_ERROR(Check(options));
  if (!absl::EndsWith(path, ".graph")) {
    KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, {.allow_unsupported = true,
                                                               .custom_ops = options.custom_ops}));
    if (import.unsupported.empty()) return Compile(std::move(import.graph), options);
    if (std::all_of(import.unsupported.begin(), import.unsupported.end(),
                    [](const UnsupportedNode& node) { return node.needs_values; })) {
      KILN_ASSIGN_OR_RETURN(auto variants, ValueVariants::Create(path, import, options));
      return Model::Create(std::move(variants), {options.threads});
    }
  }
  KILN_ASSIGN_OR_RETURN(Graph graph, ReadModel(path));
  return Compile(std::move(graph), options);
}

absl::StatusOr<Model> Compile(Graph graph, const CompileOptions& options) {
  KILN_RETURN_IF_ERROR(Check(options));
  KILN_RETURN_IF_ERROR(Verify(graph));
  auto kernels =
      options.kernels != nullptr ? options.kernels : std::make_shared<KernelService>(options);
  auto variants = std::make_shared<Variants>(std::move(graph), options, std::move(kernels));
  KILN_RETURN_IF_ERROR(variants->Prepare());
  RunOptions run;
  run.threads = options.threads;
  if (options.dump || options.on_plan) {
    run.on_plan = [dump = options.dump, on_plan = options.on_plan](const PlanInfo& plan) {
      if (dump) dump("plan", "plan", plan.text);
      if (on_plan) on_plan(plan);
    };
  }
  return Model::Create(std::move(variants), run);
}

}  // namespace kiln
