// SPDX-License-Identifier: Apache-2.0
// The commands of a program and their flags, as data: what help, completion scripts and manual
// pages are made of. Flags::Table gives it (tools/flags.h).
#ifndef KILN_TOOLS_COMMAND_TABLE_H_
#define KILN_TOOLS_COMMAND_TABLE_H_

#include <string>
#include <vector>

namespace kiln {

inline constexpr char kFileValue[] = "FILE";
inline constexpr char kDirectoryValue[] = "DIR";

struct FlagRow {
  std::vector<std::string> names;  // "-o", "--output"; or one without dashes: what stands by place
  std::string doc;
  std::string value = "";                 // "TEXT", "INT", kFileValue, ...; "": none follows
  std::vector<std::string> choices = {};  // all values that there are; empty: any
  std::string default_value = "";         // as the help shows it
  std::string variable = "";              // of the environment
  bool required = false, repeatable = false;

  bool is_positional() const { return names[0][0] != '-'; }
};

struct CommandRow {
  std::string name;  // of this command alone
  std::string path;  // from the program on: "kiln cache stats"
  std::string doc;
  std::vector<FlagRow> flags;        // in the order of the help, positional ones among them
  std::vector<CommandRow> commands;  // below it
};

// The command and all below it, from the top.
std::vector<const CommandRow*> AllCommands(const CommandRow& top);

}  // namespace kiln

#endif  // KILN_TOOLS_COMMAND_TABLE_H_
