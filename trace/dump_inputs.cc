// SPDX-License-Identifier: Apache-2.0
#include "trace/dump_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file_system.h"
#include "base/npy.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "compiler/compile.h"
#include "graph/tensors.h"
#include "trace/input_transform.h"
#include "trace/number.h"

namespace kiln::tracing {
namespace {

constexpr int64_t kMaxListBytes = int64_t{16} << 20;
constexpr double kMaxWhole = 0x1p53;  // up to which doubles tell whole numbers apart

// An argument that gets a tensor.
struct Argument {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> shape;
  std::string ToString() const {
    return absl::StrCat(Name(type), " ", kiln::ToString(ToShape(shape)));
  }
};

// Floats are rounded, and then finite.
bool HasValue(DType type, double value) {
  if (!IsFloat(type)) return OperandAccess::Bits(Operand(value), type).has_value();
  return std::isfinite(ReadFloat(FilledTensor(type, {}, value), 0));
}

// "LO, HI" and a shape, if there is one.
absl::StatusOr<Tensor> Random(absl::string_view text, const Argument& argument, uint64_t seed) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  const auto wrong = [&] {
    return Invalid("\"#rand(", text,
                   ")\": expected #rand(LO, HI) or #rand(LO, HI, EXTENT, ...), with LO <= HI");
  };
  double lo = 0, hi = 0;
  if (parts.size() < 2 || !absl::SimpleAtod(parts[0], &lo) || !absl::SimpleAtod(parts[1], &hi) ||
      !std::isfinite(lo) || !std::isfinite(hi) || lo > hi)
    return wrong();
  for (const double limit : {lo, hi}) {
    if (HasValue(argument.type, limit)) continue;
    return Invalid("\"#rand(", text, ")\": ", Name(argument.type), " has no ", limit,
                   "; give limits that the argument's type has");
  }
  if (!IsFloat(argument.type) && std::max(std::abs(lo), std::abs(hi)) > kMaxWhole) return wrong();
  if (!std::isfinite(hi - lo)) return wrong();
  std::vector<int64_t> shape;
  for (size_t k = 2; k < parts.size(); ++k)
    if (!absl::SimpleAtoi(parts[k], &shape.emplace_back())) return wrong();
  if (parts.size() > 2 && shape != argument.shape) {
    return Invalid("\"#rand(", text, ")\" is of another shape than the argument, ",
                   argument.ToString(), "; leave the shape out");
  }
  KILN_ASSIGN_OR_RETURN(Tensor made, TryAllocate(argument.type, argument.shape));
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < made.num_elements(); ++i) {
    const double part = static_cast<double>(random() >> 11) * 0x1p-53;  // of [0, 1)
    if (IsFloat(made.dtype()))
      WriteFloat(made, i, lo + (hi - lo) * part);
    else
      WriteInt(made, i, static_cast<int64_t>(std::floor(lo + (hi - lo + 1) * part)));
  }
  return made;
}

// One axis resized by linear interpolation; the centres of first and last elements lie as in images
// that are as large as each other.
Tensor Resized(const Tensor& from, size_t axis, int64_t extent) {
  std::vector<int64_t> shape = from.shape();
  const int64_t was = shape[axis];
  shape[axis] = extent;
  Tensor to = Tensor::Allocate(DType::kF64, shape);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  for (int64_t k = 0; k < to.num_elements(); ++k) {
    const int64_t at = k / inner % extent, row = k / inner / extent;
    const double place =
        (static_cast<double>(at) + 0.5) * static_cast<double>(was) / static_cast<double>(extent) -
        0.5;
    const double low = std::clamp(std::floor(place), 0.0, static_cast<double>(was - 1));
    const double part = std::clamp(place - low, 0.0, 1.0);
    const auto first = static_cast<int64_t>(low), second = std::min(first + 1, was - 1);
    const auto read = [&](int64_t i) {
      return ReadFloat(from, (row * was + i) * inner + k % inner);
    };
    WriteFloat(to, k, (1 - part) * read(first) + part * read(second));
  }
  return to;
}

// What a file holds, as the argument takes it: a graph of its own computes it.
class Transformer {
 public:
  Transformer(const DumpOptions& options, const CompileOptions& on_vm)
      : options_(options), on_vm_(on_vm) {}

  absl::StatusOr<Tensor> Apply(Tensor data, const Argument& argument) const {
    if (argument.type == DType::kBF16 && data.dtype() == DType::kU16) data = BitsAsBFloat16(data);
    const std::string read = absl::StrCat(Name(data.dtype()), " ", ToString(ToShape(data.shape())));
    if (options_.resize_input) {
      KILN_ASSIGN_OR_RETURN(data, Resize(data, argument));
    }
    if (options_.repeat > 1 || !options_.input_transform.empty() || data.dtype() != argument.type) {
      KILN_ASSIGN_OR_RETURN(data, Compute(std::move(data), argument));
    }
    if (data.shape() == argument.shape) return data;
    return Invalid("the file has ", read, ", which gives ", ToString(ToShape(data.shape())),
                   "; the argument is ", argument.ToString(),
                   options_.resize_input ? "" : "; resize_input makes other extents fit");
  }

 private:
  // All axes but the first.
  static absl::StatusOr<Tensor> Resize(Tensor data, const Argument& argument) {
    if (data.shape().size() != argument.shape.size() || data.num_elements() == 0) return data;
    const DType type = data.dtype();
    KILN_ASSIGN_OR_RETURN(Tensor wide, TryAllocate(DType::kF64, data.shape()));
    bool same = true;
    for (int64_t i = 0; i < data.num_elements(); ++i)
      WriteFloat(wide, i,
                 IsFloat(type) ? ReadFloat(data, i) : static_cast<double>(ReadInt(data, i)));
    for (size_t axis = 1; axis < argument.shape.size(); ++axis) {
      if (wide.shape()[axis] == argument.shape[axis]) continue;
      wide = Resized(wide, axis, argument.shape[axis]);
      same = false;
    }
    return same ? data : wide;
  }

  absl::StatusOr<Tensor> Compute(Tensor data, const Argument& argument) const {
    GraphBuilder builder("input");
    ValueId value = builder.Input("data", data.dtype(), ToShape(data.shape()));
    if (options_.repeat > 1) {
      const int64_t rows = data.rank() == 0 ? 0 : data.shape()[0];
      const int64_t wanted = argument.shape.empty() ? 0 : argument.shape[0];
      if (rows == 0 || wanted / rows != options_.repeat || wanted % rows != 0) {
        return Invalid("repeat: ", rows, " rows of the file ", options_.repeat,
                       " times are not the ", wanted, " of the argument");
      }
      value =
          builder.Op("concat", std::vector<ValueId>(static_cast<size_t>(options_.repeat), value),
                     {{"axis", int64_t{0}}});
    }
    if (!options_.input_transform.empty()) {
      if (builder.status().ok()) value = builder.Op("cast", {value}, {{"to", DType::kF64}});
      KILN_RETURN_IF_ERROR(builder.status());
      KILN_ASSIGN_OR_RETURN(value, AddTransform(options_.input_transform, value, builder));
    }
    builder.Output(builder.Op("cast", {value}, {{"to", argument.type}}), "y");
    KILN_ASSIGN_OR_RETURN(Model model, Compile(std::move(builder), on_vm_));
    KILN_ASSIGN_OR_RETURN(std::vector<Tensor> made, model.Run({{"data", data}}));
    return std::move(made[0]);
  }

  const DumpOptions& options_;
  const CompileOptions& on_vm_;
};

// The texts of cases: lists are read.
absl::StatusOr<std::vector<std::string>> CasesOf(const std::vector<std::string>& input_data) {
  std::vector<std::string> cases;
  for (const std::string& text : input_data) {
    absl::string_view list = text;
    if (!absl::ConsumePrefix(&list, "@")) {
      cases.push_back(text);
      continue;
    }
    KILN_ASSIGN_OR_RETURN(const std::string lines, RealFileSystem().ReadFile(list, kMaxListBytes));
    for (absl::string_view line : absl::StrSplit(lines, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (line.substr(0, 1) == "@")
        return Invalid("input_data \"", text, "\": the list names another list, \"", line, "\"");
      if (!line.empty()) cases.emplace_back(line);
    }
  }
  return cases;
}

// What each argument is given.
absl::StatusOr<std::map<std::string, std::string>> ValuesOf(
    absl::string_view text, const std::vector<Argument>& arguments) {
  std::map<std::string, std::string> values;
  std::vector<std::string> names;
  for (const Argument& argument : arguments) names.push_back(argument.name);
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;
    const size_t colon = part.find(':');
    const std::string name(part.substr(0, colon == absl::string_view::npos ? 0 : colon));
    const bool is_random = !name.empty() && absl::StartsWith(part.substr(colon + 1), "#");
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      if (!values.emplace(name, part.substr(colon + 1)).second)
        return Invalid("argument \"", name, "\" is given twice");
    } else if (values.empty() && (part[0] == '#' || (arguments.size() == 1 && !is_random))) {
      for (const std::string& each : names) values.emplace(each, part);
    } else {
      return Invalid("\"", part, "\" names no argument; they are ", absl::StrJoin(names, ", "));
    }
  }
  for (const std::string& name : names)
    if (!values.contains(name)) return Invalid("argument \"", name, "\" is not given");
  return values;
}

// An option that says what becomes of files; null: none is given.
const char* OfFiles(const DumpOptions& options) {
  return options.resize_input               ? "resize_input"
         : options.repeat != 1              ? "repeat"
         : !options.input_transform.empty() ? "input_transform"
                                            : nullptr;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<Tensor>>> ReadInputData(const Graph& graph,
                                                               const DumpOptions& options,
                                                               const CompileOptions& on_vm) {
  std::vector<Argument> arguments;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    arguments.push_back({value.name, value.type, *Constant(value.shape)});
  }
  const Transformer transformer(options, on_vm);
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> cases, CasesOf(options.input_data));
  std::vector<std::vector<Tensor>> all;
  uint64_t seed = 0;
  bool from_file = false;
  for (const std::string& text : cases) {
    const std::string subject = absl::StrCat("input_data \"", text, "\"");
    const auto values = ValuesOf(text, arguments);
    KILN_RETURN_IF_ERROR(Annotate(values.status(), subject));
    std::vector<Tensor>& tensors = all.emplace_back();
    for (const Argument& argument : arguments) {
      const auto make = [&]() -> absl::StatusOr<Tensor> {
        absl::string_view value = absl::StripAsciiWhitespace(values->at(argument.name));
        if (absl::StartsWith(value, "#")) {
          const absl::string_view given = value;
          if (absl::ConsumePrefix(&value, "#rand(") && absl::ConsumeSuffix(&value, ")"))
            return Random(value, argument, ++seed);
          return Invalid("\"", given, "\": expected #rand(LO, HI) or #rand(LO, HI, EXTENT, ...)");
        }
        from_file = true;
        // Not ReadNpy: a pipe would be waited for.
        KILN_ASSIGN_OR_RETURN(const std::string bytes, RealFileSystem().ReadFile(value, INT64_MAX));
        absl::StatusOr<Tensor> read = ParseNpy(bytes);
        KILN_RETURN_IF_ERROR(Annotate(read.status(), absl::StrCat("\"", value, "\"")));
        Tensor data = *std::move(read);
        return transformer.Apply(std::move(data), argument);
      };
      absl::StatusOr<Tensor> made = make();
      KILN_RETURN_IF_ERROR(
          Annotate(made.status(), absl::StrCat(subject, ": argument \"", argument.name, "\"")));
      tensors.push_back(*std::move(made));
    }
  }
  if (const char* const unused = OfFiles(options); unused != nullptr && !from_file)
    return Invalid(unused, ": it is about arguments that are read from files, and there are none");
  return all;
}

}  // namespace kiln::tracing
