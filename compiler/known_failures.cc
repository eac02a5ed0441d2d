// SPDX-License-Identifier: Apache-2.0
#include "compiler/known_failures.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/kernel_entry.h"
#include "exec/validate/validator.h"

namespace kiln {
namespace {

// By which version nothing was found, and for which example.
constexpr char kUnvalidatedMeta[] = "unvalidated";
constexpr char kExample[] = "example";
// The limits of a build, in milliseconds.
constexpr char kTime[] = "limit_ms";
constexpr char kCpuTime[] = "limit_cpu_ms";

// Whether a build that ran out of time within the limits of an entry may do better with `limit`, of
// which 0 is none.
bool AllowsMore(const std::string& tried, uint32_t limit) {
  uint32_t before = 0;
  return !absl::SimpleAtoi(tried, &before) || (before != 0 && (limit == 0 || limit > before));
}

}  // namespace

bool IsKnownToFail(const Entry& entry, const Attempt& attempt) {
  if (entry.Find("failure") == nullptr) return false;
  const std::vector<int64_t>& example = attempt.example;
  std::map<std::string, std::string> meta = MetaOf(entry);
  if (meta.count(kTime) != 0) {
    return !AllowsMore(meta[kTime], attempt.options.kernel_timeout_ms) &&
           !AllowsMore(meta[kCpuTime], attempt.options.kernel_cpu_ms);
  }
  const auto version = meta.find(kUnvalidatedMeta);
  return version == meta.end() || (version->second == absl::StrCat(kValidationVersion) &&
                                   (example.empty() || meta[kExample] == FormatClass(example)));
}

absl::Status KnownFailure(const Entry& entry) {
  const std::string text = absl::StrCat(*entry.Find("failure"), " (known from the cache)");
  return MetaOf(entry).count(kUnvalidatedMeta) != 0 ? absl::UnimplementedError(text)
                                                    : absl::InternalError(text);
}

std::map<std::string, std::string> MetaOfTimeOut(const CompileOptions& options) {
  return {{kTime, absl::StrCat(options.kernel_timeout_ms)},
          {kCpuTime, absl::StrCat(options.kernel_cpu_ms)}};
}

std::map<std::string, std::string> MetaOfUnvalidated(const std::vector<int64_t>& example) {
  return {{kUnvalidatedMeta, absl::StrCat(kValidationVersion)}, {kExample, FormatClass(example)}};
}

bool IsUnvalidated(const absl::Status& why) {
  return absl::IsUnimplemented(why) || absl::IsAborted(why);
}

bool MayPass(const absl::Status& why) {
  return absl::IsUnavailable(why) || absl::IsNotFound(why) || absl::IsResourceExhausted(why) ||
         absl::IsAborted(why);
}

}  // namespace kiln
