// SPDX-License-Identifier: Apache-2.0
#include "compiler/precompile.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "compiler/compile.h"
#include "compiler/kernel_entry.h"
#include "compiler/segments.h"
#include "compiler/tuner.h"
#include "compiler/variants.h"

namespace kiln {

void AddKernels(const program::Program& program, Target target, MathMode math,
                std::set<CacheKey>& known, std::vector<KernelJob>& jobs) {
  for (const program::KernelDef& def : program.kernels()) {
    for (const program::KernelChoice& choice : def.choices()) {
      KernelJob job;
      job.identity = IdentityOf(def.text(), choice.schedule(), target, math);
      job.at_most = {choice.at_most().begin(), choice.at_most().end()};
      job.example = {def.example().begin(), def.example().end()};
      job.name = def.name();
      if (choice.schedule().empty() || IsNeverLaunched(def.text(), job.at_most)) continue;
      if (known.insert(KernelPreimage(job.identity).Key()).second) jobs.push_back(std::move(job));
    }
  }
}

absl::StatusOr<std::vector<KernelJob>> KernelsOf(
    const Graph& graph, const CompileOptions& options, const std::vector<Target>& targets,
    const std::vector<std::vector<InputInfo>>& variants, const OnVariantFn& on_variant,
    TuneUse* tune) {
  if (!options.updatable.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "updatable \"", options.updatable[0],
        "\": what is compiled ahead has all its constants; leave it out, or make it an "
        "input of the model"));
  }
  std::vector<KernelJob> jobs;
  std::set<CacheKey> known;
  const bool is_script = HasDynamicNodes(graph);
  KILN_ASSIGN_OR_RETURN(const std::vector<Graph> parts, Segments(graph));
  for (const Target target : targets) {
    CompileOptions own = options;
    own.target = target;
    if (tune != nullptr) own = WithTuner(std::move(own), tune->store);
    const auto add = [&](const Variant& variant) {
      AddKernels(variant.program, target, own.math, known, jobs);
      if (on_variant && !is_script) on_variant(own, variant);
    };
    for (const Graph& part : parts) {
      KILN_ASSIGN_OR_RETURN(const Compiled any, CompileGraph(part, own));
      add(any.variant);
    }
    for (const std::vector<InputInfo>& inputs : variants) {
      if (is_script) break;  // what the parts are called with is known when it runs
      KILN_ASSIGN_OR_RETURN(const Variant variant, CompileFor(graph, own, inputs));
      add(variant);
    }
    if (own.tuner != nullptr && tune != nullptr) tune->Add(own.tuner->records());
  }
  return jobs;
}

void Precompile(KernelService& service, const std::vector<KernelJob>& jobs, int threads,
                const std::function<void(const KernelJob&, const KernelDone&)>& report,
                const WhenFreeFn& when_free) {
  const auto mutex = std::make_unique<Mutex>();  // on no stack: a fork's child keeps that of one
  size_t done = 0;
  const auto keep = [&](size_t k) {
    absl::StatusOr<KernelService::Kept> kept = absl::UnavailableError("not asked for");
    const auto work = [&] {
      kept = service.Keep(jobs[k].identity, jobs[k].at_most, jobs[k].example);
    };
    when_free ? when_free(work) : work();
    const MutexLock lock(*mutex);
    report(jobs[k], {std::move(kept), ++done});
  };
  ForEachInParallel(jobs.size(), keep, threads);
}

}  // namespace kiln
