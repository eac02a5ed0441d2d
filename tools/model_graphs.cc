// SPDX-License-Identifier: Apache-2.0
#include "tools/model_graphs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "compiler/const_shapes.h"
#include "compiler/segments.h"
#include "compiler/variants.h"
#include "tools/flags.h"
#include "tools/inputs.h"

namespace kiln {
namespace {

using Line = InputLine;

// The flags that a line of the file stands for.
void AddWords(absl::string_view text, const Graph& graph, Line& line) {
  std::set<std::string> inputs;
  for (const ValueId id : graph.inputs()) inputs.insert(graph.value(id).name);
  for (absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
    const std::pair<std::string, std::string> named = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const bool value = !named.second.empty() && !absl::ascii_isdigit(named.second[0]);
    const bool input = inputs.count(named.first) != 0;
    (!input ? line.common.dims : value ? line.values : line.common.shapes).emplace_back(word);
  }
}

absl::StatusOr<std::vector<InputInfo>> InfoOf(const Line& line, const Graph& graph) {
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, MakeShapes(graph, line.values, line.common));
  std::vector<InputInfo> info;
  for (size_t k = 0; k < tensors.size(); ++k)
    info.push_back({graph.value(graph.inputs()[k]).name, true, std::move(tensors[k])});
  return info;
}

// What a run with these inputs imports: for their shapes, if these are needed; where `closed`, for
// them if all are given. No dim that is needed is made up.
absl::StatusOr<std::shared_ptr<const OnnxImport>> ImportFor(const Line& line,
                                                            const ModelSource& source,
                                                            bool closed) {
  if (!source.needs_inputs() && !closed) return source.import();
  const absl::Status all_given = AllShapesGiven(source.graph(), line.values, line.common);
  if (all_given.ok()) {
    KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, InfoOf(line, source.graph()));
    std::map<std::string, Tensor> named;
    for (const InputInfo& input : info) named.emplace(input.name, input.tensor);
    return closed ? source.ForShapes(named) : source.For(named);
  }
  if (!absl::IsUnimplemented(all_given)) return all_given;
  KILN_ASSIGN_OR_RETURN(const auto values, MakeValues(source.graph(), line.values, line.common));
  auto import = source.For(values);
  if (!absl::IsUnimplemented(import.status())) return import;
  const std::vector<std::string>& needed = source.import()->value_inputs;
  const bool lacks_value = std::any_of(needed.begin(), needed.end(), [&](const std::string& name) {
    return values.count(name) == 0;
  });
  return lacks_value ? import.status() : all_given;
}

absl::StatusOr<GraphForInputs> GraphFor(absl::Span<const Line> lines, const ModelSource& source,
                                        const CompileOptions& options, bool closed) {
  GraphForInputs made{source.import(), {}, {}, lines};
  for (const Line& line : lines) {
    auto import = ImportFor(line, source, closed);
    if (!import.ok()) return line.At(import.status());
    auto info = InfoOf(line, source.graph());
    if (!info.ok()) return line.At(info.status());
    made.import = *std::move(import);
    made.inputs.push_back(*std::move(info));
  }
  KILN_ASSIGN_OR_RETURN(made.graph, WithConstShapes(made.import->graph, options.const_shapes));
  return made;
}

}  // namespace

void AddInputFlags(Flags& command, ModelFlags& flags) {
  command
      .Option("--shapes", flags.shapes,
              "File with one set of inputs a line: NAME=1x3x224x224, DIM=8, NAME=@a.npy")
      .File();
  command
      .Option("--input", flags.inputs,
              "Value of an input that decides the model's structure, as for run "
              "(repeatable)")
      .Repeatable();
}

void AddModelFlags(Flags& command, ModelFlags& flags) {
  command
      .Option("--target", flags.targets,
              "What the code is for (repeatable; default: that of --device)")
      .OneOf(TargetNames())
      .List();
  AddInputFlags(command, flags);
}

absl::Status InputLine::At(const absl::Status& status) const {
  return where.empty() ? status
                       : absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

absl::StatusOr<std::vector<InputLine>> InputLines(const ModelFlags& flags, const Graph& graph,
                                                  const CommonOptions& common) {
  if (flags.shapes.empty()) return std::vector<InputLine>{{common, flags.inputs, ""}};
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        RealFileSystem().ReadFile(flags.shapes, kMaxShapesBytes));
  std::vector<InputLine> lines;
  int number = 0;
  for (absl::string_view words : absl::StrSplit(text, '\n')) {
    ++number;
    words = words.substr(0, words.find('#'));
    if (absl::StripAsciiWhitespace(words).empty()) continue;
    lines.push_back({common, flags.inputs, absl::StrCat("\"", flags.shapes, "\" line ", number)});
    AddWords(words, graph, lines.back());
  }
  return lines;
}

absl::StatusOr<ModelPorts> PortsOf(const ModelSource& source, const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(std::vector<PortInfo> inputs,
                        WithConstShapes(source.inputs(), options.const_shapes));
  std::vector<PortInfo> outputs = source.outputs();
  if (!options.const_shapes.empty() && !source.needs_inputs()) {
    KILN_ASSIGN_OR_RETURN(const Graph graph, WithConstShapes(source.graph(), options.const_shapes));
    outputs = PortInfosOf(graph, /*inputs=*/false);
  }
  return ModelPorts{std::move(inputs), std::move(outputs)};
}

std::vector<Target> TargetsNamed(const ModelFlags& flags) {
  std::vector<Target> targets;
  for (const std::string& name : flags.targets)
    targets.push_back(Target::Parse(name).value_or(HostTarget()));
  return targets;
}

std::vector<Target> TargetsOf(const ModelFlags& flags, const CompileOptions& options) {
  std::vector<Target> targets = TargetsNamed(flags);
  if (targets.empty()) targets.push_back(TargetOf(options));
  return targets;
}

absl::Status ForEachGraph(const ModelFlags& flags, const CommonOptions& common,
                          const ModelSource& source, const CompileOptions& options, bool closed,
                          const std::function<absl::Status(const GraphForInputs&)>& see) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Line> lines, InputLines(flags, source.graph(), common));
  closed = closed && HasDynamicNodes(source.graph());
  // Where lines need imports of their own, one is there at a time.
  std::vector<absl::Span<const Line>> rounds;
  const bool apart = source.needs_inputs() || closed;
  if (!apart) rounds.push_back(lines);
  for (const Line& line : lines) {
    if (apart) rounds.push_back(absl::MakeConstSpan(&line, 1));
  }
  for (const absl::Span<const Line> round : rounds) {
    KILN_ASSIGN_OR_RETURN(const GraphForInputs made, GraphFor(round, source, options, closed));
    KILN_RETURN_IF_ERROR(see(made));
  }
  return absl::OkStatus();
}

}  // namespace kiln
