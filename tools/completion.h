// SPDX-License-Identifier: Apache-2.0
// Scripts that complete a program's command line in a shell, made of its table of commands: verbs,
// flags, the values of a flag that has few, and paths where a file or a directory is meant.
#ifndef KILN_TOOLS_COMPLETION_H_
#define KILN_TOOLS_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/command_table.h"

namespace kiln {

std::string BashCompletion(const CommandRow& program);
std::string ZshCompletion(const CommandRow& program);
std::string FishCompletion(const CommandRow& program);

// Between single quotes, as all three shells read it; `quote` is what they take for one within.
std::string ShellQuoted(absl::string_view text, absl::string_view quote);

// The positional arguments of a command, and its flags.
std::vector<const FlagRow*> Positionals(const CommandRow& command);
std::vector<const FlagRow*> NamedFlags(const CommandRow& command);
// Whether a file may stand by its place.
bool TakesFiles(const CommandRow& command);

}  // namespace kiln

#endif  // KILN_TOOLS_COMPLETION_H_
