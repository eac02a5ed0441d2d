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
#include "base/thread.h"
#include "compiler/check_options.h"
#include "compiler/model_source.h"
#include "compiler/shared_models.h"
#include "compiler/variants.h"
#include "exec/package.h"

namespace kiln {
namespace {

constexpr char kCompiling[] = "compiling";

// The options with the runtime that they mean, and its cache and number of builds where they do not
// say others.
CompileOptions WithRuntime(CompileOptions options) {
  if (options.runtime == nullptr) options.runtime = Runtime::Default();
  const RuntimeOptions& shared = options.runtime->state().options;
  if (options.cache == CacheOptions()) options.cache = shared.cache;
  if (options.build_jobs == 0) options.build_jobs = shared.build_jobs;
  return options;
}

std::shared_ptr<KernelService> ServiceOf(const CompileOptions& options) {
  return options.kernels != nullptr ? options.kernels
                                    : SharedModels::Of(*options.runtime)->ServiceOf(options);
}

RunOptions RunOptionsOf(const CompileOptions& options) {
  RunOptions run = options;
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

absl::StatusOr<Model> Compile(absl::string_view path, const CompileOptions& asked) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(asked));
    const NoThreads scope(StartsNoThreads(asked));
    const CompileOptions options = WithRuntime(asked);
    if (absl::EndsWith(path, ".kiln")) return LoadPackage(path, RunOptionsOf(options));
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<WarmModel> opened,
                          WarmModel::Open(path, options, ServiceOf(options)));
    // One that is to measure does not take over what was chosen without.
    if (options.schedule_choice != ScheduleChoice::kProfile)
      opened = SharedModels::Of(*options.runtime)->Share(std::move(opened));
    return Compile(std::move(opened), options);
  });
}

absl::StatusOr<Model> Compile(std::shared_ptr<WarmModel> opened, const CompileOptions& options) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(options));
    const NoThreads scope(StartsNoThreads(options));
    KILN_RETURN_IF_ERROR(opened->Prepare());
    return Model::Create(std::move(opened), RunOptionsOf(options));
  });
}

absl::StatusOr<Model> Compile(Graph graph, const CompileOptions& asked) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(asked));
    const NoThreads scope(StartsNoThreads(asked));
    const CompileOptions options = WithRuntime(asked);
    KILN_RETURN_IF_ERROR(Verify(graph));
    auto variants = std::make_shared<Variants>(std::move(graph), options, ServiceOf(options));
    KILN_RETURN_IF_ERROR(variants->Prepare());
    return Model::Create(std::move(variants), RunOptionsOf(options));
  });
}

}  // namespace kiln
