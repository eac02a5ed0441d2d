// SPDX-License-Identifier: Apache-2.0
#include "compiler/tuner.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/thread.h"
#include "compiler/kernel_choice.h"
#include "kernel/text.h"

namespace kiln {
namespace {

std::string Text(const std::vector<std::vector<int64_t>>& extents) {
  std::vector<std::string> tuples;
  for (const std::vector<int64_t>& tuple : extents) tuples.push_back(absl::StrJoin(tuple, ","));
  return absl::StrJoin(tuples, ";");
}

const Candidate* FindCandidate(const std::vector<Candidate>& candidates, const std::string& text) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) {
    return c.schedule.ToString() == text;
  });
  return found == candidates.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::vector<int64_t>> ExtentsToTime(const std::vector<Dim>& dims,
                                                const std::vector<Guard>& guards,
                                                const SizeClass& sizes, const SymbolValues& known) {
  std::set<std::string> symbols;
  for (const Dim& dim : dims) dim.CollectSymbols(symbols);
  for (const Guard& guard : guards) symbols.merge(guard.Symbols());
  std::vector<std::vector<int64_t>> all;
  for (const int64_t open : {16, 256, 4096}) {
    SymbolValues values = known;
    for (const std::string& symbol : symbols) values.emplace(symbol, open);
    const bool holds = std::all_of(guards.begin(), guards.end(), [&](const Guard& guard) {
      return guard.Symbols().empty() || guard.Holds(values).value_or(false);
    });
    std::vector<int64_t> extents;
    for (const Dim& dim : dims) extents.push_back(dim.Evaluate(values).value_or(0));
    const bool launched = std::all_of(extents.begin(), extents.end(), [](int64_t extent) {
      return extent > 0 && extent < INT32_MAX;
    });
    if (holds && launched && sizes.Contains(extents) &&
        std::find(all.begin(), all.end(), extents) == all.end())
      all.push_back(std::move(extents));
  }
  return all;
}

std::shared_ptr<Tuner> Tuner::Open(const CompileOptions& options, Store* store) {
  const bool compiles = options.compile_mode != CompileMode::kNever;
  if (options.schedule_choice == ScheduleChoice::kReproducible || options.choose || !compiles)
    return nullptr;
  const bool here = TargetOf(options).RunsOn(HostTarget());
  const bool measures = options.schedule_choice == ScheduleChoice::kProfile && here;
  std::shared_ptr<Tuner> tuner(new Tuner(options, store, measures));
  return tuner->records_.Any() || measures ? tuner : nullptr;
}

CompileOptions WithTuner(CompileOptions options, Store* store) {
  if (options.tuner == nullptr) options.tuner = Tuner::Open(options, store);
  if (options.tuner == nullptr) options.schedule_choice = ScheduleChoice::kReproducible;
  return options;
}

Tuner::Tuner(const CompileOptions& options, Store* store, bool measures)
    : options_(options), store_(store), records_(options, store, measures) {}

bool Tuner::Serves(const std::optional<Measured>& measured, const RacedKernel& kernel,
                   const std::vector<Candidate>& candidates) const {
  if (!records_.measures()) return true;
  if (!measured.has_value()) return false;
  if (!measured->winner.empty() && FindCandidate(candidates, measured->winner) == nullptr)
    return false;
  // A record for other extents than those that were asked for is measured anew.
  return options_.tune_at.empty() || measured->at == Text(kernel.extents);
}

Schedule Tuner::Choose(const RacedKernel& kernel, const std::vector<Candidate>& candidates) {
  const std::string text = Print(*kernel.kernel);
  std::optional<Measured> measured = records_.FindKernel(text, kernel.sizes);
  if (!Serves(measured, kernel, candidates)) {
    const LongMutexLock measuring(measuring_);
    const KeyLock alone = records_.LockMachine();
    measured = records_.FindKernel(text, kernel.sizes);
    if (!Serves(measured, kernel, candidates)) {
      if (race_ == nullptr) race_ = std::make_unique<KernelRace>(options_, store_);
      const absl::Time start = absl::Now();
      std::optional<Measured> fresh = race_->Run(kernel, candidates);
      // Where nothing can be measured now, what was measured before stays.
      if (fresh.has_value() && (!fresh->winner.empty() || !measured.has_value())) {
        measured = std::move(fresh);
        measured->ms = absl::ToDoubleMilliseconds(absl::Now() - start);
        records_.KeepKernel(text, kernel.sizes, *measured);
      }
    }
  }
  const Candidate* won =
      measured.has_value() ? FindCandidate(candidates, measured->winner) : nullptr;
  return won != nullptr ? won->schedule : candidates.front().schedule;
}

bool Tuner::IsStale(const program::Program& program, const CompileOptions& options) {
  std::atomic<bool> stale{false};
  ForEachInParallel(static_cast<size_t>(program.kernels_size()), [&](size_t k) {
    const program::KernelDef& def = program.kernels(static_cast<int>(k));
    for (const program::KernelChoice& choice : def.choices()) {
      if (choice.schedule().empty() || stale) return;
      const SizeClass sizes = ClassOf(choice);
      const std::optional<Measured> measured = records_.FindKernel(def.text(), sizes);
      if (!measured.has_value()) {
        if (records_.measures()) stale = true;
        continue;
      }
      if (records_.measures() && !options.tune_at.empty()) stale = true;  // at other extents?
      if (measured->winner.empty() || measured->winner == choice.schedule()) continue;
      const absl::StatusOr<Kernel> kernel = ParseKernel(def.text());
      if (!kernel.ok() || sizes.at_most.size() != kernel->dims.size()) continue;
      // A winner that is no candidate would be refused again each time; it is measured anew.
      if (records_.measures() ||
          FindCandidate(CandidatesFor(*kernel, sizes, MachineOf(options), options.workspace_limit),
                        measured->winner) != nullptr)
        stale = true;
    }
  });
  return stale;
}

}  // namespace kiln
