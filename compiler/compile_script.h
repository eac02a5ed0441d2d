// SPDX-License-Identifier: Apache-2.0
// Models with branches, loops and sizes that data decide, ahead of time: the variants of all parts
// of their scripts (segments.h), for packages.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<VariantProvider> model,
//                         CompileScript(graph, options, {inputs}, &ran));
//   for (const auto& variant : VariantsOf(*model)) writer.Add(target, *variant);
//
// What a part is called with only a run knows. So each part has the variant for any numbers, where
// it has one, and those that runs on `samples` asked for.
#ifndef KILN_COMPILER_COMPILE_SCRIPT_H_
#define KILN_COMPILER_COMPILE_SCRIPT_H_

#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/machine_of.h"
#include "compiler/precompile.h"
#include "exec/provider.h"
#include "graph/graph.h"

namespace kiln {

// Compiles for options.target, and runs each of `samples` (a tensor for each input) once on the VM,
// on whatever CPU this is. `ran`: the first error of a run; no error of this function, for others
// may be right. A run that takes longer than a minute ends with such an error.
absl::StatusOr<std::shared_ptr<VariantProvider>> CompileScript(
    const Graph& graph, const CompileOptions& options,
    const std::vector<std::vector<Tensor>>& samples, absl::Status* ran);

// The variants that such a provider, or the callee of a script of one, has by now, oldest first.
// None of others.
std::vector<std::shared_ptr<const Variant>> VariantsOf(const VariantProvider& provider);

// The kernels of all of them, to build, but those that are `known`.
void AddKernels(const VariantProvider& provider, const CompileOptions& options,
                std::set<CacheKey>& known, std::vector<KernelJob>& jobs);

}  // namespace kiln

#endif  // KILN_COMPILER_COMPILE_SCRIPT_H_
