// SPDX-License-Identifier: Apache-2.0
// kiln opt: runs named passes over a graph and prints what they leave.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "fusion/pipeline.h"
#include "graph/text.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct OptFlags {
  CommonOptions common;
  std::string file, passes, dump_dir;
  bool list = false;
};

int ListPasses(const OptFlags& flags) {
  std::vector<std::vector<std::string>> rows = {{"pass", "level", "what it does"}};
  nlohmann::json list = nlohmann::json::array();
  for (const Pass& pass : AllPasses()) {
    rows.push_back({pass.name, absl::StrCat(pass.level), pass.doc});
    list.push_back({{"pass", pass.name}, {"level", pass.level}, {"doc", pass.doc}});
  }
  if (flags.common.json) {
    PrintJson("opt", flags.common, {{"passes", list}});
  } else {
    std::cout << Table(rows);
  }
  return kExitOk;
}

// Writes what pass number `step` left.
absl::Status Dump(const std::string& dir, size_t step, const Pass& pass, const Graph& graph) {
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  const auto path = std::filesystem::path(dir) / absl::StrCat(step, ".", pass.name, ".graph");
  if (!failed && (std::ofstream(path) << Print(graph)).flush()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("--dump-dir \"", dir, "\": cannot write \"", path.string(), "\""));
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const OnnxImportOptions& options) {
  KILN_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Read(path, options));
  if (!source.needs_inputs()) return source.graph();
  return ImportOnnx(path, options).status();  // says what they are needed for
}

int RunOpt(const OptFlags& flags) {
  if (flags.list) return ListPasses(flags);
  if (flags.file.empty())
    return Fail(absl::InvalidArgumentError("FILE: is missing; or use --list-passes"), kExitUsage);
  std::vector<const Pass*> passes;
  for (const absl::string_view name : absl::StrSplit(flags.passes, ',', absl::SkipEmpty())) {
    passes.push_back(FindPass(name));
    if (passes.back() != nullptr) continue;
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    "pass \"", name, "\": there is none of that name; see kiln opt --list-passes",
                    DidYouMeanPass(name))),
                kExitUsage);
  }
  const absl::StatusOr<CompileOptions> options = ToReadingOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  absl::StatusOr<Graph> graph = ReadGraph(flags.file, ImportOptionsOf(*options));
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  nlohmann::json changed = nlohmann::json::array();
  for (size_t i = 0; i < passes.size(); ++i) {
    const absl::StatusOr<bool> result = RunPass(*passes[i], *graph, {});
    if (!result.ok()) return Fail(result.status(), ModelExit(result.status()));
    changed.push_back({{"pass", passes[i]->name}, {"changed", *result}});
    if (flags.dump_dir.empty()) continue;
    const absl::Status written = Dump(flags.dump_dir, i, *passes[i], *graph);
    if (!written.ok()) return Fail(written, kExitIo);
  }
  if (flags.common.json) {
    PrintJson("opt", flags.common, {{"passes", changed}, {"graph", Print(*graph)}});
  } else {
    std::cout << Print(*graph);
  }
  return kExitOk;
}

}  // namespace

void AddOpt(Flags& command) {
  auto flags = std::make_shared<OptFlags>();
  command.Option("FILE", flags->file, "ONNX file, or .graph text").File();
  command.Option("--passes", flags->passes, "Names in the order to run, separated by commas");
  command.Option("--dump-dir", flags->dump_dir, "Also write the graph after each pass there")
      .Directory();
  command.Switch("--list-passes", flags->list, "List all passes, in their usual order");
  AddReadingFlags(command, flags->common);
  AddOutputFlags(command, flags->common);
  command.Runs([flags] { return RunOpt(*flags); });
}

}  // namespace kiln
