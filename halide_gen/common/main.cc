// SPDX-License-Identifier: Apache-2.0
// kiln-codegen: the worker process that turns Kernels into code. Without arguments it serves
// requests (protocol.h); with
// --compile it compiles one file, for people.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/target.h"
#include "halide_gen/common/backend.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/worker.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"

namespace kiln {
namespace {

struct Arguments {
  std::string file, schedule, target = "x86-64-v3", out = ".";
  std::vector<int64_t> at_most;
  std::vector<std::string> without;
};

int Fail(absl::string_view error) {
  std::fprintf(stderr, "kiln-codegen: %s\n", std::string(error).c_str());
  return 1;
}

// The schedule that the compiler would choose knowing no more of the extents than `at_most`.
absl::StatusOr<std::string> DefaultSchedule(const std::string& text, const std::string& target,
                                            const std::vector<int64_t>& at_most) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(text);
  if (!kernel.ok()) return kernel.status();
  const Target made_for = Target::Parse(target).value_or(LowestTarget());
  const Decision accepted = AcceptsKernel(*kernel, made_for);
  if (!accepted) return absl::UnimplementedError(accepted.reason());
  SizeClass known{std::vector<int64_t>(kernel->dims.size(), kUnbounded)};
  std::copy_n(at_most.begin(), std::min(at_most.size(), known.at_most.size()),
              known.at_most.begin());
  return ChooseSchedule(*kernel, known, ShippedMachine(made_for)).ToString();
}

int CompileFile(const Arguments& arguments) {
  const auto text = ReadBytes(arguments.file);
  if (!text.ok()) return Fail(text.status().message());
  CodegenRequest request{.kernel = *text,
                         .schedule = arguments.schedule,
                         .target = arguments.target,
                         .sections = {},
                         .without = arguments.without};
  for (const Backend* backend : AllBackends()) {
    if (backend->device == Target::Parse(arguments.target).value_or(LowestTarget()).device)
      request.sections.assign(backend->files.begin(), backend->files.end());
  }
  if (request.schedule.empty()) {
    const auto schedule = DefaultSchedule(*text, arguments.target, arguments.at_most);
    if (!schedule.ok()) return Fail(schedule.status().message());
    request.schedule = *schedule;
  }
  const CodegenAnswer answer = Serve(request);
  if (answer.outcome != CodegenAnswer::Outcome::kOk) return Fail(answer.error);
  const std::filesystem::path stem =
      std::filesystem::path(arguments.out) / std::filesystem::path(arguments.file).stem();
  for (const auto& [name, bytes] : answer.sections) {
    const std::string extension = name == "elf" ? "so" : name == "asm" ? "s" : name;
    const absl::Status status = WriteBytes(stem.string() + "." + extension, bytes);
    if (!status.ok()) return Fail(status.message());
  }
  std::printf("schedule: %s\nisa: %s\nms: %u\n", answer.schedule.c_str(), answer.isa.c_str(),
              answer.wall_ms);
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Turns Kiln kernels into code. Without options: serves requests on stdin and stdout.");
  Arguments arguments;
  const CodegenHello hello = Hello();
  app.set_version_flag("--version", "kiln-codegen " + hello.build_id + "\n" + hello.compiler);
  app.add_option(
         "--compile", arguments.file,
         "a .kernel file: writes NAME.so, NAME.stmt and NAME.s, or NAME.ptx and NAME.launch")
      ->type_name("FILE");
  app.add_option("--schedule", arguments.schedule, "as \"row_reduction step=16\"; default: chosen")
      ->type_name("S");
  app.add_option("--target", arguments.target, "x86-64-v3 (default), x86-64-v4, cuda-sm80, ...")
      ->type_name("T");
  app.add_option("--at-most", arguments.at_most,
                 "what the extents of the dims cannot exceed, as 4096,1024; default: unknown")
      ->type_name("N,...")
      ->delimiter(',');
  app.add_option("--without", arguments.without,
                 "lowering passes that do not run, to measure what they earn")
      ->type_name("PASS,...")
      ->delimiter(',');
  app.add_option("-o", arguments.out, "where the files go (default: here)")->type_name("DIR");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  ScrubEnvironment();
  ScratchDir::RemoveThoseLeftBehind();
  return arguments.file.empty() ? ServeAll(arguments.without) : CompileFile(arguments);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }
