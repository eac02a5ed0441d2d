// SPDX-License-Identifier: Apache-2.0
// Function::Dump: record -> named graph -> file, with its test cases and the JSON beside it.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/file_system.h"
#include "base/publish_file.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/pack_graph.h"
#include "compiler/simplify_graph.h"
#include "graph/half_floats.h"
#include "graph/onnx/export.h"
#include "graph/op.h"
#include "graph/text.h"
#include "trace/dump_check.h"
#include "trace/dump_graph.h"
#include "trace/dump_inputs.h"
#include "trace/engine.h"
#include "trace/failure.h"
#include "trace/function.h"
#include "trace/log_graph.h"

namespace kiln::tracing {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxTextConstant = int64_t{64} << 10;  // bytes: what graph/text.h writes out
constexpr int64_t kMaxJsonBytes = int64_t{64} << 20;
constexpr char kStripSchema[] = "kiln.strip_info/1";

absl::StatusOr<std::vector<TestCase>> MakeTests(const Graph& graph, const DumpOptions& options,
                                                const CompileOptions& compile) {
  std::vector<TestCase> tests;
  if (options.input_data.empty()) return tests;
  Engine engine;
  CompileOptions here = compile;  // what is judged by is the VM, whatever the package is for
  here.runtime = nullptr;
  here.target = std::nullopt;
  const CompileOptions on_vm = engine.InterpreterOptions(std::move(here));
  KILN_ASSIGN_OR_RETURN(auto all, ReadInputData(graph, options, on_vm));
  KILN_ASSIGN_OR_RETURN(Model model, Compile(Graph(graph), on_vm));
  for (std::vector<Tensor>& inputs : all) {
    TestCase& test = tests.emplace_back();
    test.max_error = options.maxerr;
    test.silent = options.silent;
    if (!options.no_assert) {
      NamedTensors named;
      for (size_t k = 0; k < inputs.size(); ++k)
        named.emplace_back(model.inputs()[k].name, inputs[k]);
      KILN_ASSIGN_OR_RETURN(test.outputs, model.Run(named));
    }
    test.inputs = std::move(inputs);
  }
  return tests;
}

// Notes are comments, which readers skip.
absl::StatusOr<std::string> TextOf(const Graph& graph, const ModelNotes& notes) {
  for (const Value& value : graph.values()) {
    if (!value.constant || value.constant->size_bytes() <= kMaxTextConstant) continue;
    return absl::UnimplementedError(
        absl::StrCat("constant ", Name(value.type), " ", ToString(value.shape), " has ",
                     value.constant->size_bytes(), " bytes, and the text format writes at most ",
                     kMaxTextConstant, " of one; dump a .onnx or .kiln"));
  }
  std::string text;
  if (!notes.user_info.empty())
    absl::StrAppend(&text, "# user_info \"", absl::Utf8SafeCEscape(notes.user_info), "\"\n");
  for (const auto& [key, value] : notes.metadata) {
    absl::StrAppend(&text, "# metadata \"", absl::Utf8SafeCEscape(key), "\" \"",
                    absl::Utf8SafeCEscape(value), "\"\n");
  }
  if (notes.model_version != 0)
    absl::StrAppend(&text, "# model_version ", notes.model_version, "\n");
  return absl::StrCat(text, Print(graph));
}

absl::Status WriteStripInfo(const Graph& graph, absl::string_view model,
                            const DumpOptions& options) {
  if (options.strip_info_file.empty()) return absl::OkStatus();
  std::set<std::string> operators, types;
  for (const kiln::Node& node : graph.nodes()) operators.insert(node.op->name);
  for (const Value& value : graph.values()) types.emplace(Name(value.type));
  Json file = {{"schema", kStripSchema}, {"models", Json::array()}};
  FileSystem& files = RealFileSystem();
  if (options.append_json) {
    const auto there = files.ReadFile(options.strip_info_file, kMaxJsonBytes);
    if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
    if (there.ok()) file = Json::parse(*there, nullptr, /*allow_exceptions=*/false);
    if (!file.is_object() || !file.contains("schema") || file["schema"] != kStripSchema ||
        !file.contains("models") || !file["models"].is_array()) {
      return Invalid("strip_info_file \"", options.strip_info_file, "\": what is there is no ",
                     kStripSchema, "; append_json adds to such a file alone");
    }
  }
  file["models"].push_back({{"model", std::string(model.substr(model.rfind('/') + 1))},
                            {"operators", operators},
                            {"dtypes", types}});
  const std::string text = file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return PublishFile(files, options.strip_info_file,
                     [&](WritableFile& out) { return out.Append(text); });
}

// As bytes, but for a package.
absl::StatusOr<std::string> BytesOf(const Graph& graph, DumpFormat format,
                                    const ModelNotes& notes) {
  if (format == DumpFormat::kOnnx) return ExportOnnx(graph, {}, notes);
  if (format == DumpFormat::kGraph) return TextOf(graph, notes);
  return std::string();
}

// What of the record cannot be a model.
absl::Status CheckRecord(const std::string& name, const Record& record) {
  const absl::string_view what =
      !record.log.exact ? "numbers and captured arrays are inputs of its record, which a file has "
                          "not; trace it with capture_as_const, or freeze it"
      : record.reads    ? "it reads a value, on which what it does next may depend; leave that out"
      : record.excludes ? "it has a region left out of the trace; leave that out"
                        : "";
  if (what.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("trace \"", name, "\": it cannot be dumped: ", what));
}

// The graph that is dumped.
absl::StatusOr<Graph> MakeGraph(const Record& record, const std::string& name,
                                const DumpOptions& options) {
  KILN_ASSIGN_OR_RETURN(Graph graph, ToNamedGraph(record, name, options));
  if (!options.optimize_for_inference) return graph;
  if (options.optimize_for_inference->enable_io16xc32) {
    KILN_ASSIGN_OR_RETURN(graph, WithHalfFloats(graph));
  }
  KILN_RETURN_IF_ERROR(SimplifyGraph(graph));
  return graph;
}

DumpInfo Describe(const Graph& graph, const DumpOptions& options) {
  DumpInfo info;
  info.operations = static_cast<int64_t>(graph.nodes().size());
  for (const ValueId id : graph.inputs()) info.inputs.push_back(graph.value(id).name);
  for (const Graph::Output& output : graph.outputs()) info.outputs.push_back(output.name);
  for (const Value& value : graph.values()) {
    if (options.keep_param_name && value.constant && absl::StartsWith(value.name, "param_"))
      info.parameters.push_back(value.name);
  }
  return info;
}

// That the files have names, each its own.
absl::Status CheckFiles(absl::string_view file, const DumpOptions& options) {
  for (const absl::string_view name : {file, absl::string_view(options.strip_info_file)}) {
    if (absl::StrContains(name, absl::string_view("\0", 1)))
      return Invalid("\"", absl::CEscape(name), "\": a name of a file has no byte 0");
  }
  if (options.strip_info_file.empty()) return absl::OkStatus();
  std::error_code failed;
  namespace fs = std::filesystem;
  const fs::path model = fs::weakly_canonical(fs::path(std::string(file)), failed);
  const fs::path info = fs::weakly_canonical(fs::path(options.strip_info_file), failed);
  if (!failed && model == info)
    return Invalid("strip_info_file \"", options.strip_info_file,
                   "\": the model is written there; name another file");
  return absl::OkStatus();
}

absl::StatusOr<DumpInfo> DumpRecord(const Record& record, const std::string& name,
                                    const CompileOptions& compile, absl::string_view file,
                                    const DumpOptions& options) {
  KILN_ASSIGN_OR_RETURN(const DumpFormat format, FormatOf(file));
  KILN_RETURN_IF_ERROR(CheckFiles(file, options));
  KILN_RETURN_IF_ERROR(CheckDump(options, format, record));
  KILN_ASSIGN_OR_RETURN(const Graph graph, MakeGraph(record, name, options));
  KILN_ASSIGN_OR_RETURN(const auto tests, MakeTests(graph, options, compile));
  const ModelNotes notes = {options.user_info, options.metadata, options.model_version};
  KILN_ASSIGN_OR_RETURN(const std::string bytes, BytesOf(graph, format, notes));
  DumpInfo info = Describe(graph, options);
  const auto write = [&](WritableFile& out) -> absl::Status {
    const auto append = [&](absl::string_view piece) {
      info.bytes += static_cast<int64_t>(piece.size());
      return out.Append(piece);
    };
    if (format != DumpFormat::kPackage) return append(bytes);
    KILN_ASSIGN_OR_RETURN(
        const PackedCounts counts,
        PackGraph(graph, PackageOptionsFor(options.optimize_for_inference, compile), tests, notes,
                  append));
    info.kernels = counts.kernels;
    info.on_vm = counts.on_vm;
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(PublishFile(RealFileSystem(), file, write));
  KILN_RETURN_IF_ERROR(WriteStripInfo(graph, file, options));
  return info;
}

}  // namespace

absl::StatusOr<DumpInfo> Function::Dump(absl::string_view file, const DumpOptions& options) {
  if (!Take()) {
    return TraceFailure(name(), TraceError::kThread,
                        "a call of it is running, and it is dumped meanwhile");
  }
  absl::StatusOr<DumpInfo> info =
      CatchExceptions("dumping a trace", [&]() -> absl::StatusOr<DumpInfo> {
        Forgotten().clear();
        if (state_.records.empty()) {
          return absl::FailedPreconditionError(
              absl::StrCat("trace \"", name(), "\": it has no record yet; call it, then dump it"));
        }
        KILN_RETURN_IF_ERROR(CheckRecord(name(), *state_.records.front()));
        absl::StatusOr<DumpInfo> made =
            DumpRecord(*state_.records.front(), name(), state_.options.compile, file, options);
        if (made.ok()) return made;
        return Annotate(made.status(),
                        absl::StrCat("trace \"", name(), "\": dump to \"", file, "\""));
      });
  GiveBack();
  return info;
}

}  // namespace kiln::tracing
