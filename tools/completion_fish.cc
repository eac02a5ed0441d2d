// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/completion.h"

namespace kiln {
namespace {

// Whether the words before the cursor name the command of the arguments, and none below it.
constexpr char kHead[] = R"(# fish completion for @P, made by `@P completion fish`
function __@P_at
    set -l path @P
    for word in (commandline -opc)[2..-1]
        if contains -- "$path $word" @C
            set path "$path $word"
        end
    end
    test "$path" = "$argv"
end
complete -c @P -f
)";

std::string Quoted(absl::string_view text) {
  return ShellQuoted(absl::StrReplaceAll(text, {{"\\", "\\\\"}}), "\\'");
}

// The options of `complete` for one flag: "-s o -l output -r -F -d 'doc'".
std::string FlagOptions(const FlagRow& row) {
  std::string text;
  for (const std::string& name : row.names)
    absl::StrAppend(&text, name.size() == 2 ? " -s " : " -l ",
                    name.substr(name.size() == 2 ? 1 : 2));
  if (!row.choices.empty()) {
    absl::StrAppend(&text, " -x -a ", Quoted(absl::StrJoin(row.choices, " ")));
  } else if (row.value == kFileValue) {
    absl::StrAppend(&text, " -r -F");
  } else if (row.value == kDirectoryValue) {
    absl::StrAppend(&text, " -x -a '(__fish_complete_directories)'");
  } else if (!row.value.empty()) {
    absl::StrAppend(&text, " -x");
  }
  return absl::StrCat(text, " -d ", Quoted(row.doc), "\n");
}

std::string Lines(const CommandRow& command, const std::string& program) {
  const std::string start = absl::StrCat("complete -c ", program, " -n ",
                                         Quoted(absl::StrCat("__", program, "_at ", command.path)));
  std::string text;
  for (const CommandRow& below : command.commands)
    absl::StrAppend(&text, start, " -a ", below.name, " -d ", Quoted(below.doc), "\n");
  for (const FlagRow* row : Positionals(command)) {
    if (!row->choices.empty())
      absl::StrAppend(&text, start, " -a ", Quoted(absl::StrJoin(row->choices, " ")), "\n");
  }
  if (TakesFiles(command)) absl::StrAppend(&text, start, " -F\n");
  for (const FlagRow* row : NamedFlags(command)) absl::StrAppend(&text, start, FlagOptions(*row));
  return text;
}

}  // namespace

std::string FishCompletion(const CommandRow& program) {
  std::vector<std::string> paths;
  std::string lines;
  for (const CommandRow* command : AllCommands(program)) {
    if (command != &program) paths.push_back(Quoted(command->path));
    lines += Lines(*command, program.name);
  }
  return absl::StrReplaceAll(kHead, {{"@P", program.name}, {"@C", absl::StrJoin(paths, " ")}}) +
         lines;
}

}  // namespace kiln
