// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/completion.h"

namespace kiln {
namespace {

// To be sourced, or autoloaded from the search path of functions as "_kiln".
constexpr char kHead[] = R"(#compdef @P
# zsh completion for @P, made by `@P completion zsh`
compdef _@P @P
)";
constexpr char kTail[] = R"(
if [[ $funcstack[1] == _@P ]]; then
  _@P "$@"
fi
)";

constexpr char kBelow[] = R"( \
    '1:verb:->verb' '*::argument:->argument'
  case $state in
    verb)
      local -a verbs=(
@V      )
      _describe verb verbs ;;
    argument)
      case $words[1] in
@F      esac ;;
  esac
)";

std::string Quoted(absl::string_view text) { return ShellQuoted(text, "'\\''"); }

// In a description, where brackets and colons have a meaning.
std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string FunctionName(const CommandRow& command) {
  return "_" + absl::StrReplaceAll(command.path, {{" ", "_"}, {"-", "_"}});
}

// ":TEXT:(a b)": what a value is called, and what it may be.
std::string ValueSpec(const FlagRow& row) {
  const std::string action = !row.choices.empty()
                                 ? absl::StrCat("(", absl::StrJoin(row.choices, " "), ")")
                             : row.value == kFileValue      ? "_files"
                             : row.value == kDirectoryValue ? "_files -/"
                                                            : " ";
  return absl::StrCat(":", Escaped(row.is_positional() ? row.names[0] : row.value), ":", action);
}

// The word of _arguments for one flag: '(-o --output)'{-o+,--output=}'[doc]:FILE:_files'.
std::string FlagSpec(const FlagRow& row) {
  std::vector<std::string> names;
  for (const std::string& name : row.names)
    names.push_back(row.value.empty() ? name : name + (name.size() == 2 ? "+" : "="));
  const std::string text =
      absl::StrCat("[", Escaped(row.doc), "]", row.value.empty() ? "" : ValueSpec(row));
  const std::string before =
      row.repeatable ? "*" : absl::StrCat("(", absl::StrJoin(row.names, " "), ")");
  if (names.size() == 1) return Quoted(absl::StrCat(before, names[0], text));
  return absl::StrCat(Quoted(before), "{", absl::StrJoin(names, ","), "}", Quoted(text));
}

std::string Function(const CommandRow& command) {
  std::string text = absl::StrCat("\n", FunctionName(command), "() {\n",
                                  "  local curcontext=$curcontext state line\n",
                                  "  typeset -A opt_args\n  _arguments -C -s");
  for (const FlagRow* row : NamedFlags(command))
    absl::StrAppend(&text, " \\\n    ", FlagSpec(*row));
  int place = 0;
  for (const FlagRow* row : Positionals(command)) {
    const std::string at = row->repeatable ? "*" : absl::StrCat(++place, row->required ? "" : ":");
    absl::StrAppend(&text, " \\\n    ", Quoted(absl::StrCat(at, ValueSpec(*row))));
  }
  if (command.commands.empty()) return absl::StrCat(text, "\n}\n");
  std::string verbs, functions;
  for (const CommandRow& below : command.commands) {
    absl::StrAppend(&verbs, "        ", Quoted(absl::StrCat(below.name, ":", Escaped(below.doc))),
                    "\n");
    absl::StrAppend(&functions, "        ", below.name, ") ", FunctionName(below), " ;;\n");
  }
  return absl::StrCat(text, absl::StrReplaceAll(kBelow, {{"@V", verbs}, {"@F", functions}}), "}\n");
}

}  // namespace

std::string ZshCompletion(const CommandRow& program) {
  std::string text = kHead;
  for (const CommandRow* command : AllCommands(program)) text += Function(*command);
  return absl::StrReplaceAll(text + kTail, {{"@P", program.name}});
}

}  // namespace kiln
