// SPDX-License-Identifier: Apache-2.0
// kiln cache stats | ls | show KEY | clear: what lies in the kernel cache.
#include <ctime>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kiln/base/status_macros.h"
#include "kiln/persistent_cache/directory.h"
#include "kiln/persistent_cache/store.h"
#include "kiln/tools/common.h"
#include "kiln/tools/exit_code.h"
#include "kiln/tools/report.h"
#include "nlohmann/json.hpp"

namespace kiln {
namespace {

struct CacheFlags {
  CommonOptions common;
  std::string dir, key, emit;
  bool dry_run = false;
};

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const CacheFlags& flags, bool read_only) {
  std::string directory = flags.dir;
  if (directory.empty()) {
    KILN_ASSIGN_OR_RETURN(directory, DefaultCacheDirectory());
  }
  return Store::Open(RealFileSystem(), {directory, read_only});
}

// One line of an entry's kernel for lists: its outputs' expressions say what it computes.
std::string Summary(const Entry& entry) {
  const std::string* const preimage = entry.Find("preimage");
  if (preimage == nullptr) return "";
  const absl::StatusOr<PreimageFields> fields = ParsePreimage(*preimage);
  if (!fields.ok()) return "";
  for (const auto& [name, value] : *fields) {
    if (name != "kernel") continue;
    std::string last;
    for (absl::string_view line : absl::StrSplit(value, '\n')) {
      if (absl::StartsWith(line, "out")) last = std::string(line);
    }
    const size_t at = last.find("= ");
    return at == std::string::npos ? last : last.substr(at + 2);
  }
  return "";
}

int Stats(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  const absl::StatusOr<std::vector<EntryInfo>> entries = (*store)->List();
  if (!entries.ok()) return Fail(entries.status(), kExitCache);
  int64_t bytes = 0;
  int64_t allocated = 0;
  for (const EntryInfo& entry : *entries) {
    bytes += entry.bytes;
    allocated += entry.allocated_bytes;
  }
  if (flags.common.json) {
    PrintJson("cache.stats", flags.common,
              {{"directory", (*store)->directory()},
               {"entries", entries->size()},
               {"bytes", bytes},
               {"allocated_bytes", allocated}});
  } else {
    std::cout << Table({{"directory", (*store)->directory()},
                        {"entries", absl::StrCat(entries->size())},
                        {"bytes", Bytes(bytes)},
                        {"on disk", Bytes(allocated)}});
  }
  return kExitOk;
}

int List(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  const absl::StatusOr<std::vector<EntryInfo>> entries = (*store)->List();
  if (!entries.ok()) return Fail(entries.status(), kExitCache);
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"key", "size", "target", "isa", "kernel"}};
  for (const EntryInfo& info : *entries) {
    const absl::StatusOr<Entry> entry = (*store)->Read(info.key);
    if (!entry.ok()) {
      rows.push_back({ToHex(info.key).substr(0, 12), Bytes(info.bytes), "-", "-",
                      std::string(entry.status().message())});
      continue;
    }
    const std::string* const text = entry->Find("meta");
    auto meta = ParseMeta(text != nullptr ? *text : "");
    std::vector<std::string> tags;
    for (const Section& section : entry->sections) tags.push_back(section.tag);
    const std::string summary = Summary(*entry);
    list.push_back({{"key", ToHex(info.key)},
                    {"device", meta["device"]},
                    {"features", absl::StrSplit(meta["isa"], ' ', absl::SkipEmpty())},
                    {"bytes", info.bytes},
                    {"sections", tags},
                    {"kernel", summary},
                    {"target", meta["target"]}});
    rows.push_back({ToHex(info.key).substr(0, 12), Bytes(info.bytes),
                    std::string(absl::StripPrefix(meta["target"], "x86-64-")), meta["isa"],
                    summary.size() > 36 ? summary.substr(0, 33) + "..." : summary});
  }
  if (flags.common.json) {
    PrintJson("cache.ls", flags.common, {{"entries", list}});
  } else {
    std::cout << Table(rows);
  }
  return kExitOk;
}

// The one key that starts with `prefix`.
absl::StatusOr<CacheKey> FindKey(Store& store, const std::string& prefix) {
  KILN_ASSIGN_OR_RETURN(const std::vector<EntryInfo> entries, store.List());
  std::vector<CacheKey> found;
  for (const EntryInfo& entry : entries) {
    if (absl::StartsWith(ToHex(entry.key), prefix)) found.push_back(entry.key);
  }
  if (found.empty())
    return absl::NotFoundError(
        absl::StrCat("no entry whose key starts with \"", prefix, "\"; see kiln cache ls"));
  if (found.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(found.size(), " keys start with \"", prefix, "\"; give more digits"));
  }
  return found.front();
}

int Show(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  const absl::StatusOr<CacheKey> key = FindKey(**store, flags.key);
  if (!key.ok())
    return Fail(key.status(), absl::IsInvalidArgument(key.status()) ? kExitUsage : kExitCache);
  const absl::StatusOr<Entry> entry = (*store)->Read(*key);
  if (!entry.ok()) return Fail(entry.status(), kExitCache);
  if (!flags.emit.empty()) {
    const std::string* const section = entry->Find(flags.emit);
    if (section == nullptr)
      return Fail(
          absl::NotFoundError(absl::StrCat("the entry has no section \"", flags.emit, "\"")),
          kExitCache);
    std::cout.write(section->data(), static_cast<std::streamsize>(section->size()));
    return kExitOk;
  }
  const std::string* const preimage = entry->Find("preimage");
  const std::string* const meta = entry->Find("meta");
  const absl::StatusOr<PreimageFields> fields = ParsePreimage(preimage != nullptr ? *preimage : "");
  nlohmann::json json = {{"key", ToHex(*key)},
                         {"sections", nlohmann::json::object()},
                         {"meta", ParseMeta(meta != nullptr ? *meta : "")}};
  std::cout << (flags.common.json ? "" : absl::StrCat("key       ", ToHex(*key), "\n"));
  for (const Section& section : entry->sections) {
    json["sections"][section.tag] = section.bytes.size();
    if (!flags.common.json)
      std::cout << "section   " << section.tag << ", "
                << Bytes(static_cast<int64_t>(section.bytes.size())) << "\n";
  }
  for (const auto& [name, value] : ParseMeta(meta != nullptr ? *meta : "")) {
    if (!flags.common.json)
      std::cout << name << std::string(name.size() < 10 ? 10 - name.size() : 1, ' ') << value
                << "\n";
  }
  for (const auto& [name, value] : fields.ok() ? *fields : PreimageFields{}) {
    json["preimage"][name] = value;
    if (!flags.common.json)
      std::cout << "\n[" << name << "]\n" << absl::StripSuffix(value, "\n") << "\n";
  }
  if (flags.common.json) PrintJson("cache.show", flags.common, json);
  return kExitOk;
}

int Clear(const CacheFlags& flags) {
  const auto store = OpenStore(flags, flags.dry_run);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  absl::StatusOr<int64_t> removed = 0;
  if (flags.dry_run) {
    const absl::StatusOr<std::vector<EntryInfo>> entries = (*store)->List();
    if (!entries.ok()) return Fail(entries.status(), kExitCache);
    removed = static_cast<int64_t>(entries->size());
  } else {
    removed = (*store)->Clear();
  }
  if (!removed.ok()) return Fail(removed.status(), kExitCache);
  if (flags.common.json) {
    PrintJson("cache.clear", flags.common, {{"removed", *removed}, {"dry_run", flags.dry_run}});
  } else {
    std::cout << (flags.dry_run ? "would remove " : "removed ") << *removed << " entries\n";
  }
  return kExitOk;
}

}  // namespace

std::function<int()> AddCache(CLI::App& command) {
  struct Sub {
    const char* name;
    const char* doc;
    int (*run)(const CacheFlags&);
  };
  static constexpr Sub kSubs[] = {{"stats", "Entries and bytes", Stats},
                                  {"ls", "All entries", List},
                                  {"show", "One entry: kernel, schedule, target, sections", Show},
                                  {"clear", "Remove all entries", Clear}};
  auto flags = std::make_shared<CacheFlags>();
  auto chosen = std::make_shared<const Sub*>(nullptr);
  command.require_subcommand(1);
  for (const Sub& sub : kSubs) {
    CLI::App* const child = command.add_subcommand(sub.name, sub.doc);
    child->add_option("--dir", flags->dir,
                      "Directory of the cache (default: KILN_CACHE_DIR, else XDG)");
    AddOutputFlags(*child, flags->common);
    if (sub.run == Show) {
      child->add_option("KEY", flags->key, "Key, or its first digits")->required();
      child->add_option("--emit", flags->emit,
                        "Write one section to stdout: elf, stmt, asm, preimage, meta");
    }
    if (sub.run == Clear)
      child->add_flag("--dry-run", flags->dry_run, "Only say what would be removed");
    child->callback([chosen, &sub] { *chosen = &sub; });
  }
  return [flags, chosen] { return (*chosen)->run(*flags); };
}

}  // namespace kiln
