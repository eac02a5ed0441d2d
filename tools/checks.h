// SPDX-License-Identifier: Apache-2.0
// Checks of a machine, one line each: `kiln doctor`, and `kiln cache doctor` of the cache alone.
//
//   Checks checks("problem");
//   checks.Add("disk", CheckStatus::kNote, "12.0 MiB free", "make room");
//   std::cout << checks.Text();      // disk  note  12.0 MiB free; make room
#ifndef KILN_TOOLS_CHECKS_H_
#define KILN_TOOLS_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/cache.h"

namespace kiln {

enum class CheckStatus : uint8_t { kOk, kNote, kBad };

class Checks {
 public:
  // `bad`: what the status of a failed check is called.
  explicit Checks(std::string bad) : bad_(std::move(bad)) {}

  // `advice`: what to do, of a check that is not ok.
  void Add(const std::string& name, CheckStatus status, const std::string& detail,
           const std::string& advice = "");
  // What a probe found out; where it failed, its message with the status `otherwise`.
  void AddProbe(const std::string& name, const absl::StatusOr<std::string>& detail,
                CheckStatus otherwise, const std::string& advice = "");

  bool any_bad() const;
  // {"ok": ..., "checks": [{"name", "status", "detail", "advice"}]}
  nlohmann::json Json() const;
  // A table of at most 80 columns, details broken at blanks.
  std::string Text() const;

 private:
  struct Check {
    std::string name;
    CheckStatus status;
    std::string detail, advice;
  };
  std::string Word(CheckStatus status) const;

  const std::string bad_;
  std::vector<Check> checks_;
};

// The cache of --dir or the environment: directory, disk, file system, writing, locks, packs.
void CheckCache(const CacheFlags& flags, Checks& checks);

// Builds a kernel with kiln-codegen and says how long that took; `code`, if not null, is its entry,
// not validated. The errors of KernelService::Emit.
absl::StatusOr<std::string> ProbeCompiler(Entry* code = nullptr);

// The sets of instructions of the CPU, by blanks.
std::string HostFeatures();

}  // namespace kiln

#endif  // KILN_TOOLS_CHECKS_H_
