// SPDX-License-Identifier: Apache-2.0
// The commands and flags that the helps of the built `kiln` list.
#ifndef KILN_TESTS_CLI_HELP_H_
#define KILN_TESTS_CLI_HELP_H_

#include <set>
#include <string>
#include <vector>

namespace kiln {

// All that run: "run", "cache stats".
std::vector<std::string> Verbs();
// Of one of them: long flags, and short ones that have no long form; without --help.
std::set<std::string> FlagsOf(const std::string& verb);

}  // namespace kiln

#endif  // KILN_TESTS_CLI_HELP_H_
