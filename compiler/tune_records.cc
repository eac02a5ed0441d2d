// SPDX-License-Identifier: Apache-2.0
#include "compiler/tune_records.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/cpu_model.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/sha256.h"
#include "compiler/assembler.h"
#include "compiler/build_id.h"
#include "compiler/kernel_key.h"
#include "halide_gen/common/build_id.h"

namespace kiln {
namespace {

constexpr char kHead[] = "kiln tune 1";
constexpr size_t kMostBytes = 1 << 16, kMostTimes = 256;
constexpr absl::Duration kMostWait = absl::Seconds(120);  // for others that measure

}  // namespace

std::string FormatMeasured(const Measured& measured) {
  std::string text = absl::StrCat(kHead, "\nrounds ", measured.rounds, "\nat ", measured.at,
                                  "\nwinner ", measured.winner, "\n");
  for (const Measured::Time& time : measured.times) {
    absl::StrAppend(&text, "time ",
                    std::isfinite(time.ns) ? absl::StrCat(std::llround(time.ns)) : "fails", " ",
                    time.way, "\n");
  }
  return text;
}

absl::StatusOr<Measured> ParseMeasured(absl::string_view text) {
  const auto wrong = [](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("tune record: ", what));
  };
  if (text.size() > kMostBytes) return wrong("is larger than 64 KiB");
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines[0] != kHead) return wrong("does not begin with its version, 1");
  Measured measured;
  for (size_t k = 1; k < lines.size(); ++k) {
    const std::pair<absl::string_view, absl::string_view> line =
        absl::StrSplit(lines[k], absl::MaxSplits(' ', 1));
    if (line.first == "rounds") {
      if (!absl::SimpleAtoi(line.second, &measured.rounds) || measured.rounds < 0)
        return wrong("rounds are no number");
    } else if (line.first == "at") {
      measured.at = std::string(line.second);
    } else if (line.first == "winner") {
      measured.winner = std::string(line.second);
    } else if (line.first == "time") {
      const std::pair<absl::string_view, absl::string_view> time =
          absl::StrSplit(line.second, absl::MaxSplits(' ', 1));
      double ns = INFINITY;
      const bool number = absl::SimpleAtod(time.first, &ns) && std::isfinite(ns) && ns >= 0;
      if (!number && time.first != "fails") return wrong("a time is no number");
      if (measured.times.size() >= kMostTimes) return wrong("more than 256 times");
      measured.times.push_back({std::string(time.second), number ? ns : INFINITY});
    } else if (!lines[k].empty()) {
      return wrong("a line is none of rounds, at, winner, time");
    }
  }
  const bool there =
      std::any_of(measured.times.begin(), measured.times.end(),
                  [&](const Measured::Time& time) { return time.way == measured.winner; });
  if (!measured.winner.empty() && !there) return wrong("its winner has no time");
  return measured;
}

std::optional<absl::StatusOr<Measured>> MeasuredOf(const Entry& entry) {
  const std::string* const text = entry.Find("tune");
  if (text == nullptr || FieldOf(*entry.Find("preimage"), "of") == "marker") return std::nullopt;
  return ParseMeasured(*text);
}

std::string ClassText(const SizeClass& sizes) {
  std::vector<std::string> bounds;
  for (size_t d = 0; d < sizes.at_most.size(); ++d) {
    const bool any = sizes.at_most[d] == kUnbounded;
    bounds.push_back(any ? "*" : absl::StrCat(sizes.IsExtent(d) ? "" : "<=", sizes.at_most[d]));
  }
  return absl::StrJoin(bounds, " ");
}

TuneRecords::TuneRecords(const CompileOptions& options, Store* store, bool measures)
    : store_(store), measures_(measures), target_(TargetOf(options)) {
  const int threads = options.threads > 0 ? options.threads : Processors();
  machine_ = absl::StrCat("cpu ", CpuModelId(), "\nthreads ", threads, "\nworkspace ",
                          options.workspace_limit, "\ndescription ",
                          ToHex(Sha256(ToString(MachineOf(options)))));
}

Preimage TuneRecords::PreimageOf(const Subject& subject) const {
  Preimage preimage;
  preimage.Add("schema", "1")
      .Add("artefact", "tune")
      .Add("of", subject.of)
      .Add("subject", subject.text)
      .Add("class", subject.sizes)
      .Add("target", target_.name())
      .Add("machine", machine_);
  // What the times are of: code that is generated, or code that is linked.
  if (subject.of == absl::string_view("library")) {
    preimage.Add("build", kCompilerBuildId);
  } else if (subject.of == absl::string_view("kernel")) {
    preimage.Add("codegen", CodegenBuildId(target_.device)).Add("compiler", kCodegenCompiler);
    if (IsAssembled(target_.device)) preimage.Add("assembler", AssemblerOf(target_));
  }
  return preimage;
}

bool TuneRecords::Any() {
  if (store_ == nullptr) return false;
  const std::optional<Entry> entry = store_->Lookup(PreimageOf({"marker", "", ""}));
  const bool there = entry.has_value() && entry->Find("tune") != nullptr;
  const MutexLock lock(mutex_);
  marked_ = marked_ || there;
  return there;
}

std::optional<Measured> TuneRecords::Find(const Subject& subject) {
  const Preimage preimage = PreimageOf(subject);
  const CacheKey key = preimage.Key();
  {
    const MutexLock lock(mutex_);
    const auto known = known_.find(key);
    if (known != known_.end() && (known->second.has_value() || !measures_)) return known->second;
  }
  std::optional<Measured> found;
  const std::optional<Entry> entry = store_ == nullptr ? std::nullopt : store_->Lookup(preimage);
  if (const std::string* const text = entry.has_value() ? entry->Find("tune") : nullptr;
      text != nullptr) {
    absl::StatusOr<Measured> measured = ParseMeasured(*text);
    if (measured.ok()) found = *std::move(measured);
  }
  if (found.has_value() && measures_) Mark();  // the cache may have lost it
  const MutexLock lock(mutex_);
  return known_[key] = std::move(found);
}

void TuneRecords::Mark() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(marked_, true)) return;
  }
  if (store_ == nullptr || store_->read_only()) return;
  Publish(PreimageOf({"marker", "", ""}), absl::StrCat(kHead, "\n"), {});
}

void TuneRecords::Keep(const Subject& subject, const Measured& measured) {
  const Preimage preimage = PreimageOf(subject);
  Mark();  // first: without it nobody would look for the record
  {
    const MutexLock lock(mutex_);
    known_[preimage.Key()] = measured;
    ++measured_;
  }
  if (store_ == nullptr || store_->read_only()) return;
  Publish(preimage, FormatMeasured(measured), measured);
}

void TuneRecords::Publish(const Preimage& preimage, const std::string& text,
                          const Measured& measured) {
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta",
            FormatMeta({{"device", std::string(Name(target_.device))},
                        {"kind", "tune"},
                        {"rounds", absl::StrCat(measured.rounds)},
                        {"schedule", measured.winner},
                        {"target", std::string(target_.name())},
                        {"wall_ms", absl::StrCat(std::llround(measured.ms))}}),
            true);
  entry.Add("tune", text, true);
  const absl::Status done = store_->Publish(entry);
  if (!done.ok()) LogDebug("cache: a tune record is not kept: ", done.message());
}

std::optional<Measured> TuneRecords::FindKernel(const std::string& text, const SizeClass& sizes) {
  return Find({"kernel", text, ClassText(sizes)});
}
void TuneRecords::KeepKernel(const std::string& text, const SizeClass& sizes,
                             const Measured& measured) {
  Keep({"kernel", text, ClassText(sizes)}, measured);
}
std::optional<Measured> TuneRecords::FindLibrary(const std::string& request) {
  return Find({"library", request, ""});
}
void TuneRecords::KeepLibrary(const std::string& request, const Measured& measured) {
  Keep({"library", request, ""}, measured);
}

KeyLock TuneRecords::LockMachine() {
  if (store_ == nullptr || store_->read_only() || gave_up_) return {};
  KeyLock lock = store_->LockKey(PreimageOf({"marker", "", ""}).Key(), kMostWait);
  if (!lock.held() && !gave_up_.exchange(true))
    LogWarning("tune: another process has measured for two minutes; measuring beside it");
  return lock;
}

std::set<CacheKey> TuneRecords::Used() const {
  std::set<CacheKey> used;
  const MutexLock lock(mutex_);
  for (const auto& [key, measured] : known_) {
    if (measured.has_value()) used.insert(key);
  }
  if (!used.empty()) used.insert(PreimageOf({"marker", "", ""}).Key());
  return used;
}

int TuneRecords::measured() const {
  const MutexLock lock(mutex_);
  return measured_;
}

}  // namespace kiln
