// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/conformance/backend_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "graph/onnx/import.h"
#include "graph/onnx/tensor_proto.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "tests/onnx/conformance/package_case.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTensorFile = int64_t{1} << 30;

absl::StatusOr<std::vector<Tensor>> ReadTensors(const std::string& folder,
                                                const std::string& stem) {
  std::vector<Tensor> tensors;
  while (true) {
    const std::string path = absl::StrCat(folder, "/", stem, "_", tensors.size(), ".pb");
    if (!fs::exists(path)) return tensors;
    KILN_ASSIGN_OR_RETURN(const std::string bytes, RealFileSystem().ReadFile(path, kMaxTensorFile));
    absl::StatusOr<Tensor> tensor = onnx::ReadTensorProto(bytes);
    if (!tensor.ok()) return Annotate(tensor.status(), path);
    tensors.push_back(*std::move(tensor));
  }
}

// The graph's inputs, in its order.
absl::StatusOr<std::vector<Value>> Inputs(const std::string& model) {
  KILN_ASSIGN_OR_RETURN(const OnnxImport import, ImportOnnx(model, {.allow_unsupported = true}));
  std::vector<Value> inputs;
  for (const ValueId id : import.graph.inputs()) inputs.push_back(import.graph.value(id));
  return inputs;
}

// The shapes of all inputs, if one has another than the file declares: ONNX's own runner gives such
// data to the model all the same.
std::map<std::string, Shape> OtherShapes(
    const std::vector<Value>& ports, const std::vector<std::pair<std::string, Tensor>>& inputs) {
  bool other = false;
  std::map<std::string, Shape> shapes;
  for (size_t k = 0; k < ports.size(); ++k) {
    const std::vector<int64_t>& got = inputs[k].second.shape();
    other = other || got.size() != ports[k].shape.size();
    for (size_t i = 0; !other && i < got.size(); ++i)
      other = ports[k].shape[i].constant().value_or(got[i]) != got[i];
    shapes[inputs[k].first] = ToShape(got);
  }
  return other ? shapes : std::map<std::string, Shape>();
}

absl::StatusOr<std::vector<Tensor>> Interpreted(
    const std::string& model, const std::vector<std::pair<std::string, Tensor>>& inputs,
    const std::map<std::string, Shape>& shapes) {
  const std::map<std::string, Tensor> by_name(inputs.begin(), inputs.end());
  KILN_ASSIGN_OR_RETURN(const OnnxImport import,
                        ImportOnnxFor(model, by_name, {.input_shapes = shapes}));
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : inputs) tensors.push_back(tensor);
  absl::StatusOr<std::vector<Tensor>> outputs = Interpret(import.graph, tensors);
  if (outputs.ok() || !absl::IsFailedPrecondition(outputs.status())) return outputs;
  OnnxImportOptions fixed;  // a guard on the extents does not hold: import for these
  for (const auto& [name, tensor] : inputs) fixed.input_shapes[name] = ToShape(tensor.shape());
  KILN_ASSIGN_OR_RETURN(const OnnxImport again, ImportOnnxFor(model, by_name, fixed));
  return Interpret(again.graph, tensors);
}

// The share of elements that are zero.
double ZeroShare(const Tensor& tensor) {
  int64_t zeros = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    zeros += IsFloat(tensor.dtype()) ? ReadFloat(tensor, i) == 0 : ReadInt(tensor, i) == 0;
  }
  return static_cast<double>(zeros) /
         static_cast<double>(std::max<int64_t>(1, tensor.num_elements()));
}

absl::Status Judged(const Tensor& got, const Tensor& want, Judge judge) {
  if (judge == Judge::kValues) {
    const Comparison comparison = Compare(got, want, kCaseRtol, kCaseAtol);
    return comparison.ok ? absl::OkStatus() : absl::InternalError(comparison.what);
  }
  const double off = std::abs(ZeroShare(got) - ZeroShare(want));
  if (got.dtype() == want.dtype() && got.shape() == want.shape() && off <= 0.25)
    return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("type, shape or share of zeros (off by ", off, ") differ"));
}

// Old data have the bits of a bf16 as a u16.
void MendType(Tensor& tensor, DType type) {
  if (tensor.dtype() == DType::kU16 && type == DType::kBF16)
    tensor = Tensor::View(tensor.data(), type, tensor.shape(), {}, tensor.owner());
}

absl::Status RunDataSet(const std::string& model, const std::string& data, Evaluator executor,
                        Judge judge, const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> given, ReadTensors(data, "input"));
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> expected, ReadTensors(data, "output"));
  KILN_ASSIGN_OR_RETURN(const std::vector<Value> ports, Inputs(model));
  if (expected.empty() || ports.size() != given.size()) {
    return absl::UnimplementedError(absl::StrCat("has ", given.size(), " input tensors for ",
                                                 ports.size(), " inputs, and ", expected.size(),
                                                 " outputs"));
  }
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (size_t k = 0; k < ports.size(); ++k) {
    MendType(given[k], ports[k].type);
    inputs.emplace_back(ports[k].name, std::move(given[k]));
  }
  const std::map<std::string, Shape> shapes = OtherShapes(ports, inputs);
  std::vector<Tensor> outputs;
  if (executor == Evaluator::kInterpreter) {
    KILN_ASSIGN_OR_RETURN(outputs, Interpreted(model, inputs, shapes));
  } else if (!shapes.empty()) {
    KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(model, {.input_shapes = shapes}));
    KILN_ASSIGN_OR_RETURN(Model compiled, Compile(std::move(import.graph), options));
    KILN_ASSIGN_OR_RETURN(outputs, compiled.Run(inputs));
  } else {
    KILN_ASSIGN_OR_RETURN(Model compiled, Compile(model, options));
    KILN_ASSIGN_OR_RETURN(outputs, compiled.Run(inputs));
  }
  if (executor == Evaluator::kPackage) {
    KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> packaged,
                          RunAsPackage(model, inputs, shapes, options));
    if (judge == Judge::kValues) KILN_RETURN_IF_ERROR(SameBits(packaged, outputs));
    outputs = packaged;
  }
  if (outputs.size() < expected.size()) {
    return absl::InternalError(
        absl::StrCat("gives ", outputs.size(), " outputs, expected ", expected.size()));
  }
  for (size_t k = 0; k < expected.size(); ++k) {
    MendType(expected[k], outputs[k].dtype());
    KILN_RETURN_IF_ERROR(
        Annotate(Judged(outputs[k], expected[k], judge), absl::StrCat("output ", k)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunBackendCase(const std::string& folder, Evaluator executor, Judge judge,
                            const CompileOptions& options) {
  int sets = 0;
  for (;; ++sets) {
    const std::string data = absl::StrCat(folder, "/test_data_set_", sets);
    if (!fs::exists(data)) break;
    KILN_RETURN_IF_ERROR(RunDataSet(folder + "/model.onnx", data, executor, judge, options));
  }
  return sets > 0 ? absl::OkStatus() : absl::UnimplementedError("has no data");
}

std::vector<std::string> BackendCases(const std::string& root) {
  std::vector<std::string> cases;
  for (const auto& suite : fs::directory_iterator(root)) {
    if (!suite.is_directory()) continue;
    for (const auto& entry : fs::directory_iterator(suite)) {
      const std::string name = entry.path().filename();
      if (name.rfind("test_", 0) == 0 && fs::exists(entry.path() / "model.onnx"))
        cases.push_back(absl::StrCat(suite.path().filename().string(), "/", name));
    }
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

}  // namespace kiln
