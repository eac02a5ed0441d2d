// SPDX-License-Identifier: Apache-2.0
// What the parts of `kiln cache` share: its flags, and finding and naming entries.
#ifndef KILN_TOOLS_CACHE_H_
#define KILN_TOOLS_CACHE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/kernel_key.h"
#include "persistent_cache/pack.h"
#include "persistent_cache/store.h"
#include "tools/common.h"
#include "tools/model_kernels.h"

namespace kiln {

struct CacheFlags {
  CommonOptions common;
  std::string dir;
  std::vector<std::string> keys;  // KEY..., or A B
  std::string emit;               // show: a section
  ModelFlags model;
  std::string target, kind, older, newer, larger, sort = "used";  // ls
  std::string max_size;                                           // prune
  std::string file, sign;                                         // pack, unpack; verify: a pack
  std::vector<std::string> packs;                                 // merge: what is put together
  int recompile = 0;                                              // verify
  bool validate = false;                                          // verify
  bool dry_run = false, zero = false, all = false, trust_unsigned = false;
};

// One function per command, giving the exit code.
int CacheStats(const CacheFlags& flags);
int CacheList(const CacheFlags& flags);
int CacheShow(const CacheFlags& flags);
int CacheDiff(const CacheFlags& flags);
int CacheWhyMiss(const CacheFlags& flags);
int CacheVerify(const CacheFlags& flags);
int CachePrune(const CacheFlags& flags);
int CacheClear(const CacheFlags& flags);
int CachePack(const CacheFlags& flags);
int CacheUnpack(const CacheFlags& flags);
int CacheMerge(const CacheFlags& flags);
int CacheDoctor(const CacheFlags& flags);

// The cache of --dir, or of the environment; without packs and shared directory.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const CacheFlags& flags, bool read_only);
// The pack FILE, if whoever signed it is trusted.
absl::StatusOr<std::unique_ptr<Pack>> OpenPack(const CacheFlags& flags);
// A pack of these entries, signed as the flags say, in FILE unless it is a dry run. Prints what was
// done as `verb`, and returns the exit code.
int WritePack(const CacheFlags& flags, const char* verb, std::vector<Entry> entries);
absl::StatusOr<std::string> CacheDirectory(const CacheFlags& flags);

// The one key that starts with `prefix`. kNotFound, or kInvalidArgument if several do.
absl::StatusOr<CacheKey> FindKey(Store& store, const std::string& prefix);
// What such an error exits with.
int KeyExit(const absl::Status& status);

// How many digits tell all these keys apart, 8 at least.
size_t UniqueDigits(std::vector<CacheKey> keys);

// What an entry's kernel computes, on one line: the expression of its last output. "" for others.
std::string KernelSummary(const std::string& preimage);
// `text` cut to fit into `width` columns.
std::string Fit(const std::string& text, size_t width);

// "3 d", "5 h", "2 min" since `ns`; and "30m", "6h", "7d" as nanoseconds.
std::string Ago(int64_t ns);
absl::StatusOr<int64_t> ParseAge(const std::string& text);

}  // namespace kiln

#endif  // KILN_TOOLS_CACHE_H_
