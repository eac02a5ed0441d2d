// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/packages_fuzz_models.h"

#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "compiler/compile.h"
#include "compiler/compile_script.h"
#include "compiler/package_writer.h"
#include "compiler/segments.h"
#include "compiler/variants.h"
#include "exec/package/test_case.h"
#include "graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMostInput = int64_t{1} << 20;       // bytes
constexpr int64_t kBytesReadWhole = int64_t{1} << 20;  // of an output

std::string Numbers(int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", 0.125 * static_cast<double>(i * 7 % 11 - 5));
  return text + "]";
}

std::string Rows() {
  return absl::StrCat(
      "graph rows\ninput x : f32 [n, 8]\nconst w : f32 [8, 8] = ", Numbers(64),
      "\nt = matmul(x, w)\na = relu(t)\ny = softmax(a) {axis = 1}\n"
      "s = reduce_sum(y) {axes = [0], keepdims = 1}\nc = concat(y, x) {axis = 0}\n"
      "r = reshape(c) {shape = [-1]}\ne = shape(c)\nm = transpose(a) {perm = [1, 0]}\n"
      "output c\noutput s\noutput r\noutput e\noutput m\noutput x\noutput w\n");
}

std::string Images() {
  return absl::StrCat("graph images\ninput x : f32 [n, 3, 8, 8]\nconst w : f32 [4, 3, 3, 3] = ",
                      Numbers(108), "\nconst v : f32 [4, 2, 2, 2] = ", Numbers(32),
                      "\nconst b : f32 [4] = [1, 2, 3, 4]\n"
                      "a = conv(x, w, b) {pads = [1, 1, 1, 1]}\nr = relu(a)\n"
                      "p = max_pool(r) {kernel = [2, 2], strides = [2, 2]}\n"
                      "q = average_pool(p) {kernel = [2, 2], strides = [1, 1]}\n"
                      "d = conv_transpose(p, v) {strides = [2, 2]}\n"
                      "g = reduce_mean(p) {axes = [2, 3], keepdims = 0}\n"
                      "output q\noutput d\noutput g\n");
}

std::string Places() {
  return "graph places\ninput x : f32 [n, 8]\ninput i : i64 [n]\ninput j : i32 [2, 8]\n"
         "const z : f32 [8] = [1, 2, 3, 4, 5, 6, 7, 8]\n"
         "const zero : f32 [] = 0\n"
         "g = gather(z, i) {axis = 0}\nv, k = top_k(x) {k = 3}\nc = cumulative(v) {axis = 1}\n"
         "u = slice(x) {starts = [1], ends = [5], axes = [1]}\n"
         "o = less(u, zero)\nw = where(o, zero, u)\n"
         "p = pad(w) {pads = [0, 1, 0, 1]}\n"
         "f = cast(j) {to = f16}\n"
         "output g\noutput k\noutput c\noutput p\noutput f\n";
}

// A script: a branch, a loop, and an extent that data decide.
std::string Steps() {
  return R"(graph steps
input x : f32 [n]
input m : i64 []
input c : bool []
body a
input x : f32 [n]
y : f32 [n] = add(x, x)
output y
end
body b
input x : f32 [n]
z : f32 [n] = neg(x)
output z
end
body l
input i : i64 []
input k : bool []
input s : f32 [n]
d : f32 [n] = add(s, s)
t : f32 [] = reduce_max(d) {keepdims = 0}
output k
output d
output t
end
const w : f32 [3] = [1, 2, 3]
r : f32 [n] = if(c, x) {else_branch = b, extents = [n], then_branch = a}
last, all = loop(m, _, r) {body = l, carried = 1, extents = [n, turns]}
nz : i64 [1, count] = nonzero(last) {extents = [1, count]}
flat : i64 [count] = reshape(nz) {shape = [count], allowzero = 1}
picked : f32 [count] = gather(last, flat) {axis = 0}
best : f32 [3] = neg(w)
u, f, v, g = unique(picked) {extents = [kinds, kinds, count, kinds]}
output picked
output all
output best
output u
)";
}

std::string Small() {
  return "graph small\ninput x : f32 [n, 4]\ninput k : i64 [2]\nconst one : f32 [] = 1\n"
         "y = add(x, one)\noutput y\noutput k\n";
}

Tensor Filled(const PortInfo& port, std::vector<int64_t> shape, std::mt19937_64& random) {
  absl::StatusOr<Tensor> made = TryAllocate(port.type, std::move(shape), kMostInput);
  if (!made.ok()) return Tensor();
  const auto bytes = static_cast<size_t>(made->size_bytes());
  auto* const data = static_cast<uint8_t*>(made->data());
  std::memset(data, 0, bytes);
  // Small numbers: integers may be places or extents.
  const size_t item = SizeOf(port.type);
  for (size_t at = 0; at < bytes; at += item) {
    if (port.type == DType::kF32) {
      const float value = static_cast<float>(random() % 64) * 0.25f - 8;
      std::memcpy(data + at, &value, sizeof value);
    } else if (!IsFloat(port.type)) {
      data[at] = static_cast<uint8_t>(random() % (port.type == DType::kBool ? 2 : 5));
    }
  }
  return *std::move(made);
}

absl::Status AddScript(const Graph& graph, const CompileOptions& options, PackageWriter& writer) {
  std::mt19937_64 random(1);
  std::vector<Tensor> sample;
  for (auto& [name, tensor] : FuzzInputs(PortInfosOf(graph, true), 2, random))
    sample.push_back(tensor);
  absl::Status ran;
  KILN_ASSIGN_OR_RETURN(const auto script, CompileScript(graph, options, {sample}, &ran));
  KILN_RETURN_IF_ERROR(ran);
  for (const std::shared_ptr<const Variant>& variant : VariantsOf(*script))
    KILN_RETURN_IF_ERROR(writer.Add(LowestTarget(), *variant));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> FuzzGraphs() { return {Rows(), Images(), Places(), Steps(), Small()}; }

std::vector<std::pair<std::string, Tensor>> FuzzInputs(const std::vector<PortInfo>& ports,
                                                       int64_t extent, std::mt19937_64& random) {
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const PortInfo& port : ports) {
    if (port.optional && random() % 2 == 0) continue;
    std::vector<int64_t> shape;
    for (const Dim& dim : port.shape) {
      std::set<std::string> symbols;
      dim.CollectSymbols(symbols);
      SymbolValues values;
      for (const std::string& symbol : symbols) values[symbol] = extent;
      shape.push_back(dim.Evaluate(values).value_or(1));
    }
    Tensor tensor = Filled(port, std::move(shape), random);
    if (tensor.data() != nullptr || tensor.num_elements() == 0)
      inputs.emplace_back(port.name, std::move(tensor));
  }
  return inputs;
}

absl::StatusOr<std::string> PackageOf(const std::string& text, const std::string& directory) {
  CompileOptions options;
  options.compile_mode = CompileMode::kNever;
  options.target = LowestTarget();
  KILN_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(text));
  const std::vector<PortInfo> inputs = PortInfosOf(graph, true);
  std::mt19937_64 random(1);
  TestCase test;
  for (auto& [name, tensor] : FuzzInputs(inputs, 2, random)) test.inputs.push_back(tensor);
  StoreOptions store_options;
  store_options.directory = directory;
  KILN_ASSIGN_OR_RETURN(const auto store, Store::Open(RealFileSystem(), store_options));
  PackageWriter writer(inputs, PortInfosOf(graph, false), options.math);
  KILN_RETURN_IF_ERROR(writer.AddTestCase(test));
  writer.SetNotes({"made by a test", {{"key", "value"}}, 7});
  if (HasDynamicNodes(graph)) {
    KILN_RETURN_IF_ERROR(AddScript(graph, options, writer));
    return writer.Encode(*store);
  }
  KILN_ASSIGN_OR_RETURN(const Compiled compiled, CompileGraph(graph, options));
  KILN_RETURN_IF_ERROR(writer.Add(LowestTarget(), compiled.variant));
  std::vector<InputInfo> info;
  for (size_t k = 0; k < inputs.size(); ++k) info.push_back({inputs[k].name, true, test.inputs[k]});
  KILN_ASSIGN_OR_RETURN(const Variant second, CompileFor(graph, options, info));
  KILN_RETURN_IF_ERROR(writer.Add(LowestTarget(), second));
  return writer.Encode(*store);
}

absl::Status RunAndRead(Model& model, int64_t extent, std::mt19937_64& random,
                        const std::vector<PortInfo>* ports, std::chrono::milliseconds longest) {
  RunControl control;
  control.deadline = RunControl::Clock::now() + longest;
  KILN_ASSIGN_OR_RETURN(
      const std::vector<Tensor> outputs,
      model.Run(FuzzInputs(ports != nullptr ? *ports : model.inputs(), extent, random), control));
  unsigned sum = 0;
  for (const Tensor& output : outputs) {
    const Tensor dense = output.is_dense() ? output : output.Clone();
    const auto* const bytes = static_cast<const uint8_t*>(dense.data());
    const int64_t size = dense.size_bytes();
    // Of gigabytes, which a forged shape may claim, one byte of each page.
    for (int64_t i = 0; i < size; i += i < kBytesReadWhole ? 1 : 4096) sum += bytes[i];
  }
  volatile unsigned read = sum;
  (void)read;
  return absl::OkStatus();
}

}  // namespace kiln
