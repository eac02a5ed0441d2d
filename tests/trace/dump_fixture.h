// SPDX-License-Identifier: Apache-2.0
// A traced function, files that it is dumped to, and what these give.
#ifndef KILN_TESTS_TRACE_DUMP_FIXTURE_H_
#define KILN_TESTS_TRACE_DUMP_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "base/npy.h"
#include "exec/package/package.h"
#include "kiln/compile.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "tests/base/temp_dir.h"
#include "tests/trace/arrays.h"

namespace kiln {

using Strings = std::vector<std::string>;

inline TraceOptions Exact(const std::string& name = "step") {
  TraceOptions options;
  options.name = name;
  options.capture_as_const = true;
  options.compile = OnVm();
  return options;
}

inline const Array x = Of({1, -2, 3}), w = Of({0.5f, 0.25f, 0.125f});

// relu(x * w) + 1, with w captured.
inline auto Step() {
  return trace([](const Array& a) { return relu(a * w) + 1.0f; }, Exact());
}

class DumpTest : public testing::Test {
 protected:
  // The values that a file gives for inputs in its order.
  static absl::StatusOr<std::vector<Tensor>> Run(const std::string& file,
                                                 const std::vector<Tensor>& inputs,
                                                 CompileOptions options = OnVm()) {
    absl::StatusOr<Model> model = Compile(file, options);
    if (!model.ok()) return model.status();
    NamedTensors named;
    for (size_t k = 0; k < inputs.size(); ++k)
      named.emplace_back(model->inputs()[k].name, inputs[k]);
    return model->Run(named);
  }
  static Floats ValuesOf(const Tensor& tensor) {
    const auto* const data = static_cast<const float*>(tensor.data());
    return {data, data + tensor.num_elements()};
  }
  std::string Npy(const std::string& name, const std::vector<float>& values,
                  const std::vector<int64_t>& shape) const {
    const std::string path = dir_.File(name);
    EXPECT_TRUE(
        WriteNpy(path, Tensor::View(const_cast<float*>(values.data()), DType::kF32, shape)).ok());
    return path;
  }
  // The inputs and outputs of the test cases that dumping with these options stores.
  std::vector<TestCase> CasesOf(const DumpOptions& options) const {
    auto step = Step();
    step(x);
    const absl::StatusOr<DumpInfo> info = step.dump(kiln_, options);
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return {};
    const auto package = Package::Open(PackageSource::File(kiln_));
    EXPECT_TRUE(package.ok()) << package.status();
    absl::StatusOr<std::vector<TestCase>> cases = (*package)->TestCases();
    EXPECT_TRUE(cases.ok()) << cases.status();
    return cases.ok() ? *std::move(cases) : std::vector<TestCase>();
  }
  // What is refused of a dump.
  std::string Refused(const std::string& file, const DumpOptions& options,
                      absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    auto step = Step();
    step(x);
    const absl::Status status = step.dump(file, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_FALSE(std::filesystem::exists(file));
    return std::string(status.message());
  }

  TempDir dir_;
  const std::string onnx_ = dir_.File("m.onnx"), graph_ = dir_.File("m.graph"),
                    kiln_ = dir_.File("m.kiln");
  static constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;
};

#define EXPECT_HAS(text, part) EXPECT_TRUE(absl::StrContains(text, part)) << text

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_DUMP_FIXTURE_H_
