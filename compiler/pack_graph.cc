// SPDX-License-Identifier: Apache-2.0
#include "compiler/pack_graph.h"

#include "base/processors.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "compiler/precompile.h"
#include "compiler/segments.h"
#include "compiler/variants.h"

namespace kiln {
namespace {

// Builds all kernels; how many have no code then.
absl::StatusOr<int> Build(const CompileOptions& options, KernelService& service,
                          const std::vector<KernelJob>& jobs) {
  if (service.store() == nullptr || options.cache.read_only) {
    return absl::FailedPreconditionError(
        "package: there is no cache that may be written, in which its kernels are built; set "
        "CompileOptions::cache, or CompileMode::kNever for a package that runs on the VM");
  }
  int left = 0;
  Precompile(service, jobs, options.build_jobs > 0 ? options.build_jobs : Processors(),
             [&](const KernelJob&, const KernelDone& done) {
               if (!done.kept.ok() || *done.kept == KernelService::Kept::kFailed) ++left;
             });
  return left;
}

}  // namespace

absl::StatusOr<PackedCounts> PackGraph(const Graph& graph, CompileOptions options,
                                       const std::vector<TestCase>& tests, const ModelNotes& notes,
                                       const PackageWriter::AppendFn& append) {
  if (HasDynamicNodes(graph)) {
    return absl::UnimplementedError(
        "package: extents of the graph depend on data; write it to a file for kiln compile -o");
  }
  options = WithRuntime(std::move(options));
  PackageWriter writer(PortInfosOf(graph, true), PortInfosOf(graph, false), options.math);
  for (const TestCase& test : tests) KILN_RETURN_IF_ERROR(writer.AddTestCase(test));
  writer.SetNotes(notes);
  absl::Status added;
  const auto add = [&](const CompileOptions& own, const Variant& variant) {
    added.Update(writer.Add(TargetOf(own), variant));
  };
  KILN_ASSIGN_OR_RETURN(const std::vector<KernelJob> jobs,
                        KernelsOf(graph, options, {TargetOf(options)}, {}, add));
  KILN_RETURN_IF_ERROR(added);
  PackedCounts counts{static_cast<int>(jobs.size()), static_cast<int>(jobs.size())};
  if (options.compile_mode == CompileMode::kNever) {
    KILN_RETURN_IF_ERROR(writer.WriteForVm(append));
    return counts;
  }
  options.compile_mode = CompileMode::kBlock;
  KernelService service(options);
  KILN_ASSIGN_OR_RETURN(counts.on_vm, Build(options, service, jobs));
  KILN_RETURN_IF_ERROR(writer.Write(*service.store(), {}, append));
  return counts;
}

}  // namespace kiln
