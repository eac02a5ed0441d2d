// SPDX-License-Identifier: Apache-2.0
// Tune records: which schedule of a kernel, or implementation of a library operator, was fastest
// when all of them were measured on this machine; kept in the cache as entries of a kind of their
// own (docs/cache_format.md).
//
// The key holds what the times depend on: the subject (kernel text and size class, or operator and
// operands), CPU model, threads, workspace limit, the build of code generation, and the machine
// description from which candidates are made. The content is text:
//
//   kiln tune 1
//   rounds 12
//   at 4096,768
//   winner row_reduction step=32
//   time 812500 row_reduction step=16
//   time 760100 row_reduction step=32
//
// A marker, a record without a subject, says that the machine has records. Without it nobody looks
// for any, so that a start without records costs one look-up. Records are untrusted: whoever uses
// one checks that its winner is one of the candidates.
#ifndef KILN_COMPILER_TUNE_RECORDS_H_
#define KILN_COMPILER_TUNE_RECORDS_H_

#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "compiler/machine_of.h"
#include "exec/measured_choices.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/store.h"
#include "schedule/size_class.h"

namespace kiln {

std::string FormatMeasured(const Measured& measured);
// kDataLoss: it is no such text, or its winner none of its times.
absl::StatusOr<Measured> ParseMeasured(absl::string_view text);

// Of an entry of this kind with a subject; kDataLoss as ParseMeasured. Nothing for other entries.
std::optional<absl::StatusOr<Measured>> MeasuredOf(const Entry& entry);

// "64 <=4096 *": an extent, the end of a class, any extent.
std::string ClassText(const SizeClass& sizes);

// Thread-safe.
class TuneRecords : public MeasuredChoices {
 public:
  // `store` must outlive it; null: records live as long as this.
  TuneRecords(const CompileOptions& options, Store* store, bool measures);

  // Whether this machine has any.
  bool Any();
  std::optional<Measured> FindKernel(const std::string& text, const SizeClass& sizes);
  void KeepKernel(const std::string& text, const SizeClass& sizes, const Measured& measured);
  std::optional<Measured> FindLibrary(const std::string& request) override;
  void KeepLibrary(const std::string& request, const Measured& measured) override;
  bool measures() const override { return measures_; }

  // Whoever holds it is the only one on this machine to measure, as far as the cache's locks reach.
  // One that is not to be had is waited for once.
  KeyLock LockMachine();

  // What holds for all records, as part of the key of a Program.
  const std::string& machine() const { return machine_; }

  // Keys of the records that were found or kept, and of the marker if there are any.
  std::set<CacheKey> Used() const;
  int measured() const;  // how many were kept

 private:
  struct Subject {
    const char* of;  // "kernel", "library", "marker"
    std::string text, sizes;
  };
  Preimage PreimageOf(const Subject& subject) const;
  std::optional<Measured> Find(const Subject& subject);
  void Keep(const Subject& subject, const Measured& measured);
  void Mark();  // publishes the marker, unless it is known to be there
  void Publish(const Preimage& preimage, const std::string& text, const Measured& measured);

  Store* const store_;
  const bool measures_;
  const Target target_;
  std::string machine_;
  std::atomic<bool> gave_up_{false};  // waiting for others that measure
  mutable Mutex mutex_;
  std::map<CacheKey, std::optional<Measured>> known_ ABSL_GUARDED_BY(mutex_);
  int measured_ ABSL_GUARDED_BY(mutex_) = 0;
  bool marked_ ABSL_GUARDED_BY(mutex_) = false;
};

// Where records are looked up for the models of a command, and what came of it.
struct TuneUse {
  Store* store = nullptr;   // null: nowhere
  std::set<CacheKey> keys;  // of records that chose, and of the marker
  int measured = 0;         // subjects
  void Add(const TuneRecords& records) {
    keys.merge(records.Used());
    measured += records.measured();
  }
};

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_RECORDS_H_
