// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/completion.h"

namespace kiln {
namespace {

// Finds the command that the words before the cursor name. Bash cuts "--flag=value" at "=".
constexpr char kScript[] = R"(# bash completion for @P, made by `@P completion bash`
_@P() {
  local command=@P words='' flags='' files='' word i
  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$command $word" in
      @C) command+=" $word" ;;
    esac
  done
  COMPREPLY=()
  case "$command $before" in
@V    *)
      case "$command" in
@W      esac
      if [[ $cur == -* || -z $words$files ]]; then
        words=$flags
      elif [[ -n $files ]]; then
        compopt -o default
        return
      fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _@P @P
)";

std::string Quoted(absl::string_view text) { return ShellQuoted(text, "'\\''"); }

std::vector<std::string> Words(const CommandRow& command) {
  std::vector<std::string> words;
  for (const CommandRow& below : command.commands) words.push_back(below.name);
  for (const FlagRow* row : Positionals(command))
    words.insert(words.end(), row->choices.begin(), row->choices.end());
  return words;
}

std::vector<std::string> FlagNames(const CommandRow& command) {
  std::vector<std::string> names;
  for (const FlagRow* row : NamedFlags(command))
    names.insert(names.end(), row->names.begin(), row->names.end());
  return names;
}

// What is done for the value of a flag.
std::string ValueAction(const FlagRow& row) {
  if (!row.choices.empty()) return absl::StrCat("words=", Quoted(absl::StrJoin(row.choices, " ")));
  if (row.value == kFileValue) return "compopt -o default; return";
  if (row.value == kDirectoryValue) return "compopt -o dirnames; return";
  return "return";
}

// The lines of a `case` for values: each flag of each command, by what is done.
std::string ValueCases(const std::vector<const CommandRow*>& commands) {
  std::vector<std::pair<std::string, std::vector<std::string>>> cases;  // action, patterns
  for (const CommandRow* command : commands) {
    for (const FlagRow* row : NamedFlags(*command)) {
      if (row->value.empty()) continue;
      const std::string action = ValueAction(*row);
      auto found = cases.begin();
      while (found != cases.end() && found->first != action) ++found;
      if (found == cases.end()) found = cases.insert(found, {action, {}});
      for (const std::string& name : row->names)
        found->second.push_back(Quoted(absl::StrCat(command->path, " ", name)));
    }
  }
  std::string text;
  for (const auto& [action, patterns] : cases)
    absl::StrAppend(&text, "    ", absl::StrJoin(patterns, "|"), ")\n      ", action, " ;;\n");
  return text;
}

}  // namespace

std::string BashCompletion(const CommandRow& program) {
  const std::vector<const CommandRow*> commands = AllCommands(program);
  std::vector<std::string> paths;
  std::string words;
  for (const CommandRow* command : commands) {
    if (command != &program) paths.push_back(Quoted(command->path));
    absl::StrAppend(&words, "        ", Quoted(command->path),
                    ")\n          words=", Quoted(absl::StrJoin(Words(*command), " ")),
                    " files=", TakesFiles(*command) ? "1" : "''",
                    "\n          flags=", Quoted(absl::StrJoin(FlagNames(*command), " ")), " ;;\n");
  }
  return absl::StrReplaceAll(kScript, {{"@P", program.name},
                                       {"@C", absl::StrJoin(paths, "|")},
                                       {"@V", ValueCases(commands)},
                                       {"@W", words}});
}

}  // namespace kiln
