// SPDX-License-Identifier: Apache-2.0
#include "tools/inputs.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "graph/op.h"
#include "tools/exit_code.h"
#include "tools/nearest_name.h"

namespace kiln {
namespace {

struct ValueRange {
  double lo = -1, hi = 1;
};

// Least extent of the axes that values computed from `id` index by gather, looking through ops that
// keep integers as they are.
std::optional<int64_t> IndexedExtent(const Graph& graph,
                                     const std::vector<std::vector<NodeId>>& users, ValueId id,
                                     int depth) {
  std::optional<int64_t> least;
  if (depth > 8) return least;
  const auto take = [&least](std::optional<int64_t> extent) {
    if (extent.has_value() && (!least.has_value() || *extent < *least)) least = extent;
  };
  for (const NodeId user : users[static_cast<size_t>(id.v)]) {
    const Node& node = graph.node(user);
    const absl::string_view op = node.op->name;
    if (op == "gather" && node.inputs.size() > 1 && node.inputs[1] == id) {
      const Shape& table = graph.value(node.inputs[0]).shape;
      const int64_t axis = IntAttr(node, "axis");
      const size_t at =
          static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(table.size()) : axis);
      if (at < table.size()) take(table[at].constant());
    } else if (op == "cast" || op == "identity" || op == "reshape" || op == "squeeze" ||
               op == "unsqueeze" || op == "transpose") {
      take(IndexedExtent(graph, users, node.outputs[0], depth + 1));
    }
  }
  return least;
}

int64_t MemoryBytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

template <typename T>
void FillInts(Tensor& tensor, int64_t lo, int64_t hi, std::mt19937_64& random) {
  std::uniform_int_distribution<int64_t> draw(lo, std::max(lo, hi));
  T* const out = static_cast<T*>(tensor.data());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) out[i] = static_cast<T>(draw(random));
}

// Integers are drawn from [lo, hi], floats from [lo, hi).
void Fill(Tensor& tensor, ValueRange range, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(range.lo, range.hi);
  const auto value = [&] { return range.lo == range.hi ? range.lo : draw(random); };
  const int64_t lo = static_cast<int64_t>(range.lo);
  const int64_t hi = static_cast<int64_t>(range.hi);
  for (int64_t i = 0; IsFloat(tensor.dtype()) && i < tensor.num_elements(); ++i) {
    switch (tensor.dtype()) {
      case DType::kF32:
        static_cast<float*>(tensor.data())[i] = static_cast<float>(value());
        break;
      case DType::kF64:
        static_cast<double*>(tensor.data())[i] = value();
        break;
      case DType::kF16:
        static_cast<uint16_t*>(tensor.data())[i] = FloatToHalf(static_cast<float>(value()));
        break;
      default:
        static_cast<uint16_t*>(tensor.data())[i] = FloatToBFloat(static_cast<float>(value()));
        break;
    }
  }
  switch (SizeOf(tensor.dtype())) {
    case 1:
      return FillInts<uint8_t>(tensor, lo, hi, random);
    case 2:
      return IsFloat(tensor.dtype()) ? void() : FillInts<uint16_t>(tensor, lo, hi, random);
    case 4:
      return IsFloat(tensor.dtype()) ? void() : FillInts<uint32_t>(tensor, lo, hi, random);
    default:
      return IsFloat(tensor.dtype()) ? void() : FillInts<uint64_t>(tensor, lo, hi, random);
  }
}

class InputMaker {
 public:
  InputMaker(const Graph& graph, const CommonOptions& options)
      : graph_(graph), options_(options), users_(graph.Users()) {}

  absl::StatusOr<std::vector<Tensor>> Make(const std::vector<std::string>& specs) {
    KILN_RETURN_IF_ERROR(ReadFlags(specs));
    KILN_RETURN_IF_ERROR(CheckDims());
    std::vector<Tensor> tensors;
    for (const ValueId id : graph_.inputs()) {
      KILN_ASSIGN_OR_RETURN(Tensor tensor, MakeOne(id));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  absl::StatusOr<std::map<std::string, Tensor>> Values(const std::vector<std::string>& specs) {
    KILN_RETURN_IF_ERROR(ReadFlags(specs));
    std::map<std::string, Tensor> tensors;
    for (const ValueId id : graph_.inputs()) {
      if (specs_.count(graph_.value(id).name) == 0) continue;
      KILN_ASSIGN_OR_RETURN(tensors[graph_.value(id).name], MakeOne(id));
    }
    return tensors;
  }

  absl::StatusOr<std::vector<Tensor>> Shapes(const std::vector<std::string>& specs) {
    KILN_RETURN_IF_ERROR(ReadFlags(specs));
    std::vector<Tensor> tensors;
    for (const ValueId id : graph_.inputs()) {
      const Value& value = graph_.value(id);
      if (specs_.count(value.name) != 0) {
        KILN_ASSIGN_OR_RETURN(tensors.emplace_back(), MakeOne(id));
        continue;
      }
      KILN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, ShapeOf(value));
      if (CheckedBytes(value.type, shape) < 0)
        return absl::InvalidArgumentError(
            absl::StrCat("input \"", value.name, "\": its shape is too large"));
      tensors.push_back(Tensor::View(nullptr, value.type, std::move(shape)));
    }
    return tensors;
  }

  absl::Status AllGiven(const std::vector<std::string>& specs) {
    KILN_RETURN_IF_ERROR(ReadFlags(specs));
    std::string first, flags;
    std::set<std::string> named;
    for (const ValueId id : graph_.inputs()) {
      const Value& value = graph_.value(id);
      if (shapes_.count(value.name) != 0 || files_.count(value.name) != 0) continue;
      for (size_t axis = 0; axis < value.shape.size(); ++axis) {
        std::set<std::string> symbols;
        value.shape[axis].CollectSymbols(symbols);
        for (const std::string& symbol : symbols) {
          if (symbols_.count(symbol) != 0 || !named.insert(symbol).second) continue;
          if (first.empty()) first = absl::StrCat("input \"", value.name, "\": dim ", axis);
          absl::StrAppend(&flags, " --dim ", symbol, "=N");
        }
      }
    }
    if (first.empty()) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        first, " is not given, and the model's structure depends on the shapes of its inputs; set",
        flags, ", or give shapes with --shape NAME=EXTENTS"));
  }

 private:
  absl::Status ReadFlags(const std::vector<std::string>& specs) {
    KILN_ASSIGN_OR_RETURN(symbols_, ParseDims(options_.dims));
    KILN_ASSIGN_OR_RETURN(shapes_, ShapesGiven(options_));
    return ReadSpecs(specs);
  }

  // That --dim names dims of the model. A graph made for given shapes has none by name any more.
  absl::Status CheckDims() {
    std::set<std::string> names;
    for (const ValueId id : graph_.inputs()) {
      for (const Dim& extent : graph_.value(id).shape) extent.CollectSymbols(names);
    }
    for (const auto& [name, value] : symbols_) {
      if (names.count(name) != 0) continue;
      if (names.empty()) {  // one command line for many models
        Note(options_, absl::StrCat("--dim \"", name, "=", value,
                                    "\" changes nothing: the model has no symbolic dim"));
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("--dim \"", name, "\": no dim is called that; the model has ",
                       absl::StrJoin(names, ", "), DidYouMean(name, {names.begin(), names.end()})));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSpecs(const std::vector<std::string>& specs) {
    std::set<std::string> names;
    for (const ValueId id : graph_.inputs()) names.insert(graph_.value(id).name);
    const auto check = [&](const std::string& flag, const std::string& name) -> absl::Status {
      if (names.count(name) != 0) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " \"", name, "\": the model has no such input; it has ",
                       absl::StrJoin(names, ", "), DidYouMean(name, {names.begin(), names.end()})));
    };
    for (const std::string& spec : specs) {
      const size_t at = spec.find('=');
      if (at == std::string::npos)
        return absl::InvalidArgumentError(
            absl::StrCat("--input \"", spec, "\": expected NAME=VALUE"));
      const std::string name = spec.substr(0, at);
      KILN_RETURN_IF_ERROR(check("--input", name));
      specs_[name] = spec.substr(at + 1);
      if (specs_[name].empty() || specs_[name][0] != '@') continue;
      KILN_ASSIGN_OR_RETURN(files_[name], ReadNpy(specs_[name].substr(1)));
    }
    KILN_ASSIGN_OR_RETURN(const auto constant, ParseShapes(options_.const_shapes, "--const-shape"));
    for (const auto& [name, shape] : shapes_)
      KILN_RETURN_IF_ERROR(check(constant.count(name) != 0 ? "--const-shape" : "--shape", name));
    for (const ValueId id : graph_.inputs()) BindSymbols(graph_.value(id));
    return absl::OkStatus();
  }

  // Lets files and --shape say what symbols are; --dim was first.
  void BindSymbols(const Value& value) {
    std::vector<int64_t> shape;
    if (const auto file = files_.find(value.name); file != files_.end())
      shape = file->second.shape();
    if (const auto given = shapes_.find(value.name); given != shapes_.end()) shape = given->second;
    for (size_t axis = 0; axis < shape.size() && axis < value.shape.size(); ++axis) {
      std::set<std::string> symbols;
      value.shape[axis].CollectSymbols(symbols);
      if (symbols.size() == 1 && value.shape[axis] == Dim::Symbol(*symbols.begin()))
        symbols_.emplace(*symbols.begin(), shape[axis]);
    }
  }

  absl::StatusOr<std::vector<int64_t>> ShapeOf(const Value& value) {
    if (const auto given = shapes_.find(value.name); given != shapes_.end()) return given->second;
    for (const Dim& extent : value.shape) {
      std::set<std::string> symbols;
      extent.CollectSymbols(symbols);
      for (const std::string& symbol : symbols) {
        if (!symbols_.emplace(symbol, 1).second) continue;
        Note(options_,
             absl::StrCat("dim \"", symbol, "\" is taken as 1; set it with --dim ", symbol, "=N"));
      }
    }
    return Evaluate(value.shape, symbols_);
  }

  absl::StatusOr<Tensor> MakeOne(ValueId id) {
    const Value& value = graph_.value(id);
    if (const auto file = files_.find(value.name); file != files_.end()) {
      if (value.type == DType::kBF16 && file->second.dtype() == DType::kU16)
        return BitsAsBFloat16(file->second);
      return file->second;
    }
    KILN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, ShapeOf(value));
    const int64_t bytes = CheckedBytes(value.type, shape);
    if (bytes < 0 || bytes > MemoryBytes()) {
      return absl::InvalidArgumentError(absl::StrCat("input \"", value.name, "\": shape ",
                                                     absl::StrJoin(shape, "x"),
                                                     " needs more than this machine's memory"));
    }
    Tensor tensor = Tensor::Allocate(value.type, std::move(shape));
    KILN_RETURN_IF_ERROR(FillAsAsked(id, value, tensor));
    return tensor;
  }

  absl::Status FillAsAsked(ValueId id, const Value& value, Tensor& tensor) {
    const auto given = specs_.find(value.name);
    ValueRange range{value.type == DType::kBool || !IsFloat(value.type) ? 0.0 : -1.0, 1.0};
    if (const auto extent = IndexedExtent(graph_, users_, id, 0);
        extent.has_value() && IsInt(value.type)) {
      range.hi = static_cast<double>(std::max<int64_t>(*extent - 1, 0));
    }
    uint64_t seed = 0;
    if (given == specs_.end()) {
      seed = static_cast<uint64_t>(id.v) + 1;
      Note(options_, absl::StrCat("input \"", value.name, "\" is random; give it with --input ",
                                  value.name, "=@FILE.npy"));
    } else if (given->second == "zeros" || given->second == "ones") {
      range.lo = range.hi = given->second == "ones" ? 1 : 0;
    } else {
      const std::vector<std::string> parts = absl::StrSplit(given->second, ':');
      const bool bounds = parts.size() == 4;
      if (parts[0] != "random" || (parts.size() != 2 && !bounds) ||
          !absl::SimpleAtoi(parts[1], &seed) ||
          (bounds && (!absl::SimpleAtod(parts[2], &range.lo) ||
                      !absl::SimpleAtod(parts[3], &range.hi) || range.lo > range.hi))) {
        return absl::InvalidArgumentError(
            absl::StrCat("--input \"", value.name, "=", given->second,
                         "\": expected @FILE.npy, random:SEED[:LO:HI], zeros or ones"));
      }
    }
    Fill(tensor, range, seed);
    return absl::OkStatus();
  }

  const Graph& graph_;
  const CommonOptions& options_;
  const std::vector<std::vector<NodeId>> users_;
  SymbolValues symbols_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::map<std::string, std::string> specs_;
  std::map<std::string, Tensor> files_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> MakeInputs(const Graph& graph,
                                               const std::vector<std::string>& specs,
                                               const CommonOptions& options) {
  return InputMaker(graph, options).Make(specs);
}

absl::StatusOr<std::vector<Tensor>> MakeInputs(WarmModel& model,
                                               const std::vector<std::string>& specs,
                                               const CommonOptions& options) {
  for (const PortInfo& port : model.inputs()) {
    const bool file = std::any_of(specs.begin(), specs.end(), [&](const std::string& spec) {
      return absl::StartsWith(spec, absl::StrCat(port.name, "=@"));
    });
    if (file) continue;
    KILN_ASSIGN_OR_RETURN(const Graph* const graph, model.graph());
    return MakeInputs(*graph, specs, options);
  }
  return MakeInputs(GraphOfPorts(model.inputs()), specs, options);  // all that files need
}

Graph GraphOfPorts(const std::vector<PortInfo>& ports) {
  Graph graph;
  for (const PortInfo& port : ports) graph.AddInput(port.name, port.type, port.shape);
  return graph;
}

NamedTensors Named(const std::vector<PortInfo>& ports, const std::vector<Tensor>& tensors) {
  NamedTensors named;
  for (size_t k = 0; k < tensors.size(); ++k) named.emplace_back(ports[k].name, tensors[k]);
  return named;
}

absl::StatusOr<std::map<std::string, Tensor>> MakeValues(const Graph& graph,
                                                         const std::vector<std::string>& specs,
                                                         const CommonOptions& options) {
  return InputMaker(graph, options).Values(specs);
}

absl::StatusOr<std::vector<Tensor>> MakeShapes(const Graph& graph,
                                               const std::vector<std::string>& specs,
                                               const CommonOptions& options) {
  return InputMaker(graph, options).Shapes(specs);
}

absl::Status AllShapesGiven(const Graph& graph, const std::vector<std::string>& specs,
                            const CommonOptions& options) {
  return InputMaker(graph, options).AllGiven(specs);
}

absl::StatusOr<Graph> GraphToLookAt(const ModelSource& model, const std::vector<std::string>& specs,
                                    const CommonOptions& options, int* exit) {
  if (!model.needs_inputs()) return model.graph();
  const absl::StatusOr<std::vector<Tensor>> inputs = MakeInputs(model.graph(), specs, options);
  if (!inputs.ok()) {
    *exit = UsageExit(inputs.status());
    return inputs.status();
  }
  absl::StatusOr<Graph> graph = model.GraphFor(*inputs);
  if (!graph.ok()) *exit = ModelExit(graph.status());
  return graph;
}

absl::StatusOr<std::vector<Tensor>> RunGraph(Graph graph, const std::vector<Tensor>& inputs,
                                             const CompileOptions& options) {
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t k = 0; k < inputs.size(); ++k)
    named.emplace_back(graph.value(graph.inputs()[k]).name, inputs[k]);
  KILN_ASSIGN_OR_RETURN(Model model, Compile(std::move(graph), options));
  return model.Run(named);
}

absl::StatusOr<std::pair<std::string, std::string>> ParseFileSpec(const std::string& flag,
                                                                  const std::string& spec) {
  const size_t at = spec.find('=');
  if (at == std::string::npos || at == 0 || at + 2 >= spec.size() || spec[at + 1] != '@') {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " \"", spec, "\": expected NAME=@FILE.npy"));
  }
  return std::make_pair(spec.substr(0, at), spec.substr(at + 2));
}

}  // namespace kiln
