// SPDX-License-Identifier: Apache-2.0
// kiln man: writes manual pages, one for the program and one for each verb.
#include "tools/man.h"

#include <filesystem>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"

namespace kiln {
namespace {

// Text of a line that begins with no macro: what roff would read as something else is escaped.
std::string Escaped(absl::string_view text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"},
                                                         {"-", "\\-"},
                                                         {"'", "\\(aq"},
                                                         {"`", "\\(ga"},
                                                         {"^", "\\(ha"},
                                                         {"~", "\\(ti"},
                                                         {"\"", "\\(dq"}});
  return escaped[0] == '.' ? absl::StrCat("\\&", escaped) : escaped;
}

std::string Bold(absl::string_view text) { return absl::StrCat("\\fB", Escaped(text), "\\fR"); }
std::string Italic(absl::string_view text) { return absl::StrCat("\\fI", Escaped(text), "\\fR"); }

// An entry of a list: what it is about, and lines about it.
std::string ManEntry(const std::string& term, const std::string& text) {
  return absl::StrCat(".TP\n", term, "\n", text, "\n");
}

std::string FlagEntry(const FlagRow& row) {
  std::vector<std::string> names;
  for (const std::string& name : row.names)
    names.push_back(row.is_positional() ? Italic(name) : Bold(name));
  std::string term = absl::StrJoin(names, ", ");
  if (!row.is_positional() && !row.value.empty()) absl::StrAppend(&term, " ", Italic(row.value));
  std::string text = absl::StrCat(Escaped(row.doc), ".");
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&text, "\n", what, " ", value, ".");
  };
  std::vector<std::string> choices;
  for (const std::string& choice : row.choices) choices.push_back(Bold(choice));
  add("One of", absl::StrJoin(choices, ", "));
  add("Default:", row.default_value.empty() ? "" : Bold(row.default_value));
  add("Environment:", row.variable.empty() ? "" : Bold(row.variable));
  return ManEntry(term, text);
}

std::string Synopsis(const CommandRow& command) {
  std::string text = absl::StrCat(Bold(command.path), " [", Italic("OPTION"), "]...");
  if (!command.commands.empty()) absl::StrAppend(&text, " ", Italic("VERB"), " ...");
  for (const FlagRow& row : command.flags) {
    if (!row.is_positional()) continue;
    const std::string name = absl::StrCat(Italic(row.names[0]), row.repeatable ? "..." : "");
    absl::StrAppend(&text, " ", row.required ? name : absl::StrCat("[", name, "]"));
  }
  return text + "\n";
}

std::string PageName(const CommandRow& command) {
  return absl::StrReplaceAll(command.path, {{" ", "-"}});
}

std::string Reference(const CommandRow& command) {
  return absl::StrCat(Bold(PageName(command)), "(1)");
}

std::string Entries(const std::vector<FlagRow>& flags) {
  std::string text;
  for (const FlagRow& row : flags) text += FlagEntry(row);
  return text;
}

// The commands below: of the program with the pages that they have, of a verb with all their flags.
std::string VerbsSection(const CommandRow& command, bool is_program) {
  if (command.commands.empty()) return "";
  std::string text = ".SH VERBS\n";
  for (const CommandRow& below : command.commands) {
    const std::string doc = absl::StrCat(Escaped(below.doc), ".");
    text += is_program
                ? ManEntry(Bold(below.name), absl::StrCat(doc, "\nSee ", Reference(below), "."))
                : absl::StrCat(".SS ", Escaped(below.path), "\n", doc, "\n.PP\n", Synopsis(below),
                               Entries(below.flags));
  }
  return text;
}

std::string ExitStatus(const CommandRow& program, bool is_program) {
  std::string text = ".SH EXIT STATUS\n";
  if (!is_program) return absl::StrCat(text, "As ", Reference(program), " says.\n");
  for (const ExitCodeRow& row : AllExitCodes())
    text += ManEntry(Bold(absl::StrCat(row.code)), absl::StrCat(Escaped(row.meaning), "."));
  return text;
}

int Write(const std::string& directory, const CommandRow& program) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);  // else what is written fails
  std::vector<const CommandRow*> pages = {&program};
  for (const CommandRow& verb : program.commands) pages.push_back(&verb);
  for (const CommandRow* page : pages) {
    const std::string path = absl::StrCat(directory, "/", PageName(*page), ".1");
    const absl::Status written = WriteFileDurably(path, ManualPage(*page, program));
    if (!written.ok()) return Fail(written, kExitIo);
  }
  return kExitOk;
}

}  // namespace

std::string ManualPage(const CommandRow& command, const CommandRow& program) {
  const bool is_program = command.path == program.path;
  std::vector<std::string> others;
  for (const CommandRow& verb : program.commands) others.push_back(Reference(verb));
  return absl::StrCat(".TH ", Escaped(absl::AsciiStrToUpper(PageName(command))), " 1 \"\" \"",
                      program.name, " " KILN_VERSION "\"\n.SH NAME\n", Escaped(PageName(command)),
                      " \\- ", Escaped(command.doc), "\n.SH SYNOPSIS\n", Synopsis(command),
                      ".SH OPTIONS\n", Entries(command.flags), VerbsSection(command, is_program),
                      ExitStatus(program, is_program), ".SH SEE ALSO\n",
                      is_program ? absl::StrJoin(others, ",\n") : Reference(program), "\n");
}

void AddMan(Flags& command) {
  auto directory = std::make_shared<std::string>();
  command.Option("DIR", *directory, "Where kiln.1 and a page for each verb are written")
      .Directory()
      .Required();
  command.Runs([directory, &command] { return Write(*directory, command.ProgramTable()); });
}

}  // namespace kiln
