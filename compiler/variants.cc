// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/variants.h"

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/compiler/program_builder.h"
#include "kiln/compiler/specialize.h"
#include "kiln/fusion/pipeline.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

constexpr size_t kMaxVariants = 16;

// Extents of the symbols that stand alone as an input's dim; a symbol with two extents keeps the
// first.
SymbolValues BindSymbols(const std::vector<PortInfo>& ports,
                         const std::vector<InputFacts>& inputs) {
  SymbolValues values;
  for (size_t k = 0; k < ports.size(); ++k) {
    for (size_t axis = 0; axis < ports[k].shape.size(); ++axis) {
      std::set<std::string> symbols;
      ports[k].shape[axis].CollectSymbols(symbols);
      if (symbols.size() != 1 || !(ports[k].shape[axis] == Dim::Symbol(*symbols.begin()))) continue;
      values.emplace(*symbols.begin(), inputs[k].tensor.shape()[axis]);
    }
  }
  return values;
}

absl::Status CheckPort(const PortInfo& port, const InputFacts& input) {
  if (input.tensor.dtype() != port.type) {
    return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": is ",
                                                   Name(input.tensor.dtype()), ", expected ",
                                                   Name(port.type)));
  }
  if (input.tensor.shape().size() != port.shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": has rank ",
                                                   input.tensor.shape().size(), ", expected ",
                                                   port.shape.size(), " ", ToString(port.shape)));
  }
  for (size_t axis = 0; axis < port.shape.size(); ++axis) {
    const std::optional<int64_t> wanted = port.shape[axis].constant();
    const int64_t got = input.tensor.shape()[axis];
    if (wanted.has_value() && *wanted != got) {
      return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": dim ", axis,
                                                     " is ", got, ", expected ", *wanted));
    }
  }
  return absl::OkStatus();
}

// Whether the input that `guard` names has the bytes that it names.
bool HoldsValue(const Guard& guard, const std::vector<InputFacts>& inputs) {
  for (const InputFacts& input : inputs) {
    if (input.name != guard.input) continue;
    const Tensor dense = input.tensor.is_dense() ? input.tensor : input.tensor.Clone();
    return static_cast<size_t>(dense.size_bytes()) == guard.bytes.size() &&
           std::memcmp(dense.data(), guard.bytes.data(), guard.bytes.size()) == 0;
  }
  return false;
}

// Whether the extents fit the shapes of `variant`'s ports and all its guards; `broken` tells the
// first guard that does not hold.
bool Fits(const Variant& variant, const std::vector<InputFacts>& inputs, const Guard** broken) {
  *broken = nullptr;
  SymbolValues values;
  for (int k = 0; k < variant.program.inputs_size(); ++k) {
    const program::Port& port = variant.program.inputs(k);
    for (int axis = 0; axis < port.shape_size(); ++axis) {
      const int64_t got = inputs[static_cast<size_t>(k)].tensor.shape()[static_cast<size_t>(axis)];
      const absl::StatusOr<Dim> dim = Dim::Parse(port.shape(axis));
      if (!dim.ok()) return false;
      if (dim->constant().has_value()) {
        if (*dim->constant() != got) return false;
        continue;
      }
      const auto [at, fresh] = values.emplace(port.shape(axis), got);
      if (!fresh && at->second != got) return false;
    }
  }
  for (const Guard& guard : variant.guards) {
    if (guard.kind == Guard::Kind::kValue) {
      if (!HoldsValue(guard, inputs)) return false;
      continue;
    }
    const absl::StatusOr<bool> holds = guard.Holds(values);
    if (holds.ok() && *holds) continue;
    *broken = &guard;
    return false;
  }
  return true;
}

std::vector<PortInfo> Ports(const Graph& graph, bool inputs) {
  std::vector<PortInfo> ports;
  const auto add = [&](const std::string& name, ValueId id) {
    ports.push_back({name, graph.value(id).type, graph.value(id).shape, false});
  };
  if (inputs) {
    for (ValueId id : graph.inputs()) add(graph.value(id).name, id);
  } else {
    for (const Graph::Output& output : graph.outputs()) add(output.name, output.value);
  }
  return ports;
}

}  // namespace

absl::StatusOr<Compiled> CompileGraph(const Graph& graph, const CompileOptions& options) {
  Compiled compiled;
  compiled.graph = graph;
  PipelineOptions passes;
  passes.level = options.graph_opt_level;
  passes.disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  if (options.dump) {
    options.dump("graph", "imported", Print(graph));
    passes.on_changed = [&](absl::string_view pass, const Graph& g) {
      options.dump("graph", std::string(pass), Print(g));
    };
  }
  KILN_RETURN_IF_ERROR(RunPasses(compiled.graph, passes));
  const GroupOptions grouping{.level = options.graph_opt_level,
                              .jit_level = options.jit_level,
                              .rules = options.fusion_rules,
                              .alone = {options.no_fuse.begin(), options.no_fuse.end()}};
  KILN_ASSIGN_OR_RETURN(compiled.grouping, FormGroups(compiled.graph, grouping));
  if (options.dump) options.dump("groups", "groups", ToString(compiled.grouping, compiled.graph));
  const IsaLevel target = options.target.value_or(HostIsa());
  KILN_ASSIGN_OR_RETURN(BuiltProgram built,
                        BuildProgram(compiled.graph, compiled.grouping, target, options.dump));
  compiled.variant.guards = compiled.graph.guards();
  compiled.variant.program = std::move(built.program);
  compiled.variant.constants = std::move(built.constants);
  return compiled;
}

Variants::Variants(Graph graph, CompileOptions options, std::shared_ptr<KernelService> kernels)
    : template_(std::move(graph)),
      options_(std::move(options)),
      kernels_(std::move(kernels)),
      inputs_(Ports(template_, true)),
      outputs_(Ports(template_, false)) {}

absl::StatusOr<std::shared_ptr<const Variant>> Variants::WithKernels(Variant compiled) {
  auto variant = std::make_shared<Variant>(std::move(compiled));
  KILN_ASSIGN_OR_RETURN(variant->kernels, kernels_->GetAll(variant->program));
  return variant;
}

absl::Status Variants::Prepare() {
  absl::MutexLock lock(&mutex_);
  if (!variants_.empty()) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(template_, options_));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> first,
                        WithKernels(std::move(compiled.variant)));
  variants_.push_front(std::move(first));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Variant>> Variants::MakeFor(
    const std::vector<InputFacts>& inputs) {
  const SymbolValues values = BindSymbols(inputs_, inputs);
  std::map<std::string, Dim> fixed;
  while (true) {
    std::vector<Shape> shapes;
    for (const PortInfo& port : inputs_) {
      Shape shape;
      for (const Dim& extent : port.shape) shape.push_back(extent.Substitute(fixed));
      shapes.push_back(std::move(shape));
    }
    KILN_ASSIGN_OR_RETURN(const Graph graph, WithInputShapes(template_, shapes));
    KILN_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(graph, options_));
    const Guard* broken = nullptr;
    if (Fits(compiled.variant, inputs, &broken)) return WithKernels(std::move(compiled.variant));
    std::set<std::string> symbols;
    if (broken != nullptr) {
      broken->left.CollectSymbols(symbols);
      broken->right.CollectSymbols(symbols);
    }
    const size_t known = fixed.size();
    for (const std::string& symbol : symbols) {
      if (const auto at = values.find(symbol); at != values.end())
        fixed.emplace(symbol, Dim(at->second));
    }
    if (fixed.size() == known) break;
  }
  // Inputs that share a symbol disagree: every extent is what it is.
  std::vector<Shape> shapes;
  for (const InputFacts& input : inputs) shapes.push_back(ToShape(input.tensor.shape()));
  absl::StatusOr<Graph> graph = WithInputShapes(template_, shapes);
  if (!graph.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shapes of the inputs do not go together: ", graph.status().message()));
  }
  KILN_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(*graph, options_));
  return WithKernels(std::move(compiled.variant));
}

absl::StatusOr<std::shared_ptr<const Variant>> Variants::Get(
    const std::vector<InputFacts>& inputs) {
  for (size_t k = 0; k < inputs_.size(); ++k)
    KILN_RETURN_IF_ERROR(CheckPort(inputs_[k], inputs[k]));
  KILN_RETURN_IF_ERROR(Prepare());
  absl::MutexLock lock(&mutex_);
  for (auto it = variants_.begin(); it != variants_.end(); ++it) {
    const Guard* broken = nullptr;
    if (!Fits(**it, inputs, &broken)) continue;
    variants_.splice(variants_.begin(), variants_, it);
    return variants_.front();
  }
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> variant, MakeFor(inputs));
  variants_.push_front(std::move(variant));
  if (variants_.size() > kMaxVariants) variants_.pop_back();
  return variants_.front();
}

}  // namespace kiln
