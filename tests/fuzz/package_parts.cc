// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/package_parts.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exec/package/package.h"
#include "exec/package/package_file.h"
#include "persistent_cache/pack.h"

namespace kiln {

Entry& PackageParts::head() {
  for (Entry& entry : entries) {
    if (entry.Find("package") != nullptr) return entry;
  }
  std::abort();
}

std::string& PackageParts::section(const char* tag) {
  for (Section& section : head().sections) {
    if (section.tag == tag) return section.bytes;
  }
  std::abort();
}

PackageParts TakeApart(const std::string& package) {
  const auto file = PackageFile::Open(
      *PackageSource::Memory(package.data(), package.size(), nullptr).Open(), "package", {});
  if (!file.ok()) std::abort();
  PackageParts parts;
  parts.area = package.substr(0, static_cast<size_t>((*file)->area()));
  for (const Pack::Row& row : (*file)->pack().rows())
    parts.entries.push_back(*(*file)->pack().Read(row.key, nullptr));
  return parts;
}

std::string PutTogether(PackageParts parts) {
  const auto chunk = static_cast<size_t>(kPackageChunkBytes);
  std::string& sums = parts.section("chunks");
  sums.clear();
  for (size_t at = 0; at < parts.area.size(); at += chunk)
    sums += PackageChunkSums(absl::string_view(parts.area).substr(at, chunk));
  const absl::StatusOr<std::string> pack = EncodePack(std::move(parts.entries), nullptr);
  if (!pack.ok()) return "";
  return absl::StrCat(parts.area, *pack,
                      PackageFooter(*pack, static_cast<int64_t>(parts.area.size())));
}

}  // namespace kiln
