// SPDX-License-Identifier: Apache-2.0
// kiln cache verify: checksums of all entries of a cache or a pack, loading their code in a child,
// validating it, building some again.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <memory>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "base/task_queue.h"
#include "compiler/kernel_entry.h"
#include "compiler/kernel_service.h"
#include "compiler/tune_records.h"
#include "exec/support/kernel_code.h"
#include "exec/validate/validator.h"
#include "nlohmann/json.hpp"
#include "tools/cache.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct Checked {
  CacheKey key{};
  int64_t bytes = 0;
  bool loads = false;   // has code that this CPU can run
  bool builds = false;  // has code
  std::string wrong;    // what is wrong with it
};

// What is checked: the entries of a cache or of a pack.
struct Entries {
  std::vector<EntryInfo> list;
  std::function<absl::StatusOr<Entry>(const CacheKey&)> read;
};

absl::StatusOr<Entries> EntriesOfCache(const CacheFlags& flags) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<Store> store, OpenStore(flags, true));
  Entries entries;
  KILN_ASSIGN_OR_RETURN(entries.list, store->List());
  entries.read = [store](const CacheKey& key) { return store->Read(key); };
  return entries;
}

absl::StatusOr<Entries> EntriesOfPack(const CacheFlags& flags) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<Pack> pack, OpenPack(flags));
  Entries entries;
  for (const Pack::Row& row : pack->rows())
    entries.list.push_back({row.key, row.length, row.length, 0});
  entries.read = [pack](const CacheKey& key) { return pack->Read(key, nullptr); };
  return entries;
}

// Reads and checks every entry.
std::vector<Checked> ReadAll(const Entries& entries) {
  std::vector<Checked> all;
  for (const EntryInfo& info : entries.list) {
    absl::StatusOr<Entry> entry = entries.read(info.key);
    if (absl::IsNotFound(entry.status())) continue;  // evicted meanwhile
    Checked& checked = all.emplace_back();
    checked.key = info.key;
    checked.bytes = info.bytes;
    if (!entry.ok()) checked.wrong = std::string(entry.status().message());
    const auto measured = entry.ok() ? MeasuredOf(*entry) : std::nullopt;
    if (measured.has_value() && !measured->ok())
      checked.wrong = std::string(measured->status().message());
    const std::optional<KernelCode> code = entry.ok() ? CodeOf(*entry) : std::nullopt;
    if (!code) continue;
    checked.builds = true;
    checked.loads = code->RunsHere(nullptr);
  }
  return all;
}

// Loads from `start` on in a child, which writes "y" or "n" for each; returns where it stopped.
size_t LoadInChild(const Entries& entries, std::vector<Checked>& all, size_t start) {
  int ends[2];
  if (pipe(ends) != 0) return all.size();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    for (size_t k = start; k < all.size(); ++k) {
      const absl::StatusOr<Entry> entry = entries.read(all[k].key);
      const std::optional<KernelCode> code =
          all[k].loads && entry.ok() ? CodeOf(*entry) : std::nullopt;
      const bool ok = !code || code->Load(nullptr).ok();
      if (write(ends[1], ok ? "y" : "n", 1) != 1) break;
    }
    _exit(0);
  }
  close(ends[1]);
  size_t at = start;
  char answer = 'y';
  while (child > 0 && read(ends[0], &answer, 1) == 1) {
    if (answer == 'n') all[at].wrong = "its code does not load";
    ++at;
  }
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return child > 0 ? at : all.size();
}

void LoadAll(const Entries& entries, std::vector<Checked>& all) {
  for (size_t at = 0; at < all.size();) {
    at = LoadInChild(entries, all, at);
    if (at < all.size()) all[at++].wrong = "loading its code ends the process";
  }
}

// Builds an entry's kernel again; what differs from the stored code, "" if nothing. An error is not
// the entry's: it may be built another time.
absl::StatusOr<std::string> BuildAgain(const Entries& entries, KernelService& service,
                                       const CacheKey& key) {
  const absl::StatusOr<Entry> entry = entries.read(key);
  const std::optional<KernelCode> code = entry.ok() ? CodeOf(*entry) : std::nullopt;
  if (!code) return "";
  const std::string& preimage = *entry->Find("preimage");
  const std::optional<Target> target = Target::Parse(FieldOf(preimage, "target"));
  KernelIdentity identity = {
      FieldOf(preimage, "kernel"), FieldOf(preimage, "schedule"), target.value_or(LowestTarget()),
      FieldOf(preimage, "math") == "fast" ? MathMode::kFast : MathMode::kStrict,
      FieldOf(preimage, "assembler")};
  if (KernelPreimage(identity).Key() != key) return "";  // by another compiler
  const absl::StatusOr<CodegenAnswer> answer = service.Emit(identity, {SectionOf(identity)});
  if (absl::IsInternal(answer.status()))
    return absl::StrCat("it cannot be built again: ", answer.status().message());
  KILN_RETURN_IF_ERROR(answer.status());
  for (const auto& [tag, bytes] : answer->sections) {
    if (tag == SectionOf(identity) && bytes == code->image.code) return "";
  }
  return "building it again gives other code; please report this as a defect";
}

// Runs the probes of all code that this machine can run; returns how many were validated. A stored
// transcript of the same version must be what comes out.
int ValidateAll(const Entries& entries, std::vector<Checked>& all) {
  Validator validator("", Processors());
  TaskQueue queue(Processors());
  std::atomic<int> validated{0};
  for (Checked& checked : all) {
    const absl::StatusOr<Entry> entry = entries.read(checked.key);
    if (!checked.wrong.empty() || !checked.loads || !entry.ok()) continue;
    const std::string stored = MetaOf(*entry)["validation"];
    const bool comparable = absl::StartsWith(stored, absl::StrCat(kValidationVersion, ":"));
    queue.Add([&, stored, comparable, request = ValidationOf(*entry, {})] {
      const absl::StatusOr<Validation> validation = validator.Validate(request);
      if (!validation.ok()) {
        checked.wrong = absl::StrCat("its code is not validated: ", validation.status().message());
      } else if (comparable && stored != validation->transcript) {
        checked.wrong = "its validation is not the one it should have";
      } else {
        ++validated;
      }
    });
  }
  queue.Wait();
  return validated;
}

// Entries chosen at random; returns how many were built.
int BuildSomeAgain(const CacheFlags& flags, const Entries& entries, std::vector<Checked>& all) {
  CompileOptions options;
  options.cache.enabled = false;
  KernelService service(options);
  std::vector<size_t> order;
  for (size_t k = 0; k < all.size(); ++k) {
    if (all[k].wrong.empty() && all[k].builds) order.push_back(k);
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device()()));
  order.resize(std::min(order.size(), static_cast<size_t>(std::max(0, flags.recompile))));
  int built = 0;
  for (const size_t k : order) {
    absl::StatusOr<std::string> wrong = BuildAgain(entries, service, all[k].key);
    if (!wrong.ok()) {
      Note(flags.common, absl::StrCat(ToHex(all[k].key).substr(0, 12),
                                      " was not built again: ", wrong.status().message()));
      continue;
    }
    all[k].wrong = *std::move(wrong);
    ++built;
  }
  return built;
}

}  // namespace

int CacheVerify(const CacheFlags& flags) {
  const auto entries = flags.file.empty() ? EntriesOfCache(flags) : EntriesOfPack(flags);
  if (!entries.ok()) return Fail(entries.status(), kExitCache);
  std::vector<Checked> all = ReadAll(*entries);
  LoadAll(*entries, all);
  const int validated = flags.validate ? ValidateAll(*entries, all) : 0;
  const int rebuilt = BuildSomeAgain(flags, *entries, all);
  int64_t bytes = 0;
  int64_t loaded = 0;
  nlohmann::json bad = nlohmann::json::array();
  for (const Checked& checked : all) {
    bytes += checked.bytes;
    loaded += checked.loads ? 1 : 0;
    if (!checked.wrong.empty())
      bad.push_back({{"key", ToHex(checked.key)}, {"reason", checked.wrong}});
  }
  if (flags.common.json) {
    PrintJson("cache.verify", flags.common,
              {{"entries", all.size()},
               {"bytes", bytes},
               {"loaded", loaded},
               {"validated", validated},
               {"proved", validated},  // the older name
               {"recompiled", rebuilt},
               {"bad", bad}});
  } else {
    for (const nlohmann::json& entry : bad)
      std::cout << entry["key"].get<std::string>().substr(0, 12) << "  "
                << entry["reason"].get<std::string>() << "\n";
    std::cout << all.size() << " entries, " << Bytes(bytes) << ": " << bad.size() << " bad; "
              << loaded << " loaded, " << validated << " validated, " << rebuilt
              << " built again\n";
  }
  return bad.empty() ? kExitOk : kExitDiffers;
}

}  // namespace kiln
