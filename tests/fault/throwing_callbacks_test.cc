// SPDX-License-Identifier: Apache-2.0
// Functions of the host that throw: each call of Kiln ends with a Status, or goes on without them.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "compiler/compile.h"
#include "graph/custom_op.h"
#include "kiln/cache.h"
#include "persistent_cache/store.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

class ThrowingSink : public LogSink {
 public:
  void Write(LogLevel, absl::string_view) override { throw std::runtime_error("sink"); }
};

enum class Throws { kNowhere, kCompose, kInfer, kRun };

std::shared_ptr<const CustomOp> Copy(Throws throws, bool composes) {
  auto op = std::make_shared<CustomOp>();
  op->domain = "test";
  op->name = "Copy";
  if (composes) {
    op->compose = [throws](GraphBuilder&, const CustomCall& call) {
      if (throws == Throws::kCompose) throw std::bad_alloc();
      return absl::StatusOr<std::vector<ValueId>>(call.inputs);
    };
    return op;
  }
  op->infer = [throws](std::span<const Value* const> inputs, const Attrs&) {
    if (throws == Throws::kInfer) throw std::runtime_error("infer");
    return absl::StatusOr<std::vector<CustomOutput>>({{inputs[0]->type, inputs[0]->shape}});
  };
  op->run = [throws](std::span<const Tensor> inputs, const Attrs&, std::span<Tensor> outputs) {
    if (throws == Throws::kRun) throw 7;
    std::memcpy(outputs[0].data(), inputs[0].data(), 4 * sizeof(float));
    return absl::OkStatus();
  };
  return op;
}

class ThrowingCallbacks : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    const std::string graph =
        OnnxGraph({OnnxNode("Copy", {"x"}, {"y"}, {}, "test"), OnnxNode("Relu", {"y"}, {"z"})},
                  {OnnxValue("x", kFloat, {4})}, {OnnxValue("z", kFloat, {4})});
    std::ofstream(path_, std::ios::binary)
        << OnnxModel(17, graph) +
               BytesField(8, BytesField(1, std::string("test")) + NumberField(2, 1));
    options_.cache.directory = dir_.File("cache");
    options_.threads = 2;
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }
  absl::Status CompileAndRun() {
    absl::StatusOr<Model> model = Compile(path_, options_);
    if (!model.ok()) return model.status();
    return model->Run({{"x", Tensor::Allocate(DType::kF32, {4})}}).status();
  }

  const TempDir dir_;
  const std::string path_ = dir_.File("model.onnx");
  CompileOptions options_;
};

TEST_F(ThrowingCallbacks, OfCustomOpsAreErrorsOfTheCall) {
  const std::pair<Throws, bool> cases[] = {
      {Throws::kCompose, true}, {Throws::kInfer, false}, {Throws::kRun, false}};
  for (const auto& [throws, composes] : cases) {
    options_.custom_ops = {Copy(throws, composes)};
    EXPECT_FALSE(CompileAndRun().ok()) << static_cast<int>(throws);
    options_.custom_ops = {Copy(Throws::kNowhere, composes)};
    KILN_EXPECT_OK(CompileAndRun());
  }
}

TEST_F(ThrowingCallbacks, OnPlanIsAnErrorOfCompile) {
  options_.custom_ops = {Copy(Throws::kNowhere, false)};
  options_.on_plan = [](const PlanInfo&) { throw std::length_error("on_plan"); };
  EXPECT_TRUE(absl::IsResourceExhausted(CompileAndRun())) << CompileAndRun();
}

TEST_F(ThrowingCallbacks, SinksAndEventsHinderNothing) {
  int events = 0;
  CacheSettings settings;
  settings.directory = dir_.File("cache");
  settings.on_event = [&](const CacheEvent&) {
    ++events;
    throw std::runtime_error("on_event");
  };
  KILN_ASSERT_OK_AND_ASSIGN(options_.cache.open, Cache::Open(settings));
  options_.custom_ops = {Copy(Throws::kNowhere, true)};
  ThrowingSink sink;
  LogSink* const before = SetLogSink(&sink);
  SetLogLevel(LogLevel::kDebug);
  for (int round = 0; round < 2; ++round) KILN_EXPECT_OK(CompileAndRun());  // cold and warm
  SetLogSink(before);
  EXPECT_GT(events, 0);
}

}  // namespace
}  // namespace kiln
