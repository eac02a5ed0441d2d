// SPDX-License-Identifier: Apache-2.0
// A package taken apart, and put together again with right checksums.
#ifndef KILN_TESTS_FUZZ_PACKAGE_PARTS_H_
#define KILN_TESTS_FUZZ_PACKAGE_PARTS_H_

#include <string>
#include <vector>

#include "persistent_cache/entry.h"

namespace kiln {

struct PackageParts {
  std::string area;  // head and constants
  std::vector<Entry> entries;

  // The entry that describes the package, and a section of it.
  Entry& head();
  std::string& section(const char* tag);
};

// Of one that was written by the project; aborts on others.
PackageParts TakeApart(const std::string& package);

// The sums of the chunks, the index and the footer are those of the parts.
std::string PutTogether(PackageParts parts);

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_PACKAGE_PARTS_H_
