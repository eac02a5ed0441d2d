// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/conformance/package_case.h"

#include <cstring>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile_script.h"
#include "compiler/package_writer.h"
#include "compiler/segments.h"
#include "compiler/variants.h"
#include "graph/onnx/import.h"
#include "kiln/package.h"
#include "persistent_cache/store.h"

namespace kiln {
namespace {

using Inputs = std::vector<std::pair<std::string, Tensor>>;

absl::Status BuildAll(const std::vector<KernelJob>& jobs, KernelService& service) {
  absl::Status failed;
  Precompile(service, jobs, 2, [&](const KernelJob& job, const KernelDone& done) {
    if (!done.kept.ok()) failed.Update(absl::InternalError(absl::StrCat(job.name, " not built")));
  });
  return failed;
}

// The file, and the kernels of it in the service's cache.
absl::StatusOr<std::string> PackageOf(const std::string& path, const Inputs& inputs,
                                      const std::map<std::string, Shape>& shapes,
                                      const CompileOptions& options) {
  const std::map<std::string, Tensor> by_name(inputs.begin(), inputs.end());
  KILN_ASSIGN_OR_RETURN(const OnnxImport import,
                        ImportOnnxFor(path, by_name, {.input_shapes = shapes}));
  const Graph& graph = import.graph;
  PackageWriter writer(PortInfosOf(graph, true), PortInfosOf(graph, false), options.math);
  const Target target = TargetOf(options);
  std::vector<KernelJob> jobs;
  std::set<CacheKey> known;
  if (HasDynamicNodes(graph)) {
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : inputs) tensors.push_back(tensor);
    absl::Status ran;
    KILN_ASSIGN_OR_RETURN(const auto script, CompileScript(graph, options, {tensors}, &ran));
    KILN_RETURN_IF_ERROR(ran);
    for (const auto& variant : VariantsOf(*script))
      KILN_RETURN_IF_ERROR(writer.Add(target, *variant));
    AddKernels(*script, options, known, jobs);
  } else {
    std::vector<InputInfo> info;
    for (const auto& [name, tensor] : inputs) info.push_back({name, true, tensor});
    KILN_ASSIGN_OR_RETURN(const Variant variant, CompileFor(graph, options, info));
    KILN_RETURN_IF_ERROR(writer.Add(target, variant));
    AddKernels(variant.program, target, options.math, known, jobs);
  }
  if (options.compile_mode != CompileMode::kNever)
    KILN_RETURN_IF_ERROR(BuildAll(jobs, *options.kernels));
  if (options.kernels->store() == nullptr) return absl::FailedPreconditionError("no cache");
  return writer.Encode(*options.kernels->store());
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunAsPackage(const std::string& model, const Inputs& inputs,
                                                 const std::map<std::string, Shape>& shapes,
                                                 const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(const std::string bytes, PackageOf(model, inputs, shapes, options));
  const RunOptions& run = options;
  const auto outputs = [&]() -> absl::StatusOr<std::vector<Tensor>> {
    KILN_ASSIGN_OR_RETURN(
        Model loaded,
        LoadPackage(PackageSource::Memory(bytes.data(), bytes.size(), nullptr), run, {}));
    return loaded.Run(inputs);
  }();
  if (outputs.ok()) return outputs;
  return absl::InternalError(absl::StrCat("package: ", outputs.status().message()));
}

absl::Status SameBits(const std::vector<Tensor>& package, const std::vector<Tensor>& compiled) {
  if (package.size() != compiled.size()) return absl::InternalError("package: other outputs");
  for (size_t k = 0; k < package.size(); ++k) {
    const Tensor a = package[k].Clone(), b = compiled[k].Clone();
    const bool same = a.dtype() == b.dtype() && a.shape() == b.shape() &&
                      (a.size_bytes() == 0 ||
                       std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size_bytes())) == 0);
    if (!same) {
      return absl::InternalError(
          absl::StrCat("package: output ", k, " has other bits than the compiled model's"));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
