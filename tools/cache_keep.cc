// SPDX-License-Identifier: Apache-2.0
// kiln cache prune, clear, pack, unpack, merge: what changes a cache, or takes it elsewhere.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "exec/support/kernel_code.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/merge.h"
#include "persistent_cache/pack.h"
#include "persistent_cache/settings.h"
#include "tools/cache.h"
#include "tools/exit_code.h"
#include "tools/kernel_pack.h"
#include "tools/report.h"
#include "tools/signing_key.h"

namespace kiln {
namespace {

// Records of the model's kernels are in `tune`; those of its library calls are known when it runs.
absl::Status AddTuneRecords(const CacheFlags& flags, const Store& store, TuneUse& tune) {
  CommonOptions common = flags.common;
  common.tune = false;
  common.choose = "heuristic";
  common.cache_dir = store.directory();
  common.cache_readonly = true;
  KILN_ASSIGN_OR_RETURN(const CompileOptions options,
                        ToCompileOptions(common, TargetsNamed(flags.model)));
  if (!TuneRecords(options, tune.store, /*measures=*/false).Any()) return absl::OkStatus();
  return PlanForInputs(flags.model, common, std::make_shared<KernelService>(options), tune);
}

// The entries that `pack` is to write.
absl::StatusOr<std::vector<Entry>> ChooseEntries(const CacheFlags& flags, Store& store) {
  std::vector<CacheKey> keys;
  TuneUse tune;
  tune.store = &store;
  for (const std::string& prefix : flags.keys) {
    KILN_ASSIGN_OR_RETURN(const CacheKey key, FindKey(store, prefix));
    keys.push_back(key);
  }
  if (!flags.model.model.empty()) {
    KILN_ASSIGN_OR_RETURN(const auto kernels, KernelsOfModel(flags.model, flags.common, tune));
    for (const KernelJob& kernel : kernels) keys.push_back(KernelPreimage(kernel.identity).Key());
    KILN_RETURN_IF_ERROR(AddTuneRecords(flags, store, tune));
    keys.insert(keys.end(), tune.keys.begin(), tune.keys.end());
  }
  if (flags.all) {
    KILN_ASSIGN_OR_RETURN(const auto entries, store.List());
    for (const EntryInfo& entry : entries) keys.push_back(entry.key);
  }
  absl::StatusOr<std::vector<Entry>> entries = EntriesToShip(store, std::move(keys));
  if (absl::IsNotFound(entries.status()) && !flags.model.model.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("model \"", flags.model.model,
                                                      "\": ", entries.status().message(),
                                                      "; fill it with kiln compile --cache-only"));
  }
  KILN_RETURN_IF_ERROR(entries.status());
  if (entries->empty())
    return absl::InvalidArgumentError("pack: no entries; give keys, --model or --all");
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pack>> OpenPack(const CacheFlags& flags) {
  PackTrust trust;
  trust.unsigned_too = flags.trust_unsigned;
  if (const std::string path = TrustFilePath(); !path.empty()) {
    KILN_ASSIGN_OR_RETURN(trust.signers, ReadTrustFile(RealFileSystem(), path));
  }
  return Pack::Open(RealFileSystem(), flags.file, trust);
}

int CachePrune(const CacheFlags& flags) {
  const auto store = OpenStore(flags, flags.dry_run);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  int64_t limit = (*store)->max_bytes();
  if (!flags.max_size.empty()) {
    const absl::StatusOr<int64_t> size = ParseByteSize(flags.max_size);
    if (!size.ok()) return Fail(size.status(), kExitUsage);
    limit = *size;
  }
  const absl::StatusOr<PruneReport> report = (*store)->Prune(limit, flags.dry_run);
  if (!report.ok()) return Fail(report.status(), kExitCache);
  nlohmann::json evicted = nlohmann::json::array();
  for (const EntryInfo& entry : report->evicted) evicted.push_back(ToHex(entry.key));
  if (flags.common.json) {
    PrintJson("cache.prune", flags.common,
              {{"busy", report->busy},
               {"dry_run", flags.dry_run},
               {"max_bytes", limit},
               {"bytes", report->bytes},
               {"removed", report->evicted.size()},
               {"removed_bytes", report->evicted_bytes},
               {"temporaries", report->temporaries},
               {"quarantined", report->quarantined},
               {"keys", evicted}});
  } else if (report->busy) {
    std::cout << "another process prunes this cache; nothing done\n";
  } else {
    std::cout << (flags.dry_run ? "would remove " : "removed ") << report->evicted.size() << " of "
              << report->entries << " entries, " << Bytes(report->evicted_bytes) << " of "
              << Bytes(report->bytes) << "; " << report->temporaries << " left-over temporaries, "
              << report->quarantined << " files in quarantine\n";
  }
  return kExitOk;
}

int CacheClear(const CacheFlags& flags) {
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

int WritePack(const CacheFlags& flags, const char* verb, std::vector<Entry> entries) {
  const absl::StatusOr<std::optional<SigningKey>> read = ReadSigningKey(flags.sign);
  if (!read.ok()) return Fail(read.status(), UsageExit(read.status()));
  const std::optional<SigningKey>& key = *read;
  const size_t count = entries.size();
  const auto bytes = EncodePack(std::move(entries), key.has_value() ? &*key : nullptr);
  if (!bytes.ok()) return Fail(bytes.status(), kExitCache);
  if (!flags.dry_run) {
    if (const absl::Status done = WriteFileDurably(flags.file, *bytes); !done.ok())
      return Fail(done, kExitIo);
  }
  const std::string signer = SignerOf(key);
  if (flags.common.json) {
    PrintJson(absl::StrCat("cache.", verb), flags.common,
              {{"entries", count},
               {"bytes", bytes->size()},
               {"signer", signer},
               {"dry_run", flags.dry_run}});
  } else {
    std::cout << (flags.dry_run ? "would write " : "wrote ") << count << " entries, "
              << Bytes(static_cast<int64_t>(bytes->size())) << "; "
              << (signer.empty() ? "not signed" : "signed with " + signer) << "\n";
  }
  return kExitOk;
}

int CachePack(const CacheFlags& flags) {
  const auto store = OpenStore(flags, true);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  absl::StatusOr<std::vector<Entry>> entries = ChooseEntries(flags, **store);
  if (!entries.ok()) return Fail(entries.status(), KeyExit(entries.status()));
  return WritePack(flags, "pack", *std::move(entries));
}

namespace {

absl::StatusOr<std::vector<Entry>> EntriesOfPack(CacheFlags flags, const std::string& path) {
  flags.file = path;
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<Pack> pack, OpenPack(flags));
  std::vector<Entry> entries;
  for (const Pack::Row& row : pack->rows()) {
    KILN_ASSIGN_OR_RETURN(Entry entry, pack->Read(row.key, nullptr));
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Those that are of use elsewhere: kernels and tune records. Programs, packed weights and the like
// are made in a moment from the model, which is there anyway.
absl::StatusOr<std::vector<Entry>> EntriesOfCache(CacheFlags flags, const std::string& path) {
  flags.dir = path;
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore(flags, /*read_only=*/true));
  KILN_ASSIGN_OR_RETURN(const std::vector<EntryInfo> listed, store->List());
  std::vector<CacheKey> keys;
  for (const EntryInfo& entry : listed) keys.push_back(entry.key);
  KILN_ASSIGN_OR_RETURN(std::vector<Entry> entries, EntriesToShip(*store, std::move(keys)));
  std::erase_if(entries,
                [](const Entry& e) { return !CodeOf(e).has_value() && e.Find("tune") == nullptr; });
  return entries;
}

}  // namespace

int CacheMerge(const CacheFlags& flags) {
  std::vector<Entry> all;
  for (const std::string& path : flags.packs) {
    auto entries = std::filesystem::is_directory(path) ? EntriesOfCache(flags, path)
                                                       : EntriesOfPack(flags, path);
    if (!entries.ok()) return Fail(entries.status(), kExitCache);
    std::move(entries->begin(), entries->end(), std::back_inserter(all));
  }
  return WritePack(flags, "merge", MergeEntries(std::move(all)));
}

int CacheUnpack(const CacheFlags& flags) {
  const auto pack = OpenPack(flags);
  if (!pack.ok()) return Fail(pack.status(), kExitCache);
  const auto store = OpenStore(flags, flags.dry_run);
  if (!store.ok()) return Fail(store.status(), kExitCache);
  int64_t added = 0;
  int64_t damaged = 0;
  for (const Pack::Row& row : (*pack)->rows()) {
    const absl::StatusOr<Entry> entry = (*pack)->Read(row.key, nullptr);
    if (!entry.ok()) {
      Fail(entry.status(), kExitDiffers);
      ++damaged;
      continue;
    }
    // A tune record gives way to one that was measured better here.
    const bool is_record = entry->Find("tune") != nullptr;
    const absl::StatusOr<Entry> here =
        is_record ? (*store)->Read(row.key) : absl::NotFoundError("no record");
    const bool stays = here.ok() && !StaysOver(*entry, *here);
    if (!flags.dry_run && !stays) {
      if (const absl::Status done = (*store)->Publish(*entry); !done.ok())
        return Fail(done, kExitCache);
    }
    ++added;
  }
  if (flags.common.json) {
    PrintJson("cache.unpack", flags.common,
              {{"added", added},
               {"damaged", damaged},
               {"signer", (*pack)->signer()},
               {"dry_run", flags.dry_run}});
  } else {
    std::cout << (flags.dry_run ? "would add " : "added ") << added << " entries"
              << (damaged > 0 ? absl::StrCat(", refused ", damaged, " damaged ones") : "") << "\n";
  }
  return damaged > 0 ? kExitDiffers : kExitOk;
}

}  // namespace kiln
