// SPDX-License-Identifier: Apache-2.0
// kiln completion: prints a script for a shell.
#include "tools/completion.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"

namespace kiln {
namespace {

struct Shell {
  const char* name;
  std::string (*script)(const CommandRow& program);
};
constexpr Shell kShells[] = {
    {"bash", BashCompletion}, {"zsh", ZshCompletion}, {"fish", FishCompletion}};

std::vector<const FlagRow*> FlagsThat(const CommandRow& command, bool positional) {
  std::vector<const FlagRow*> rows;
  for (const FlagRow& row : command.flags) {
    if (row.is_positional() == positional) rows.push_back(&row);
  }
  return rows;
}

}  // namespace

std::string ShellQuoted(absl::string_view text, absl::string_view quote) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", quote}}), "'");
}

std::vector<const FlagRow*> Positionals(const CommandRow& command) {
  return FlagsThat(command, /*positional=*/true);
}

std::vector<const FlagRow*> NamedFlags(const CommandRow& command) {
  return FlagsThat(command, /*positional=*/false);
}

bool TakesFiles(const CommandRow& command) {
  return std::any_of(command.flags.begin(), command.flags.end(), [](const FlagRow& row) {
    return row.is_positional() && row.value == kFileValue;
  });
}

void AddCompletion(Flags& command) {
  auto shell = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const Shell& row : kShells) names.emplace_back(row.name);
  command.Option("SHELL", *shell, "bash, zsh or fish").OneOf(names).Required();
  command.Runs([shell, &command] {
    for (const Shell& row : kShells) {
      if (*shell == row.name) std::cout << row.script(command.ProgramTable());
    }
    return kExitOk;
  });
}

}  // namespace kiln
