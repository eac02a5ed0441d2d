// SPDX-License-Identifier: Apache-2.0
// Filling a cache ahead of time: all kernels of a model, for machines that need not be this one.
//
//   KILN_ASSIGN_OR_RETURN(std::vector<KernelJob> jobs,
//                         KernelsOf(graph, options, targets, {inputs}));
//   KernelService service(options);
//   Precompile(service, jobs, 4, [](const KernelJob& job, const KernelDone& done) { ... });
//
// A run of the model with one of these inputs on a machine of one of these levels then builds
// nothing. Stopping at any time leaves a cache that holds what was done.
#ifndef KILN_COMPILER_PRECOMPILE_H_
#define KILN_COMPILER_PRECOMPILE_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/kernel_key.h"
#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "compiler/tune_records.h"
#include "exec/provider.h"
#include "graph/graph.h"

namespace kiln {

struct KernelJob {
  KernelIdentity identity;
  std::vector<int64_t> at_most;  // its size class
  std::vector<int64_t> example;  // as in KernelDef
  std::string name;              // ops of the group, for people
};

// The distinct kernels, target by target, of the variant with all symbols free and of those that
// the given sets of inputs (shapes only) would make. Of a graph with dynamic nodes those of each of
// its parts (segments.h), for any inputs. `on_variant`, if any, sees the variants of a graph
// without such nodes, which have no kernels yet, and the options that they were compiled with.
// Tune records are looked up as `tune` says, and measured as `options` say. Errors as CompileGraph
// and CompileFor.
using OnVariantFn = std::function<void(const CompileOptions&, const Variant&)>;
absl::StatusOr<std::vector<KernelJob>> KernelsOf(
    const Graph& graph, const CompileOptions& options, const std::vector<Target>& targets,
    const std::vector<std::vector<InputInfo>>& variants, const OnVariantFn& on_variant = nullptr,
    TuneUse* tune = nullptr);

// The kernels of a Program for `target` that are not `known`, which it adds to.
void AddKernels(const program::Program& program, Target target, MathMode math,
                std::set<CacheKey>& known, std::vector<KernelJob>& jobs);

struct KernelDone {
  absl::StatusOr<KernelService::Kept> kept;
  size_t done = 0;  // how many are, this one included
};

// Keeps every kernel in the service's cache, `threads` at a time. `report` is called once for each,
// one call at a time. `when_free`, if any, is called with the work on each of them, on its thread,
// and calls it when it may be done.
using WhenFreeFn = std::function<void(const std::function<void()>& work)>;
void Precompile(KernelService& service, const std::vector<KernelJob>& jobs, int threads,
                const std::function<void(const KernelJob&, const KernelDone&)>& report,
                const WhenFreeFn& when_free = nullptr);

}  // namespace kiln

#endif  // KILN_COMPILER_PRECOMPILE_H_
