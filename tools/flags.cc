// SPDX-License-Identifier: Apache-2.0
#include "tools/flags.h"

#include <algorithm>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/exit_code.h"
#include "tools/nearest_name.h"

namespace kiln {
namespace {

// An unknown verb or flag among the words that nothing took, with the nearest of `app`; "": none.
std::string UnknownName(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  if (word.size() > 1 && word[0] == '-') {
    // Dashes tell nothing of what was meant, and a value may follow.
    const std::string flag = word.substr(0, word.find('='));
    const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    for (const CLI::Option* option : app.get_options()) {
      known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
      known.insert(known.end(), option->get_snames().begin(), option->get_snames().end());
    }
    const std::string nearest = NearestName(name, known);
    if (nearest.empty()) return absl::StrCat("no flag \"", flag, "\"");
    return absl::StrCat("no flag \"", flag, "\"; did you mean \"", nearest.size() == 1 ? "-" : "--",
                        nearest, "\"?");
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(command->get_name());
  return known.empty() ? "" : absl::StrCat("no verb \"", word, "\"", DidYouMean(word, known));
}

// "cache ls: no flag ..." for the first word that nothing took and that is an unknown name; or "".
// `path`: the verbs that lead to `app`.
std::string FirstUnknownName(const CLI::App& app, const std::string& path) {
  for (const std::string& word : app.remaining()) {
    const std::string unknown = UnknownName(app, word);
    if (!unknown.empty()) return absl::StrCat(path, path.empty() ? "" : ": ", unknown);
  }
  if (app.get_subcommands().empty()) return "";
  const CLI::App& below = *app.get_subcommands().front();
  return FirstUnknownName(below, absl::StrCat(path, path.empty() ? "" : " ", below.get_name()));
}

// What was wrong on the command line, and, where no name is suggested, where its flags are told.
std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  std::string message = error.what(), command = app->get_name();
  for (const CLI::App* named = app; !named->get_subcommands().empty();) {
    named = named->get_subcommands().front();
    command += " " + named->get_name();
  }
  // What is missing may be what was mistyped.
  const auto is = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  if (is(CLI::ExitCodes::RequiredError) || is(CLI::ExitCodes::ExtrasError)) {
    if (const std::string unknown = FirstUnknownName(*app, ""); !unknown.empty()) message = unknown;
  }
  const std::string help = absl::StrCat("; see ", command, " --help");
  return absl::StrCat(app->get_name(), ": ", message, absl::EndsWith(message, "?") ? "" : help,
                      "\n");
}

// The error of a text that is no number, or one below 0; "" otherwise.
std::string ErrorUnlessNotNegative(const std::string& text) {
  double value = 0;
  if (absl::SimpleAtod(text, &value) && value >= 0) return "";
  return absl::StrCat("is \"", text, "\", expected a number >= 0");
}

std::string ErrorIfEmpty(const std::string& text) {
  return text.empty() ? "is \"\", expected the name of a file" : "";
}

// The error of a text that is none of these; "" otherwise.
std::string ErrorUnlessOneOf(const std::vector<std::string>& values, const std::string& text) {
  if (std::find(values.begin(), values.end(), text) != values.end()) return "";
  return absl::StrCat("is \"", text, "\", expected one of ", absl::StrJoin(values, ", "),
                      DidYouMean(text, values));
}

FlagRow FlagRowOf(const CLI::Option& option, const std::string& name) {
  FlagRow row{absl::StrSplit(name, ','), option.get_description()};
  const int most = option.get_items_expected_max();
  if (most > 0) row.value = option.get_type_name();
  row.repeatable = most > 1;
  return row;
}

// Throws where a list has an empty value, as "," has: CLI11 leaves it out, and takes the next word
// of the command line in its place.
void CheckLists(const CLI::App* app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view word = argv[i];
    for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; }))
      if (command->get_name() == word) app = command;
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const CLI::Option* const option = app->get_option_no_throw(name);
    if (option == nullptr || option->get_delimiter() == '\0') continue;
    const bool apart = equals == absl::string_view::npos;
    if (apart && i + 1 == argc) continue;  // none at all
    const absl::string_view value = apart ? argv[i + 1] : word.substr(equals + 1);
    for (const absl::string_view one : absl::StrSplit(value, option->get_delimiter())) {
      if (one.empty())
        throw CLI::ValidationError(
            name, absl::StrCat("is \"", value, "\", expected values with a comma between two"));
    }
  }
}

}  // namespace

Flag Flag::Required() const {
  option_->required();
  row_->required = true;
  return *this;
}

Flag Flag::Repeatable() const {
  option_->take_all()->allow_extra_args(false);
  row_->repeatable = true;
  return *this;
}

Flag Flag::List() const {
  option_->delimiter(',');
  return Repeatable();
}

Flag Flag::Values(int count) const {
  option_->expected(count);
  row_->repeatable = count > 1;
  return *this;
}

Flag Flag::Range(int lowest, int highest) const {
  option_->check(CLI::Range(lowest, highest));
  constexpr int kFew = 8;  // that are listed one by one
  for (int value = lowest; value <= highest && highest - lowest < kFew; ++value)
    row_->choices.push_back(absl::StrCat(value));
  return *this;
}

Flag Flag::OneOf(const std::vector<std::string>& values) const {
  option_->check(
      CLI::Validator([values](const std::string& text) { return ErrorUnlessOneOf(values, text); },
                     absl::StrCat("{", absl::StrJoin(values, ","), "}")));
  row_->choices = values;
  return *this;
}

Flag Flag::NotNegative() const {
  option_->check(CLI::Validator(ErrorUnlessNotNegative, "NUMBER>=0"));
  return *this;
}

Flag Flag::File() const {
  option_->check(CLI::Validator(ErrorIfEmpty, ""));
  option_->type_name(kFileValue);
  row_->value = kFileValue;
  return *this;
}

Flag Flag::Directory() const {
  option_->type_name(kDirectoryValue);
  row_->value = kDirectoryValue;
  return *this;
}

Flag Flag::Needs(const Flag& other) const {
  option_->needs(other.option_);
  return *this;
}

Flag Flag::Excludes(const Flag& other) const {
  option_->excludes(other.option_);
  return *this;
}

Flag Flag::Environment(const std::string& variable) const {
  option_->envname(variable);
  row_->variable = variable;
  return *this;
}

Flag Flag::ShowDefault() const {
  option_->capture_default_str();
  row_->default_value = option_->get_default_str();
  return *this;
}

Flags::Flags(const std::string& program, const std::string& doc, const std::string& version)
    : Flags(std::make_shared<CLI::App>(doc, program), nullptr) {
  Declared(app_->set_version_flag("--version", version), "--version");
  app_->failure_message(UsageError);
}

Flags::Flags(std::shared_ptr<CLI::App> app, const Flags* above)
    : app_(std::move(app)), above_(above) {
  Declared(app_->get_help_ptr(), "-h,--help");
}

Flag Flags::Declared(CLI::Option* option, const std::string& name) {
  rows_.push_back(FlagRowOf(*option, name));
  return Flag(option, &rows_.back());
}

Flag Flags::Option(const std::string& name, std::string& value, const std::string& doc) {
  return Declared(app_->add_option(name, value, doc), name);
}

Flag Flags::Option(const std::string& name, std::vector<std::string>& values,
                   const std::string& doc) {
  return Declared(app_->add_option(name, values, doc), name);
}

Flag Flags::Option(const std::string& name, int& value, const std::string& doc) {
  return Declared(app_->add_option(name, value, doc), name);
}

Flag Flags::Option(const std::string& name, uint64_t& value, const std::string& doc) {
  return Declared(app_->add_option(name, value, doc), name);
}

Flag Flags::Option(const std::string& name, double& value, const std::string& doc) {
  return Declared(app_->add_option(name, value, doc), name);
}

Flag Flags::Switch(const std::string& name, bool& value, const std::string& doc) {
  return Declared(app_->add_flag(name, value, doc), name);
}

Flags& Flags::Command(const std::string& name, const std::string& doc) {
  app_->require_subcommand(1);
  const std::shared_ptr<CLI::App> command(app_, app_->add_subcommand(name, doc));
  commands_.push_back(std::unique_ptr<Flags>(new Flags(command, this)));
  return *commands_.back();
}

void Flags::Runs(std::function<int()> action) { action_ = std::move(action); }

CommandRow Flags::Table() const {
  CommandRow table{app_->get_name(),
                   app_->get_name(),
                   app_->get_description(),
                   {rows_.begin(), rows_.end()},
                   {}};
  for (const Flags* above = above_; above != nullptr; above = above->above_)
    table.path = absl::StrCat(above->app_->get_name(), " ", table.path);
  for (const std::unique_ptr<Flags>& command : commands_)
    table.commands.push_back(command->Table());
  return table;
}

CommandRow Flags::ProgramTable() const {
  return above_ == nullptr ? Table() : above_->ProgramTable();
}

const Flags& Flags::Named() const {
  for (const std::unique_ptr<Flags>& command : commands_) {
    if (command->app_->parsed()) return command->Named();
  }
  return *this;
}

int Flags::Run(int argc, char** argv) const {
  try {
    CheckLists(app_.get(), argc, argv);
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return Named().action_();
}

}  // namespace kiln
