// SPDX-License-Identifier: Apache-2.0
#include "kiln/tools/model_kernels.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kiln/base/file_system.h"
#include "kiln/base/status_macros.h"
#include "kiln/compiler/compile.h"
#include "kiln/compiler/program_cache.h"
#include "kiln/compiler/segments.h"
#include "kiln/compiler/variants.h"
#include "kiln/tools/inputs.h"

namespace kiln {
namespace {

constexpr int64_t kMaxShapesBytes = int64_t{16} << 20;

// One set of inputs, shapes only.
absl::StatusOr<std::vector<InputFacts>> FactsFor(const Graph& graph, const CommonOptions& common) {
  KILN_ASSIGN_OR_RETURN(const auto shapes, MakeShapes(graph, common));
  std::vector<InputFacts> facts;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const Value& value = graph.value(graph.inputs()[k]);
    if (CheckedBytes(value.type, shapes[k]) < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("input \"", value.name, "\": its shape is too large"));
    facts.push_back({value.name, true, Tensor::View(nullptr, value.type, shapes[k])});
  }
  return facts;
}

// The flags that a line of the file stands for.
absl::StatusOr<CommonOptions> OptionsOfLine(absl::string_view line, const Graph& graph,
                                            const CommonOptions& common) {
  std::set<std::string> inputs;
  for (const ValueId id : graph.inputs()) inputs.insert(graph.value(id).name);
  CommonOptions options = common;
  for (absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
    const std::string text(word);
    const bool shape = inputs.count(text.substr(0, text.find('='))) != 0;
    (shape ? options.shapes : options.dims).push_back(text);
  }
  return options;
}

absl::StatusOr<std::vector<std::vector<InputFacts>>> VariantsOf(const ModelFlags& flags,
                                                                const Graph& graph,
                                                                const CommonOptions& common) {
  std::vector<std::vector<InputFacts>> variants;
  if (flags.shapes.empty()) {
    KILN_ASSIGN_OR_RETURN(variants.emplace_back(), FactsFor(graph, common));
    return variants;
  }
  KILN_ASSIGN_OR_RETURN(const std::string text,
                        RealFileSystem().ReadFile(flags.shapes, kMaxShapesBytes));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    absl::StatusOr<CommonOptions> options = OptionsOfLine(line, graph, common);
    absl::StatusOr<std::vector<InputFacts>> facts =
        options.ok() ? FactsFor(graph, *options) : options.status();
    if (!facts.ok()) {
      return absl::Status(
          facts.status().code(),
          absl::StrCat("\"", flags.shapes, "\" line ", number, ": ", facts.status().message()));
    }
    variants.push_back(*std::move(facts));
  }
  return variants;
}

}  // namespace

void AddModelFlags(CLI::App& command, ModelFlags& flags) {
  Repeatable(command
                 .add_option("--target", flags.targets,
                             "x86-64-v3 or x86-64-v4 (repeatable; default: this CPU's)")
                 ->check(CLI::IsMember({"x86-64-v3", "x86-64-v4"})));
  command.add_option("--shapes", flags.shapes,
                     "File with one set of inputs a line: NAME=1x3x224x224, DIM=8");
}

absl::StatusOr<std::vector<KernelJob>> KernelsOfModel(const ModelFlags& flags,
                                                      const CommonOptions& common, Store* store,
                                                      std::unique_ptr<PackageWriter>* package) {
  KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(common));
  std::vector<IsaLevel> targets;
  for (const std::string& name : flags.targets)
    targets.push_back(ParseIsaLevel(name).value_or(HostIsa()));
  if (targets.empty()) targets.push_back(HostIsa());
  KILN_ASSIGN_OR_RETURN(const OnnxImport import, ImportModel(flags.model));
  KILN_ASSIGN_OR_RETURN(const auto variants, VariantsOf(flags, import.graph, common));
  const std::vector<PortInfo> inputs = PortInfosOf(import.graph, true);
  const std::vector<PortInfo> outputs = PortInfosOf(import.graph, false);
  if (package != nullptr && HasDynamicNodes(import.graph)) {
    return absl::UnimplementedError(
        "package: models with branches, loops or data-dependent sizes cannot be packed yet; use "
        "--cache-only and ship the model with a kernel pack");
  }
  if (package != nullptr) *package = std::make_unique<PackageWriter>(inputs, outputs, options.math);
  const auto keep = [&](IsaLevel target, const Variant& variant) {
    if (package != nullptr) (*package)->Add(target, variant);
    options.target = target;
    const auto cache = ProgramCache::Open(flags.model, options, *store, [] {});
    if (!cache.ok()) return;  // text graphs have no Programs in the cache
    (*cache)->Keep(variant, inputs, outputs, import);
  };
  if (store == nullptr) return KernelsOf(import.graph, options, targets, variants);
  return KernelsOf(import.graph, options, targets, variants, keep);
}

}  // namespace kiln
