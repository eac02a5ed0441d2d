// SPDX-License-Identifier: Apache-2.0
#include "tools/flags.h"

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/exit_code.h"

namespace kiln {
namespace {

// What was wrong on the command line, and where its flags are told.
std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  std::string message = error.what(), command = app->get_name();
  const CLI::App* deepest = app;
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    command += " " + deepest->get_name();
  }
  const std::vector<std::string> rest = deepest->remaining();
  if (error.get_name() == "RequiredError" && !rest.empty() &&
      !deepest->get_subcommands([](const CLI::App*) { return true; }).empty())
    message = "\"" + rest.front() + "\" is no command";
  return app->get_name() + ": " + message + "; see " + command + " --help\n";
}

// The error of a text that is no number, or one below 0; "" otherwise.
std::string ErrorUnlessNotNegative(const std::string& text) {
  double value = 0;
  if (absl::SimpleAtod(text, &value) && value >= 0) return "";
  return absl::StrCat("is \"", text, "\", expected a number >= 0");
}

}  // namespace

Flag Flag::Required() const {
  option_->required();
  return *this;
}

Flag Flag::Repeatable() const {
  option_->take_all()->allow_extra_args(false);
  return *this;
}

Flag Flag::Values(int count) const {
  option_->expected(count);
  return *this;
}

Flag Flag::Range(int lowest, int highest) const {
  option_->check(CLI::Range(lowest, highest));
  return *this;
}

Flag Flag::OneOf(const std::vector<std::string>& values) const {
  option_->check(CLI::IsMember(values));
  return *this;
}

Flag Flag::NotNegative() const {
  option_->check(CLI::Validator(ErrorUnlessNotNegative, "NUMBER>=0"));
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
  return *this;
}

Flag Flag::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

Flags::Flags(const std::string& program, const std::string& doc, const std::string& version)
    : app_(std::make_shared<CLI::App>(doc, program)) {
  app_->set_version_flag("--version", version);
  app_->failure_message(UsageError);
}

Flag Flags::Option(const std::string& name, std::string& value, const std::string& doc) {
  return Flag(app_->add_option(name, value, doc));
}

Flag Flags::Option(const std::string& name, std::vector<std::string>& values,
                   const std::string& doc) {
  return Flag(app_->add_option(name, values, doc));
}

Flag Flags::Option(const std::string& name, int& value, const std::string& doc) {
  return Flag(app_->add_option(name, value, doc));
}

Flag Flags::Option(const std::string& name, uint64_t& value, const std::string& doc) {
  return Flag(app_->add_option(name, value, doc));
}

Flag Flags::Option(const std::string& name, double& value, const std::string& doc) {
  return Flag(app_->add_option(name, value, doc));
}

Flag Flags::Switch(const std::string& name, bool& value, const std::string& doc) {
  return Flag(app_->add_flag(name, value, doc));
}

Flags& Flags::Command(const std::string& name, const std::string& doc) {
  app_->require_subcommand(1);
  const std::shared_ptr<CLI::App> command(app_, app_->add_subcommand(name, doc));
  commands_.push_back(std::unique_ptr<Flags>(new Flags(command)));
  return *commands_.back();
}

void Flags::Runs(std::function<int()> action) { action_ = std::move(action); }

const Flags& Flags::Named() const {
  for (const std::unique_ptr<Flags>& command : commands_) {
    if (command->app_->parsed()) return command->Named();
  }
  return *this;
}

int Flags::Run(int argc, char** argv) const {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return Named().action_();
}

}  // namespace kiln
