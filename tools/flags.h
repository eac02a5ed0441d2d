// SPDX-License-Identifier: Apache-2.0
// The command line: commands, their flags, and the one action that runs. A library parses, which
// flags.cc alone includes; a source that declares flags compiles none of it.
//
//   struct Settings { std::string model; int level = 3; std::vector<std::string> inputs; };
//
//   Flags program("kiln", "Fuses tensor programs", "kiln 0.1.0");
//   Flags& run = program.Command("run", "Run a model once");
//   auto settings = std::make_shared<Settings>();
//   run.Option("MODEL", settings->model, "ONNX file").Required();
//   run.Option("-O", settings->level, "Level").Range(0, 3).ShowDefault();
//   run.Option("--input", settings->inputs, "Value of an input (repeatable)").Repeatable();
//   run.Runs([settings] { return RunModel(*settings); });
//   return program.Run(argc, argv);
//
//   $ kiln run m.onnx -O 2 --input x=zeros      # RunModel, and its exit code
//   $ kiln run --help                           # what was declared, in that order; exit 0
//   $ kiln run m.onnx -O 7                      # exit 2, and on stderr:
//   kiln: -O: Value 7 not in range 0 to 3; see kiln run --help
//   $ kiln rn m.onnx                            # the nearest name, where one is near
//   kiln: no verb "rn"; did you mean "run"?
//
// A name is "--long", "-s" or, of what stands by its place, "NAME"; "-o,--output" are two names of
// one flag. Values are written by Run, so they must live as long as the Flags: an action that holds
// them, as above, sees to that.
#ifndef KILN_TOOLS_FLAGS_H_
#define KILN_TOOLS_FLAGS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/command_table.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kiln {

// One flag that was declared: what may be said of it further. Copies are the same flag.
class Flag {
 public:
  // Who leaves it out is told so.
  Flag Required() const;
  // It may be given several times, with one value each: what follows the value is not its.
  Flag Repeatable() const;
  // The same, and a value may be several, with commas between them.
  Flag List() const;
  // It has so many values.
  Flag Values(int count) const;

  // What its value must be. The help names it.
  Flag Range(int lowest, int highest) const;
  Flag OneOf(const std::vector<std::string>& values) const;
  Flag NotNegative() const;
  // Its value is the path of a file, or of a directory.
  Flag File() const;
  Flag Directory() const;

  // Given with the other flag only, or without it only.
  Flag Needs(const Flag& other) const;
  Flag Excludes(const Flag& other) const;

  // The variable of the environment that is read where the flag is not given.
  Flag Environment(const std::string& variable) const;
  // The help shows the value that the flag has at this call.
  Flag ShowDefault() const;

 private:
  friend class Flags;
  Flag(CLI::Option* option, FlagRow* row) : option_(option), row_(row) {}

  CLI::Option* option_;
  FlagRow* row_;
};

// The flags of one command, and the commands below it. Not thread-safe.
class Flags {
 public:
  // The program itself; --version prints `version`.
  Flags(const std::string& program, const std::string& doc, const std::string& version);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // A flag with a value, or with several in a vector. `value` is the default; `doc` is its line in
  // the help.
  Flag Option(const std::string& name, std::string& value, const std::string& doc);
  Flag Option(const std::string& name, std::vector<std::string>& values, const std::string& doc);
  Flag Option(const std::string& name, int& value, const std::string& doc);
  Flag Option(const std::string& name, uint64_t& value, const std::string& doc);
  Flag Option(const std::string& name, double& value, const std::string& doc);
  // A flag that is there or not.
  Flag Switch(const std::string& name, bool& value, const std::string& doc);

  // A command below this one, of which one must then be named. It lives as long as this.
  Flags& Command(const std::string& name, const std::string& doc);
  // What Run does where this command is named, none below it; gives the exit code.
  void Runs(std::function<int()> action);

  // What was declared of this command and of those below it; and of the whole program.
  CommandRow Table() const;
  CommandRow ProgramTable() const;

  // Of the program: parses the command line, runs the action of the command that it names, and
  // gives its exit code. --help and --version print what they say, and are kExitOk; what is wrong
  // is told on stderr, and is kExitUsage.
  int Run(int argc, char** argv) const;

 private:
  Flags(std::shared_ptr<CLI::App> app, const Flags* above);
  Flag Declared(CLI::Option* option, const std::string& name);
  // The command that was named: this, or one below.
  const Flags& Named() const;

  std::shared_ptr<CLI::App> app_;  // the program's owns those of its commands
  const Flags* above_;             // null: this is the program
  std::deque<FlagRow> rows_;
  std::vector<std::unique_ptr<Flags>> commands_;
  std::function<int()> action_;
};

}  // namespace kiln

#endif  // KILN_TOOLS_FLAGS_H_
