// SPDX-License-Identifier: Apache-2.0
// Tuner: the choice of schedules by measurements on this machine.
//
//   heuristic     (default) by tune records, where this machine has them; else by price
//   profile       what has no record is measured first, once
//   reproducible  by price alone: equal options make equal keys on every machine
//
// Example:
//   CompileOptions options;
//   options.schedule_choice = ScheduleChoice::kProfile;   // kiln compile --tune
//   Compile("net.onnx", options);   // measures and remembers
//   Compile("net.onnx", {});        // takes what won
//
// Grouping is by price in all modes: a kernel's text, hence every bit of its results, does not
// depend on measurements. Which library implementation computes does, and so do its last bits.
#ifndef KILN_COMPILER_TUNER_H_
#define KILN_COMPILER_TUNER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/long_mutex.h"
#include "compiler/kernel_race.h"
#include "compiler/machine_of.h"
#include "compiler/tune_records.h"
#include "exec/program.pb.h"
#include "schedule/choose.h"

namespace kiln {

// Thread-safe.
class Tuner {
 public:
  // Null: nothing is looked up, because of the mode, or because this machine has no records.
  static std::shared_ptr<Tuner> Open(const CompileOptions& options, Store* store);

  // What won, if it is one of `candidates`, which are not empty; in profile mode it is measured
  // where no record serves. Else the first of them.
  Schedule Choose(const RacedKernel& kernel, const std::vector<Candidate>& candidates);

  // Whether the kernels of a Program from the cache would be chosen otherwise today, or have to be
  // measured. `options` as in Open.
  bool IsStale(const program::Program& program, const CompileOptions& options);

  TuneRecords& records() { return records_; }

 private:
  Tuner(const CompileOptions& options, Store* store, bool measures);
  bool Serves(const std::optional<Measured>& measured, const RacedKernel& kernel,
              const std::vector<Candidate>& candidates) const;

  const CompileOptions options_;
  Store* const store_;
  TuneRecords records_;
  LongMutex measuring_;
  std::unique_ptr<KernelRace> race_;  // made when something is first measured; with measuring_
};

// `options` with the tuner that they ask for, unless they have one; reproducible where there is
// none, so that one model looks once. `store`, if any, must outlive it.
CompileOptions WithTuner(CompileOptions options, Store* store);

// Tuples of extents at which a kernel is launched and may be timed: for known values of its
// symbols, or for all of them 16, 256 and 4096, as far as `guards` hold and the class has them.
std::vector<std::vector<int64_t>> ExtentsToTime(const std::vector<Dim>& dims,
                                                const std::vector<Guard>& guards,
                                                const SizeClass& sizes, const SymbolValues& known);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNER_H_
