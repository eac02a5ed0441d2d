// SPDX-License-Identifier: Apache-2.0
// From a model to something that runs: files and caches first; what is new goes through
// CompileGraph (compile_graph.cc).
#include "compiler/compile.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "compiler/check_options.h"
#include "compiler/model_source.h"
#include "compiler/variants.h"
#include "exec/package.h"

namespace kiln {
namespace {

constexpr char kCompiling[] = "compiling";

std::shared_ptr<KernelService> ServiceOf(const CompileOptions& options) {
  return options.kernels != nullptr ? options.kernels : std::make_shared<KernelService>(options);
}

RunOptions RunOptionsOf(const CompileOptions& options) {
  RunOptions run;
  run.threads = options.threads;
  run.workspace_limit = options.workspace_limit;
  if (options.dump || options.on_plan) {
    run.on_plan = [dump = options.dump, on_plan = options.on_plan](const PlanInfo& plan) {
      if (dump) dump("plan", "plan", plan.text);
      if (on_plan) on_plan(plan);
    };
  }
  return run;
}

}  // namespace

absl::StatusOr<Graph> ReadModel(absl::string_view path) {
  return CatchExceptions("reading the model", [&]() -> absl::StatusOr<Graph> {
    KILN_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Read(std::string(path)));
    if (!source.needs_inputs()) return source.graph();
    return ImportOnnx(path).status();  // says what they are needed for
  });
}

absl::StatusOr<Model> Compile(absl::string_view path, const CompileOptions& options) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(options));
    if (absl::EndsWith(path, ".kiln")) return LoadPackage(path, RunOptionsOf(options));
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<WarmModel> opened,
                          WarmModel::Open(path, options, ServiceOf(options)));
    return Compile(std::move(opened), options);
  });
}

absl::StatusOr<Model> Compile(std::shared_ptr<WarmModel> opened, const CompileOptions& options) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(options));
    KILN_RETURN_IF_ERROR(opened->Prepare());
    return Model::Create(std::move(opened), RunOptionsOf(options));
  });
}

absl::StatusOr<Model> Compile(Graph graph, const CompileOptions& options) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(options));
    KILN_RETURN_IF_ERROR(Verify(graph));
    auto variants = std::make_shared<Variants>(std::move(graph), options, ServiceOf(options));
    KILN_RETURN_IF_ERROR(variants->Prepare());
    return Model::Create(std::move(variants), RunOptionsOf(options));
  });
}

}  // namespace kiln
