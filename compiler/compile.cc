// SPDX-License-Identifier: Apache-2.0
// From a model to something that runs: files and caches first; what is new goes through
// CompileGraph (compile_graph.cc).
#include "compiler/compile.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "compiler/check_options.h"
#include "compiler/const_shapes.h"
#include "compiler/machine_of.h"
#include "compiler/model_bytes.h"
#include "compiler/model_source.h"
#include "compiler/shared_models.h"
#include "compiler/variants.h"
#include "exec/device_use.h"
#include "exec/package/package.h"
#include "graph/updatable.h"

namespace kiln {
namespace {

constexpr char kCompiling[] = "compiling";

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

// The model, when its kernels are built. If its extents are known it is planned meanwhile, and its
// weights are packed; what fails there the first run says.
absl::StatusOr<Model> CreateBesideBuilds(std::shared_ptr<VariantProvider> provider,
                                         const CompileOptions& options,
                                         const std::function<void()>& finish_kernels) {
  absl::StatusOr<Model> model = Model::Create(std::move(provider), RunOptionsOf(options));
  const bool watched = options.dump || options.on_plan;  // when plans are made
  const bool beside = options.compile_mode == CompileMode::kBlock && !NoThreads::Active();
  if (model.ok() && beside && !watched) model->Prepare({}).IgnoreError();
  finish_kernels();
  return model;
}

absl::Status CheckPackageOptions(absl::string_view path, const CompileOptions& options) {
  if (options.updatable.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "updatable \"", options.updatable[0], "\": \"", path,
      "\" is a package, whose constants stay as they are; compile the model it was made of"));
}

// That options do not ask for other code than the runtime's device needs, where it is required.
absl::Status CheckRequiredDevice(const CompileOptions& options) {
  const DeviceUse use = DeviceUseOf(options.runtime);
  if (!use.required || use.device == nullptr) return absl::OkStatus();
  const Target there = use.device->target(), asked = TargetOf(options);
  if (!asked.RunsOn(there))
    return use.RunOnCpu(
        "model", absl::StrCat("target: is ", asked.name(), ", which device \"", use.device->name(),
                              "\" (", there.name(), ") does not run"));
  if (options.compile_mode == CompileMode::kBlock) return absl::OkStatus();
  return use.RunOnCpu(
      "model",
      "compile_mode: is not kBlock, so that kernels run on the VM; set compile_mode = kBlock");
}

absl::StatusOr<Model> CompileOpened(absl::string_view path, const CompileOptions& options,
                                    std::shared_ptr<const onnx::ModelMemory> memory) {
  KILN_ASSIGN_OR_RETURN(
      std::shared_ptr<WarmModel> opened,
      WarmModel::Open(path, options, ServiceOf(options), /*compiles=*/true, std::move(memory)));
  // One that is to measure does not take over what was chosen without.
  if (options.schedule_choice != ScheduleChoice::kProfile)
    opened = SharedModels::Of(*options.runtime)->Share(std::move(opened));
  return Compile(std::move(opened), options);
}

}  // namespace

CompileOptions WithRuntime(CompileOptions options) {
  if (options.runtime == nullptr) options.runtime = Runtime::Default();
  const RuntimeOptions& shared = options.runtime->state().options;
  if (options.cache == CacheOptions()) options.cache = shared.cache;
  if (options.build_jobs == 0) options.build_jobs = shared.build_jobs;
  const std::shared_ptr<DeviceConstants>& device = options.runtime->state().device;
  if (device != nullptr && !options.target) options.target = device->device().target();
  return options;
}

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
    if (absl::EndsWith(path, ".kiln")) {
      KILN_RETURN_IF_ERROR(CheckPackageOptions(path, options));
      return LoadPackage(path, RunOptionsOf(options));
    }
    return CompileOpened(path, options, nullptr);
  });
}

absl::StatusOr<Model> Compile(const ModelBytes& bytes, const CompileOptions& asked) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(asked));
    const NoThreads scope(StartsNoThreads(asked));
    const CompileOptions options = WithRuntime(asked);
    KILN_ASSIGN_OR_RETURN(const ModelBytes own, OwnBytes(bytes));
    if (absl::EndsWith(own.name, ".kiln")) {
      KILN_RETURN_IF_ERROR(CheckPackageOptions(own.name, options));
      KILN_ASSIGN_OR_RETURN(
          std::shared_ptr<Package> package,
          Package::Open(PackageSource::Memory(own.data, own.size, own.owner, own.name), {},
                        /*validator=*/"", DeviceUseOf(options.runtime)));
      return Model::Create(std::move(package), RunOptionsOf(options));
    }
    KILN_ASSIGN_OR_RETURN(auto memory, OpenInMemory(own, ImportOptionsOf(options)));
    return CompileOpened(own.name, options, std::move(memory));
  });
}

absl::StatusOr<Model> Compile(std::shared_ptr<WarmModel> opened, const CompileOptions& options) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(options));
    KILN_RETURN_IF_ERROR(CheckRequiredDevice(options));
    const NoThreads scope(StartsNoThreads(options));
    KILN_RETURN_IF_ERROR(opened->Prepare());
    if (!opened->compiled()) return Model::Create(std::move(opened), RunOptionsOf(options));
    return CreateBesideBuilds(opened, options, [&] { opened->FinishKernels(); });
  });
}

absl::StatusOr<Model> Compile(Graph graph, const CompileOptions& asked) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_RETURN_IF_ERROR(CheckOptions(asked));
    const NoThreads scope(StartsNoThreads(asked));
    const CompileOptions options = WithRuntime(asked);
    KILN_RETURN_IF_ERROR(CheckRequiredDevice(options));
    KILN_RETURN_IF_ERROR(Verify(graph));
    if (!options.const_shapes.empty()) {
      KILN_ASSIGN_OR_RETURN(graph, WithConstShapes(graph, options.const_shapes));
    }
    KILN_ASSIGN_OR_RETURN(UpdatableGraph made, MakeUpdatable(graph, options.updatable));
    auto variants = std::make_shared<Variants>(std::move(made.graph), options, ServiceOf(options),
                                               std::move(made.values));
    KILN_RETURN_IF_ERROR(variants->Prepare());
    return CreateBesideBuilds(variants, options, [&] { variants->FinishKernels(); });
  });
}

absl::StatusOr<Model> Compile(GraphBuilder graph, const CompileOptions& options) {
  return CatchExceptions(kCompiling, [&]() -> absl::StatusOr<Model> {
    KILN_ASSIGN_OR_RETURN(Graph made, std::move(graph).Finish());
    return Compile(std::move(made), options);
  });
}

}  // namespace kiln
