// SPDX-License-Identifier: Apache-2.0
// kiln cache verify: checksums of all entries, loading their code in a child, building some again.
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "kiln/compiler/kernel_service.h"
#include "kiln/exec/support/loader.h"
#include "kiln/tools/cache.h"
#include "kiln/tools/exit_code.h"
#include "kiln/tools/report.h"
#include "nlohmann/json.hpp"

namespace kiln {
namespace {

struct Checked {
  CacheKey key{};
  int64_t bytes = 0;
  bool loads = false;   // has code that this CPU can run
  bool builds = false;  // has code
  std::string wrong;    // what is wrong with it
};

// Reads and checks every entry.
std::vector<Checked> ReadAll(Store& store, const std::vector<EntryInfo>& entries) {
  std::vector<Checked> all;
  for (const EntryInfo& info : entries) {
    absl::StatusOr<Entry> entry = store.Read(info.key);
    if (absl::IsNotFound(entry.status())) continue;  // evicted meanwhile
    Checked& checked = all.emplace_back();
    checked.key = info.key;
    checked.bytes = info.bytes;
    if (!entry.ok()) checked.wrong = std::string(entry.status().message());
    const std::string* const elf = entry.ok() ? entry->Find("elf") : nullptr;
    if (elf == nullptr) continue;
    checked.builds = true;
    checked.loads = HostRuns(MetaOf(*entry)["isa"]);
  }
  return all;
}

// Loads from `start` on in a child, which writes "y" or "n" for each; returns where it stopped.
size_t LoadInChild(Store& store, std::vector<Checked>& all, size_t start) {
  int ends[2];
  if (pipe(ends) != 0) return all.size();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    for (size_t k = start; k < all.size(); ++k) {
      const absl::StatusOr<Entry> entry = store.Read(all[k].key);
      const std::string* const elf = all[k].loads && entry.ok() ? entry->Find("elf") : nullptr;
      const bool ok = elf == nullptr || LoadKernel(*elf).ok();
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

void LoadAll(Store& store, std::vector<Checked>& all) {
  for (size_t at = 0; at < all.size();) {
    at = LoadInChild(store, all, at);
    if (at < all.size()) all[at++].wrong = "loading its code ends the process";
  }
}

// Builds an entry's kernel again; what differs from the stored code, "" if nothing.
std::string BuildAgain(Store& store, KernelService& service, const CacheKey& key) {
  const absl::StatusOr<Entry> entry = store.Read(key);
  if (!entry.ok() || entry->Find("elf") == nullptr) return "";
  const std::string& preimage = *entry->Find("preimage");
  const std::optional<IsaLevel> target = ParseIsaLevel(FieldOf(preimage, "target"));
  KernelIdentity identity = {
      FieldOf(preimage, "kernel"), FieldOf(preimage, "params"), target.value_or(IsaLevel::kV3),
      FieldOf(preimage, "math") == "fast" ? MathMode::kFast : MathMode::kStrict};
  if (KernelPreimage(identity).Key() != key) return "";  // by another compiler
  const absl::StatusOr<CodegenAnswer> answer = service.Emit(identity, {"elf"});
  if (!answer.ok()) return absl::StrCat("it cannot be built again: ", answer.status().message());
  for (const auto& [tag, bytes] : answer->sections) {
    if (tag == "elf" && bytes == *entry->Find("elf")) return "";
  }
  return "building it again gives other code; please report this as a defect";
}

// Entries chosen at random; returns how many were built.
int BuildSomeAgain(const CacheFlags& flags, Store& store, std::vector<Checked>& all) {
  CompileOptions options;
  options.cache.enabled = false;
  KernelService service(options);
  std::vector<size_t> order;
  for (size_t k = 0; k < all.size(); ++k) {
    if (all[k].wrong.empty() && all[k].builds) order.push_back(k);
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(std::random_device()()));
  order.resize(std::min(order.size(), static_cast<size_t>(std::max(0, flags.recompile))));
  for (const size_t k : order) all[k].wrong = BuildAgain(store, service, all[k].key);
  return static_cast<int>(order.size());
}

}  // namespace

int CacheVerify(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  const absl::StatusOr<std::vector<EntryInfo>> entries = (*store)->List();
  if (!entries.ok()) return Fail(entries.status(), kExitCache);
  std::vector<Checked> all = ReadAll(**store, *entries);
  LoadAll(**store, all);
  const int rebuilt = BuildSomeAgain(flags, **store, all);
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
               {"recompiled", rebuilt},
               {"bad", bad}});
  } else {
    for (const nlohmann::json& entry : bad)
      std::cout << entry["key"].get<std::string>().substr(0, 12) << "  "
                << entry["reason"].get<std::string>() << "\n";
    std::cout << all.size() << " entries, " << Bytes(bytes) << ": " << bad.size() << " bad; "
              << loaded << " loaded, " << rebuilt << " built again\n";
  }
  return bad.empty() ? kExitOk : kExitDiffers;
}

}  // namespace kiln
