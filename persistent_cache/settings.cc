// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/settings.h"

#include <sys/auxv.h>

#include <cstdlib>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"

namespace kiln {
namespace {

std::string Variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string TrustFilePath() {
  if (std::string own = Variable("KILN_TRUSTED_SIGNERS"); !own.empty()) return own;
  if (const std::string xdg = Variable("XDG_CONFIG_HOME"); !xdg.empty() && xdg[0] == '/')
    return xdg + "/kiln/trusted-signers";
  const std::string home = Variable("HOME");
  return home.empty() || home[0] != '/' ? "" : home + "/.config/kiln/trusted-signers";
}

StoreOptions SettingsFromEnvironment(FileSystem& files) {
  StoreOptions options;
  if (getauxval(AT_SECURE) != 0) return options;
  options.packs = absl::StrSplit(Variable("KILN_CACHE_PACKS"), ':', absl::SkipEmpty());
  options.shared_directory = Variable("KILN_CACHE_SHARED");
  if (const std::string size = Variable("KILN_CACHE_MAX_SIZE"); !size.empty()) {
    if (const auto bytes = ParseByteSize(size); bytes.ok()) {
      options.max_bytes = *bytes;
    } else {
      LogWarning("KILN_CACHE_MAX_SIZE: ", bytes.status().message());
    }
  }
  if (options.packs.empty()) return options;
  options.trust.unsigned_too = Variable("KILN_TRUST_UNSIGNED") == "1";
  if (const std::string path = TrustFilePath(); !path.empty()) {
    auto signers = ReadTrustFile(files, path);
    if (signers.ok()) {
      options.trust.signers = *std::move(signers);
    } else {
      LogWarning(signers.status().message());
    }
  }
  return options;
}

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  constexpr absl::string_view kUnits = "KMGT";
  absl::string_view digits = text;
  if (absl::EndsWith(digits, "iB")) digits.remove_suffix(2);
  const bool unit_needed = digits.size() != text.size();
  int shift = 0;
  if (!digits.empty() && kUnits.find(digits.back()) != absl::string_view::npos) {
    shift = 10 * (static_cast<int>(kUnits.find(digits.back())) + 1);
    digits.remove_suffix(1);
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(digits, &value) || value < 0 || (unit_needed && shift == 0) ||
      value > (std::numeric_limits<int64_t>::max() >> shift)) {
    return absl::InvalidArgumentError(
        absl::StrCat("size \"", text, "\": expected bytes, such as 500M or 2GiB"));
  }
  return value << shift;
}

}  // namespace kiln
