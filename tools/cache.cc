// SPDX-License-Identifier: Apache-2.0
// kiln cache: the commands and their flags. One file per group of commands does the work.
#include "tools/cache.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/variants.h"
#include "persistent_cache/directory.h"
#include "persistent_cache/settings.h"
#include "tools/exit_code.h"
#include "tools/flags.h"

namespace kiln {

absl::StatusOr<std::string> CacheDirectory(const CacheFlags& flags) {
  if (!flags.dir.empty()) return flags.dir;
  if (!flags.common.cache_dir.empty()) return flags.common.cache_dir;  // of verbs with a model
  return DefaultCacheDirectory();
}

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const CacheFlags& flags, bool read_only) {
  StoreOptions options = SettingsFromEnvironment(RealFileSystem());
  options.packs.clear();
  options.shared_directory.clear();
  options.read_only = read_only;
  KILN_ASSIGN_OR_RETURN(options.directory, CacheDirectory(flags));
  return Store::Open(RealFileSystem(), options);
}

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

int KeyExit(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitCache;
}

size_t UniqueDigits(std::vector<CacheKey> keys) {
  std::sort(keys.begin(), keys.end());
  size_t digits = 8;
  for (size_t k = 1; k < keys.size(); ++k) {
    const std::string a = ToHex(keys[k - 1]);
    const std::string b = ToHex(keys[k]);
    const auto differ = std::mismatch(a.begin(), a.end(), b.begin()).first;
    digits = std::max(digits, static_cast<size_t>(differ - a.begin()) + 1);
  }
  return std::min<size_t>(digits, 64);
}

std::string KernelSummary(const std::string& preimage) {
  const std::string kernel = FieldOf(preimage, "kernel");
  std::string last;
  for (absl::string_view line : absl::StrSplit(kernel, '\n')) {
    if (absl::StartsWith(line, "out")) last = std::string(line);
  }
  const size_t at = last.find("= ");
  return at == std::string::npos ? last : last.substr(at + 2);
}

std::string Fit(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return width < 4 ? text.substr(0, width) : text.substr(0, width - 3) + "...";
}

std::string Ago(int64_t ns) {
  const int64_t minutes = std::max<int64_t>(0, SystemNowNs() - ns) / 60'000'000'000;
  if (minutes < 120) return absl::StrCat(minutes, " min");
  if (minutes < 48 * 60) return absl::StrCat(minutes / 60, " h");
  return absl::StrCat(minutes / (24 * 60), " d");
}

absl::StatusOr<int64_t> ParseAge(const std::string& text) {
  int64_t value = 0;
  const int64_t unit = absl::EndsWith(text, "m")   ? 60
                       : absl::EndsWith(text, "h") ? 3600
                       : absl::EndsWith(text, "d") ? 86400
                                                   : 0;
  if (unit == 0 || !absl::SimpleAtoi(text.substr(0, text.size() - 1), &value) || value < 0 ||
      value > 100'000) {
    return absl::InvalidArgumentError(
        absl::StrCat("age \"", text, "\": expected such as 30m, 6h or 7d"));
  }
  return value * unit * 1'000'000'000;
}

namespace {

struct Sub {
  const char* name;
  const char* doc;
  int (*run)(const CacheFlags&);
};
constexpr Sub kSubs[] = {
    {"stats", "Entries, bytes, hits, misses, builds, saved time", CacheStats},
    {"ls", "Entries", CacheList},
    {"show", "One entry: kernel, schedule, target, sections", CacheShow},
    {"diff", "What differs between two entries", CacheDiff},
    {"why-miss", "For each kernel of a model: hit, or what differs from the nearest entry",
     CacheWhyMiss},
    {"verify", "Check all entries of the cache or of a pack, load and validate them in children",
     CacheVerify},
    {"prune", "Remove what is used least, left-overs and old quarantine", CachePrune},
    {"clear", "Remove all entries", CacheClear},
    {"pack", "Write entries into one file, to ship", CachePack},
    {"unpack", "Check a pack and put its entries into the cache", CacheUnpack},
    {"merge", "Put packs and caches together into one pack", CacheMerge},
    {"doctor", "Check everything that the cache depends on", CacheDoctor},
};

void AddModel(Flags& command, CacheFlags& flags, bool positional) {
  AddCommonFlags(command, flags.common);
  const Flag model = command
                         .Option(positional ? "MODEL" : "--model", flags.model.model,
                                 positional ? "Model" : "Only kernels of this model")
                         .File();
  if (positional) model.Required();
}

void AddListFlags(Flags& command, CacheFlags& flags) {
  command.Option("--target", flags.target, "Only of this target, such as x86-64-v3");
  command.Option("--kind", flags.kind, "Only of this scheduler, or of this kind: tune, program");
  command.Option("--older", flags.older, "Only not used for so long: 30m, 6h, 7d");
  command.Option("--newer", flags.newer, "Only used within: 30m, 6h, 7d");
  command.Option("--larger", flags.larger, "Only files of at least this size: 64K");
  command.Option("--sort", flags.sort, "used, size, time (of building) or key")
      .OneOf({"used", "size", "time", "key"})
      .ShowDefault();
  command.Switch("--all", flags.all, "Also what is no kernel");
}

void AddFlags(Flags& command, const Sub& sub, CacheFlags& flags) {
  command.Option("--dir", flags.dir, "Directory of the cache (default: KILN_CACHE_DIR, else XDG)")
      .Directory();
  const auto is = [&](int (*run)(const CacheFlags&)) { return sub.run == run; };
  if (is(CacheWhyMiss) || is(CacheList) || is(CachePack)) {
    AddModel(command, flags, is(CacheWhyMiss));
    is(CacheList) ? AddInputFlags(command, flags.model) : AddModelFlags(command, flags.model);
  } else {
    AddOutputFlags(command, flags.common);
  }
  if (is(CacheList)) AddListFlags(command, flags);
  if (is(CacheShow)) {
    command.Option("KEY", flags.keys, "Key, or its first digits").Required().Values(1);
    command.Option("--emit", flags.emit,
                   "Write one section to stdout: elf, stmt, asm, preimage, meta; of a GPU ptx, "
                   "launch, cubin, ptxas, sass");
  }
  if (is(CacheDiff)) command.Option("KEYS", flags.keys, "Two keys").Required().Values(2);
  if (is(CachePack)) {
    command.Option("OUT", flags.file, "File to write").File().Required();
    command.Option("KEY", flags.keys, "Keys, or their first digits");
    command.Switch("--all", flags.all, "All entries");
    command.Option("--sign", flags.sign, "Ed25519 private key, PEM").File();
  }
  if (is(CacheMerge)) {
    command.Option("OUT", flags.file, "File to write").File().Required();
    command.Option("IN", flags.packs, "Packs, or directories of caches").File().Required();
    command.Option("--sign", flags.sign, "Ed25519 private key, PEM").File();
  }
  if (is(CacheUnpack)) command.Option("FILE", flags.file, "Pack").File().Required();
  if (is(CacheUnpack) || is(CacheVerify) || is(CacheMerge)) {
    command.Switch("--trust-unsigned", flags.trust_unsigned,
                   "Also a pack that nobody in the trust file has signed");
  }
  if (is(CacheVerify)) {
    command.Option("PACK", flags.file, "Pack to check, instead of the cache").File();
    command.Switch("--validate,--prove", flags.validate,
                   "Also compare all code that this CPU runs with the VM, bit by bit");
    command.Option("--recompile", flags.recompile,
                   "Also build so many entries again and compare the code");
  }
  if (is(CachePrune))
    command.Option("--max-size", flags.max_size, "Limit, such as 500M (default: 2G)");
  if (is(CacheStats)) command.Switch("--zero", flags.zero, "Start counting again");
  if (is(CachePrune) || is(CacheClear) || is(CachePack) || is(CacheUnpack) || is(CacheMerge))
    command.Switch("--dry-run", flags.dry_run, "Only say what would be done");
}

}  // namespace

void AddCache(Flags& command) {
  auto flags = std::make_shared<CacheFlags>();
  for (const Sub& sub : kSubs) {
    Flags& child = command.Command(sub.name, sub.doc);
    AddFlags(child, sub, *flags);
    child.Runs([flags, &sub] { return sub.run(*flags); });
  }
}

}  // namespace kiln
