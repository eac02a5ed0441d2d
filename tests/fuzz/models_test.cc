// SPDX-License-Identifier: Apache-2.0
// Random models never end a process: each is imported, verified, optimised at all levels, printed
// and parsed again, compiled for the VM, and run there and by the interpreter where it is small. A
// case is named by its number.
//
//   KILN_FUZZ_MODELS  how many models, of each of the two sources
//   KILN_SEED         the first number
//   KILN_FUZZ_DUMP    a folder: the one model KILN_SEED is written there
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/tensor.h"
#include "compiler/compile.h"
#include "fusion/pipeline.h"
#include "graph/check_node.h"
#include "graph/onnx/import.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/fetched_data.h"
#include "tests/fuzz/draw_model.h"
#include "tests/fuzz/forked_cases.h"
#include "tests/fuzz/mutate_model.h"

namespace kiln {
namespace {

void MutateSome(onnx::ModelProto& model, Random& random) {
  for (int64_t k = random.From({0, 1, 1, 1, 1, 2, 3, 5}); k > 0; --k) Mutate(model, random);
}

std::string FromTable(uint64_t number) {
  Random random(number);
  onnx::ModelProto model = DrawModel(random);
  MutateSome(model, random);
  return model.SerializeAsString();
}

std::vector<std::string> NodeTests() {
  std::vector<std::string> paths;
  const std::string folder = std::string(KILN_SOURCE_DIR) + "/.deps/onnx-tests/node";
  if (!std::filesystem::is_directory(folder)) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path path = entry.path() / "model.onnx";
    if (std::filesystem::exists(path) && std::filesystem::file_size(path) < (1 << 16))
      paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string FromNodeTest(const std::vector<std::string>& paths, uint64_t number) {
  Random random(number);
  std::ifstream in(random.Of(paths), std::ios::binary);
  onnx::ModelProto model;
  if (!model.ParseFromString(std::string(std::istreambuf_iterator<char>(in), {}))) return "";
  MutateSome(model, random);
  if (random.OneIn(2)) Mutate(model, random);
  return model.SerializeAsString();
}

// ---- what is done with a model

// How far models come, counted across the child processes.
struct Depths {
  std::atomic<uint64_t> imported, parsed, compiled, evaluated, run;
};

Depths& Reached() {
  static auto* const depths =
      new (mmap(nullptr, sizeof(Depths), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Depths;
  return *depths;
}

constexpr int64_t kMostElements = 1 << 14;

// Whether all values are small for these extents, and nothing turns often.
bool IsSmall(const Graph& graph, const SymbolValues& symbols) {
  int64_t sum = 0;
  for (const Value& value : graph.values()) {
    const absl::StatusOr<std::vector<int64_t>> extents = Evaluate(value.shape, symbols);
    const int64_t elements = extents.ok() ? CheckedBytes(DType::kU8, *extents) : -1;
    if (elements < 0 || elements > kMostElements || (sum += elements) > kMostElements) return false;
  }
  return std::none_of(graph.nodes().begin(), graph.nodes().end(),
                      [](const Node& node) { return node.op->kind == OpKind::kControl; });
}

// No kernel is built and no cache is read.
absl::StatusOr<Model> ForVm(const Graph& graph) {
  CompileOptions options;
  options.threads = 1;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  return Compile(graph, options);
}

void EvaluateFor(const Graph& graph, absl::StatusOr<Model>& on_vm, int64_t extent) {
  std::vector<Tensor> inputs;
  std::vector<std::pair<std::string, Tensor>> named;
  SymbolValues symbols;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    std::vector<int64_t> shape;
    for (const Dim& dim : value.shape) {
      std::set<std::string> names;
      dim.CollectSymbols(names);
      for (const std::string& name : names) symbols.emplace(name, extent);
      const absl::StatusOr<int64_t> number = dim.Evaluate(symbols);
      if (!number.ok() || *number < 0 || *number > kMostElements) return;
      shape.push_back(*number);
    }
    const int64_t bytes = CheckedBytes(value.type, shape);
    if (bytes < 0 || bytes > 8 * kMostElements) return;
    inputs.push_back(Tensor::Allocate(value.type, shape));
    std::memset(inputs.back().data(), static_cast<int>(extent % 2), static_cast<size_t>(bytes));
    named.emplace_back(value.name, inputs.back());
  }
  if (!IsSmall(graph, symbols)) return;
  ForgiveRefusedMemory();
  const absl::Status status =
      CatchExceptions("interpreting", [&] { return Interpret(graph, inputs).status(); });
  if (status.ok()) ++Reached().evaluated;
  if (!on_vm.ok()) return;
  if (CatchExceptions("running", [&] { return on_vm->Run(named).status(); }).ok()) ++Reached().run;
}

std::string Judge(const std::string& model) {
  const absl::StatusOr<OnnxImport> import = ImportOnnxBytes(model);
  if (!import.ok()) {
    const OnnxImportOptions partly = {.allow_unsupported = true};
    (void)ImportOnnxBytes(model, nullptr, partly);
    return "";
  }
  if (const absl::Status verified = Verify(import->graph); !verified.ok())
    return absl::StrCat("import made a graph that is none: ", verified.ToString());
  ++Reached().imported;
  for (const int level : {1, 2, 3}) {
    Graph graph = import->graph;
    (void)RunPasses(graph, {.level = level});
  }
  if (ParseGraph(Print(import->graph)).ok()) ++Reached().parsed;
  absl::StatusOr<Model> on_vm = ForVm(import->graph);
  if (on_vm.ok()) ++Reached().compiled;
  for (const int64_t extent : {1, 2, 3}) EvaluateFor(import->graph, on_vm, extent);
  return "";
}

void RunModels(const char* test, uint64_t first, const std::function<std::string(uint64_t)>& draw) {
  const uint64_t count = FuzzNumber("KILN_FUZZ_MODELS", 3000);
  SetLogLevel(LogLevel::kError);  // what models declare wrongly is no news
  (void)Reached();
  if (const char* folder = std::getenv("KILN_FUZZ_DUMP")) {
    const std::string path = absl::StrCat(folder, "/", test, "-", first, ".onnx");
    std::ofstream(path, std::ios::binary) << draw(first);
    std::printf("%s\n", path.c_str());
  }
  const auto start = std::chrono::steady_clock::now();
  for (const FailedCase& failed :
       ForEachCase(first, count, {}, [&](uint64_t number) { return Judge(draw(number)); })) {
    ADD_FAILURE() << "model " << failed.number << ": " << failed.what
                  << "; KILN_FUZZ_DUMP=. KILN_FUZZ_MODELS=1 KILN_SEED=" << failed.number
                  << " fuzz_models_test --gtest_filter=Models." << test << " writes it";
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%.0f models a second; %" PRIu64 " imported, %" PRIu64 " parsed again, %" PRIu64
              " compiled; %" PRIu64 " evaluations, %" PRIu64 " runs\n",
              static_cast<double>(count) / took.count(), Reached().imported.exchange(0),
              Reached().parsed.exchange(0), Reached().compiled.exchange(0),
              Reached().evaluated.exchange(0), Reached().run.exchange(0));
}

TEST(Models, FromTable) { RunModels("FromTable", FuzzNumber("KILN_SEED", 1), FromTable); }

TEST(Models, FromNodeTests) {
  const std::vector<std::string> paths = NodeTests();
  if (paths.empty()) KILN_LACKS_DATA("the ONNX tests", "scripts/fetch_onnx_tests");
  RunModels("FromNodeTests", FuzzNumber("KILN_SEED", 1),
            [&](uint64_t number) { return FromNodeTest(paths, number); });
}

}  // namespace
}  // namespace kiln
