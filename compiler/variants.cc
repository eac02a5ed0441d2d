// SPDX-License-Identifier: Apache-2.0
#include "compiler/variants.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "compiler/check_options.h"
#include "compiler/compile_graph.h"
#include "compiler/output_ports.h"
#include "compiler/program_builder.h"
#include "compiler/segments.h"
#include "exec/checked_program.h"
#include "exec/fits.h"
#include "exec/symbols.h"
#include "graph/open_extents.h"
#include "graph/rebuild.h"

namespace kiln {
namespace {

// Values of the symbols that stand alone as an extent or an element of an input; a symbol with two
// values keeps the first.
SymbolValues KnownSymbols(const Graph& graph, const std::vector<InputInfo>& inputs) {
  SymbolValues values;
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    const Value& input = graph.value(graph.inputs()[k]);
    for (size_t axis = 0; axis < input.shape.size(); ++axis) {
      if (const std::string symbol = SymbolOf(input.shape[axis]); !symbol.empty())
        values.emplace(symbol, inputs[k].tensor.shape()[axis]);
    }
    if (!input.shape_content || inputs[k].tensor.data() == nullptr) continue;
    const std::vector<int64_t> elements = IntElements(inputs[k].tensor);
    for (size_t i = 0; i < elements.size() && i < input.shape_content->size(); ++i) {
      if (const std::string symbol = SymbolOf((*input.shape_content)[i]); !symbol.empty())
        values.emplace(symbol, elements[i]);
    }
  }
  return values;
}

// With what is known of the symbols for the measurements of kernels.
CompileOptions TunedAt(CompileOptions options, const Graph& graph,
                       const std::vector<InputInfo>& inputs) {
  if (options.tuner == nullptr) return options;
  for (const auto& [symbol, value] : KnownSymbols(graph, inputs))
    options.tune_at.emplace(symbol, value);
  return options;
}

}  // namespace

std::string ShapesText(const std::vector<InputInfo>& inputs) {
  std::string text;
  for (const InputInfo& input : inputs)
    absl::StrAppend(&text, input.present ? absl::StrJoin(input.tensor.shape(), ",") : "-", ";");
  return text;
}

absl::Status NamingInputs(const absl::Status& status, const std::vector<PortInfo>& ports,
                          const std::vector<InputInfo>& inputs) {
  if (status.ok()) return status;
  std::vector<std::string> info;
  for (size_t k = 0; k < ports.size() && k < inputs.size(); ++k) {
    const std::vector<int64_t>& shape = inputs[k].tensor.shape();
    for (size_t axis = 0; axis < ports[k].shape.size() && axis < shape.size(); ++axis) {
      if (ports[k].shape[axis].constant()) continue;
      info.push_back(
          absl::StrCat("input \"", ports[k].name, "\": dim ", axis, " is ", shape[axis]));
    }
  }
  if (info.empty()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; ", absl::StrJoin(info, ", ")));
}

std::vector<PortInfo> PortInfosOf(const Graph& graph, bool inputs) {
  if (!inputs) return OutputPorts(graph);
  std::vector<PortInfo> ports;
  for (const ValueId id : graph.inputs())
    ports.push_back({graph.value(id).name, graph.value(id).type, graph.value(id).shape, false});
  return ports;
}

namespace {

// Makes a variant with as few symbols fixed as possible, so that it fits the inputs.
template <typename Make>
absl::StatusOr<Variant> MakeFitting(const Graph& graph, const std::vector<InputInfo>& inputs,
                                    const Make& make) {
  const SymbolValues values = KnownSymbols(graph, inputs);
  std::map<std::string, Dim> fixed;
  absl::Status failed;
  while (true) {
    const absl::StatusOr<Graph> narrowed = WithSymbols(graph, fixed);
    absl::StatusOr<Variant> compiled = narrowed.ok() ? make(*narrowed) : narrowed.status();
    std::set<std::string> symbols;
    if (compiled.ok()) {
      const Guard* broken = nullptr;
      if (Fits(*compiled, inputs, &broken)) return compiled;
      if (broken != nullptr) {
        symbols.merge(broken->Symbols());
      }
    } else {
      // What is assumed of the symbols that are left may be what fails: all become numbers.
      failed = compiled.status();
      for (const auto& [symbol, value] : values) symbols.insert(symbol);
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
  for (const InputInfo& input : inputs) shapes.push_back(ToShape(input.tensor.shape()));
  absl::StatusOr<Graph> fixed_graph = WithInputShapes(graph, shapes);
  if (!fixed_graph.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the shapes of the inputs do not go together: ",
                                                   fixed_graph.status().message()));
  }
  KILN_ASSIGN_OR_RETURN(Variant compiled, make(*fixed_graph));
  const Guard* broken = nullptr;
  const bool elements_known =
      std::none_of(inputs.begin(), inputs.end(), [](const InputInfo& input) {
        return input.tensor.data() == nullptr && input.tensor.num_elements() > 0;
      });
  if (Fits(compiled, inputs, &broken) || !elements_known) return compiled;
  if (!failed.ok()) return failed;
  return absl::InvalidArgumentError(absl::StrCat("the inputs do not fit what the model assumes",
                                                 broken == nullptr ? "" : ": ",
                                                 broken == nullptr ? "" : broken->ToString()));
}

}  // namespace

absl::StatusOr<Variant> CompileFor(const Graph& graph, const CompileOptions& options,
                                   const std::vector<InputInfo>& inputs) {
  const std::vector<PortInfo> ports = PortInfosOf(graph, true);
  for (size_t k = 0; k < ports.size(); ++k) KILN_RETURN_IF_ERROR(CheckPort(ports[k], inputs[k]));
  const CompileOptions tuned = TunedAt(options, graph, inputs);
  return MakeFitting(graph, inputs, [&](const Graph& narrowed) -> absl::StatusOr<Variant> {
    KILN_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(narrowed, tuned));
    return std::move(compiled.variant);
  });
}

Variants::Variants(Graph graph, CompileOptions options, std::shared_ptr<KernelService> kernels,
                   std::vector<Tensor> updatable)
    : template_(std::move(graph)),
      options_(WithTuner(std::move(options), kernels->store())),
      kernels_(std::move(kernels)),
      inputs_(PortInfosOf(template_, true)),
      outputs_(PortInfosOf(template_, false)),
      updatable_(std::move(updatable)),
      constants_(template_, updatable_) {}

namespace {

// Guards of a graph and of the bodies within it about what its inputs tell: the parts of a script
// take over what was inferred under them. What a run finds out besides is the parts' own matter; a
// guard about both is here for the values that no part has: inputs may tell that it never holds
// (Fits).
void AddInputGuards(const Graph& whole, const Graph& graph, std::vector<Guard>& guards) {
  const std::set<std::string> known = ToldByInputs(whole);
  for (const Guard& guard : graph.guards()) {
    const std::set<std::string> symbols = guard.Symbols();
    const bool told = symbols.empty() ||
                      std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
                        return known.count(symbol) > 0;
                      });
    if (told && std::find(guards.begin(), guards.end(), guard) == guards.end())
      guards.push_back(guard);
  }
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, value] : node.attrs) {
      if (const Body* body = std::get_if<Body>(&value)) AddInputGuards(whole, **body, guards);
    }
  }
}

}  // namespace

absl::StatusOr<Variant> Variants::CompileVariant(const Graph& graph,
                                                 const CompileOptions& options) {
  if (!HasDynamicNodes(graph)) {
    KILN_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(graph, options));
    return std::move(compiled.variant);
  }
  Variant variant;
  variant.program = PortsOf(graph);
  AddInputGuards(graph, graph, variant.guards);
  KILN_ASSIGN_OR_RETURN(
      variant.script,
      BuildScript(graph, [&](Graph part) -> absl::StatusOr<std::shared_ptr<VariantProvider>> {
        auto made = std::make_shared<Variants>(std::move(part), options_, kernels_);
        KILN_RETURN_IF_ERROR(made->Prepare());
        made->FinishKernels();
        return std::shared_ptr<VariantProvider>(std::move(made));
      }));
  return variant;
}

// What the worker makes of the kernels. One that it cannot build has nothing to show.
void Variants::DumpCode(const program::Program& program) const {
  for (int k = 0; k < program.kernels_size(); ++k) {
    for (int choice = 0; choice < program.kernels(k).choices_size(); ++choice) {
      const std::string& schedule = program.kernels(k).choices(choice).schedule();
      const auto answer = kernels_->Emit(kernels_->Identify(program.kernels(k).text(), schedule),
                                         {"ir", "stmt", "asm"});
      if (!answer.ok()) continue;
      for (const auto& [stage, text] : answer->sections) {
        options_.dump(stage, absl::StrCat("kernel", k, ".", choice), text);
      }
    }
  }
}

absl::StatusOr<std::shared_ptr<const Variant>> Variants::WithKernels(Variant compiled,
                                                                     bool finished) {
  auto variant = std::make_shared<Variant>(std::move(compiled));
  KILN_ASSIGN_OR_RETURN(variant->kernels, finished ? kernels_->GetAll(variant->program)
                                                   : kernels_->StartAll(variant->program));
  if (options_.dump && options_.dump_code) DumpCode(variant->program);
  return variant;
}

absl::Status Variants::Prepare() {
  const KeyedMutexLock<std::string> making(making_, "");
  {
    const MutexLock lock(mutex_);
    if (!variants_.empty() || waits_) return absl::OkStatus();
  }
  absl::StatusOr<Variant> compiled = CompileVariant(template_, options_);
  const bool waits = IsOfOpenExtents(compiled.status());
  if (!compiled.ok() && !waits) return compiled.status();
  std::shared_ptr<const Variant> first;
  if (!waits) {
    KILN_ASSIGN_OR_RETURN(first, WithKernels(*std::move(compiled), /*finished=*/false));
  }
  const MutexLock lock(mutex_);
  waits_ = waits;
  if (first != nullptr) variants_.push_front(std::move(first));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Variant>> Variants::MakeFor(
    const std::vector<InputInfo>& inputs) {
  const CompileOptions options = TunedAt(options_, template_, inputs);
  absl::StatusOr<Variant> compiled = MakeFitting(
      template_, inputs, [&](const Graph& graph) { return CompileVariant(graph, options); });
  if (!compiled.ok()) return NamingInputs(compiled.status(), inputs_, inputs);
  return WithKernels(*std::move(compiled), /*finished=*/true);
}

void Variants::FinishKernels() {
  std::vector<std::shared_ptr<const Variant>> variants;
  {
    const MutexLock lock(mutex_);
    variants.assign(variants_.begin(), variants_.end());
  }
  for (const std::shared_ptr<const Variant>& variant : variants) kernels_->Finish(variant->program);
}

std::vector<std::shared_ptr<const Variant>> Variants::Known() const {
  const MutexLock lock(mutex_);
  return {variants_.rbegin(), variants_.rend()};
}

std::shared_ptr<const Variant> Variants::Find(const std::vector<InputInfo>& inputs) {
  const MutexLock lock(mutex_);
  for (auto it = variants_.begin(); it != variants_.end(); ++it) {
    const Guard* broken = nullptr;
    if (!Fits(**it, inputs, &broken)) continue;
    variants_.splice(variants_.begin(), variants_, it);
    return variants_.front();
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const Variant>> Variants::Get(const std::vector<InputInfo>& inputs) {
  const NoThreads scope(StartsNoThreads(options_));
  for (size_t k = 0; k < inputs_.size(); ++k)
    KILN_RETURN_IF_ERROR(CheckPort(inputs_[k], inputs[k]));
  if (auto found = Find(inputs); found != nullptr) return found;
  KILN_RETURN_IF_ERROR(Prepare());
  FinishKernels();
  const KeyedMutexLock making(making_, ShapesText(inputs));
  if (auto found = Find(inputs); found != nullptr) return found;
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> variant, MakeFor(inputs));
  // Another thread may have made one meanwhile, for other shapes, that fits these too.
  if (auto found = Find(inputs); found != nullptr) return found;
  const MutexLock lock(mutex_);
  variants_.push_front(std::move(variant));
  if (variants_.size() > kMaxVariants) variants_.pop_back();
  return variants_.front();
}

}  // namespace kiln
