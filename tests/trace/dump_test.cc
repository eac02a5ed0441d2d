// SPDX-License-Identifier: Apache-2.0
// Traced::dump: what each option does, and what is refused. The judge of a file is the trace.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "exec/package/package.h"
#include "exec/package/package.pb.h"
#include "graph/onnx/onnx.pb.h"
#include "kiln/trace_grad.h"
#include "tests/base/status_matchers.h"
#include "tests/trace/dump_fixture.h"

namespace kiln {
namespace {

onnx::ModelProto Onnx(const std::string& file) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(Contents(file)));
  return model;
}

TEST_F(DumpTest, NumbersThatDoublesArePaddedWithAreExact) {
  const Array doubles = Array::full({1}, 1, DType::kF64);
  for (const double number : {0.1, 1e308, 16777217.0, 5e-324}) {
    auto padded = trace([&](const Array& a) { return pad(a, {.pads = {0, 1}}, number); }, Exact());
    padded(doubles);
    for (const std::string& file : {onnx_, dir_.File("pad.graph"), kiln_}) {
      KILN_ASSERT_OK(padded.dump(file).status());
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> made, Run(file, {*doubles.tensor()}));
      EXPECT_EQ(static_cast<const double*>(made[0].data())[1], number) << file;
    }
  }
}

TEST_F(DumpTest, EachFormGivesWhatTheTraceGives) {
  auto step = Step();
  const Array y = step(x);
  for (const std::string& file : {onnx_, graph_, kiln_}) {
    KILN_ASSERT_OK_AND_ASSIGN(const DumpInfo info, step.dump(file));
    EXPECT_EQ(info.operations, 3);
    EXPECT_EQ(info.bytes, static_cast<int64_t>(Contents(file).size()));
    EXPECT_EQ(info.inputs, Strings{"arg_0"});
    EXPECT_EQ(info.outputs, Strings{"out_0"});
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(file, {*x.tensor()}));
    EXPECT_EQ(ValuesOf(got[0]), *y.to_vector<float>()) << file;
  }
}

TEST_F(DumpTest, ArgNamesAndOutputNamesAreThoseOfPorts) {
  auto step = Step();
  step(x);
  for (const std::string& file : {onnx_, graph_, kiln_}) {
    DumpOptions options;
    options.arg_names = {"x"};
    options.output_names = {"y:0"};
    KILN_ASSERT_OK_AND_ASSIGN(const DumpInfo info, step.dump(file, options));
    KILN_ASSERT_OK_AND_ASSIGN(const Model model, Compile(file, OnVm()));
    EXPECT_EQ(model.inputs()[0].name, "x");
    EXPECT_EQ(model.outputs()[0].name, "y:0");
  }
}

TEST_F(DumpTest, NamesThatDoNotFitAreRefused) {
  DumpOptions options;
  options.arg_names = {"x", "y"};
  EXPECT_HAS(Refused(graph_, options), "arg_names: 2 names, and 1 arguments");
  options.arg_names = {"x"};
  options.output_names = {"x"};
  EXPECT_HAS(Refused(graph_, options), "output_names \"x\": it names another one too");
  DumpOptions clash;
  clash.output_names = {"arg_0"};
  EXPECT_HAS(Refused(graph_, clash), "output_names \"arg_0\": it names another one too");
  options.output_names = {"\xff"};
  EXPECT_HAS(Refused(graph_, options), "expected UTF-8");
}

TEST_F(DumpTest, AppendIsRefused) {
  DumpOptions options;
  options.append = true;
  EXPECT_HAS(Refused(kiln_, options, kUnimplemented), "append: a file has one model");
}

TEST_F(DumpTest, KeepVarNameHasThreeLevels) {
  auto step = Step();
  step(x);
  DumpOptions options;
  options.keep_var_name = 0;
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  EXPECT_HAS(Contents(graph_), "output out_0 = v");
  options.output_names = {"y"};
  EXPECT_HAS(step.dump(graph_, options).status().message(), "keep_var_name 0 keeps no names");
  options.keep_var_name = 1;
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  EXPECT_HAS(Contents(graph_), "\noutput y\n");
  EXPECT_FALSE(absl::StrContains(Contents(graph_), "dump_fixture.h"));
  options.keep_var_name = 2;
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  EXPECT_HAS(Contents(graph_), "`relu:dump_fixture.h:");
  options.keep_var_name = 3;
  EXPECT_HAS(step.dump(graph_, options).status().message(), "keep_var_name 3: expected 0, 1 or 2");
}

TEST_F(DumpTest, KeepOprNameNamesOperatorsAndCountsEqualOnes) {
  auto step = trace(
      [](const Array& a) {
        Array b = a;
        for (int i = 0; i < 3; ++i) b = exp(b * w);
        return b;
      },
      Exact());
  step(x);
  DumpOptions options;
  for (const bool keeps : {false, true}) {
    options.keep_opr_name = keeps;
    KILN_ASSERT_OK(step.dump(onnx_, options).status());
    std::vector<std::string> names;
    const onnx::ModelProto model = Onnx(onnx_);
    for (const onnx::NodeProto& node : model.graph().node()) names.push_back(node.name());
    ASSERT_EQ(names.size(), 6u);
    EXPECT_EQ(absl::StartsWith(names[1], "exp:dump_test.cc:"), keeps) << names[1];
    EXPECT_EQ(absl::EndsWith(names[5], "[2]"), keeps) << names[5];
  }
  options.keep_opr_name = true;
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  EXPECT_HAS(Contents(graph_), "[2]\"");
}

TEST_F(DumpTest, KeepParamNameMakesCapturedArraysUpdatable) {
  auto step = Step();
  step(x);
  DumpOptions options;
  options.keep_param_name = true;
  for (const std::string& file : {onnx_, graph_}) {
    KILN_ASSERT_OK_AND_ASSIGN(const DumpInfo info, step.dump(file, options));
    EXPECT_EQ(info.parameters, Strings{"param_0"});
    CompileOptions compile = OnVm();
    compile.updatable = {"param_0"};
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(file, compile));
    KILN_ASSERT_OK(model.Update("param_0", *Of({2, 2, 2}).tensor()));
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, model.Run({{"arg_0", *x.tensor()}}));
    EXPECT_EQ(ValuesOf(got[0]), (Floats{3, 1, 7}));
  }
  EXPECT_HAS(Refused(kiln_, options, kUnimplemented), "keep_param_name: constants of a package");
}

TEST_F(DumpTest, OptimizeForInferenceFoldsConstants) {
  auto step = trace([](const Array& a) { return a * exp(w) + a * exp(w); }, Exact());
  const Array y = step(x);
  DumpOptions options;
  KILN_ASSERT_OK_AND_ASSIGN(const DumpInfo plain, step.dump(graph_, options));
  EXPECT_EQ(plain.operations, 5);
  options.optimize_for_inference.emplace();
  for (const std::string& file : {graph_, onnx_, kiln_}) {
    KILN_ASSERT_OK_AND_ASSIGN(const DumpInfo info, step.dump(file, options));
    EXPECT_LE(info.operations, 2);
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(file, {*x.tensor()}));
    EXPECT_EQ(ValuesOf(got[0]), *y.to_vector<float>());
  }
}

TEST_F(DumpTest, EnableIo16xc32StoresFloatsInHalfTheBits) {
  auto step =
      trace([](const Array& a) { return reduce_sum(softmax(a * w), {.keepdims = 0}); }, Exact());
  step(x);
  DumpOptions options;
  options.optimize_for_inference = {.enable_io16xc32 = true};
  for (const std::string& file : {graph_, onnx_, kiln_}) {
    KILN_ASSERT_OK(step.dump(file, options).status());
    KILN_ASSERT_OK_AND_ASSIGN(const Model model, Compile(file, OnVm()));
    EXPECT_EQ(model.inputs()[0].type, DType::kF32);
    EXPECT_EQ(model.outputs()[0].type, DType::kF16);
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(file, {*x.tensor()}));
    EXPECT_NEAR(HalfToFloat(*static_cast<const uint16_t*>(got[0].data())), 1, 2e-3);
  }
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  EXPECT_HAS(Contents(graph_), " : f16 [3] = [0.5, 0.25, 0.125]\n");
}

TEST_F(DumpTest, EnableIoc16IsRefused) {
  DumpOptions options;
  options.optimize_for_inference = {.enable_ioc16 = true};
  EXPECT_HAS(Refused(onnx_, options, kUnimplemented), "enable_ioc16");
}

// conv, then a bias by channel, an addend and relu; levels of the trace would keep them apart.
class DumpConvTest : public DumpTest {
 protected:
  std::string ThunksOf(const OptimizeForInference& wanted, int level = 0) const {
    TraceOptions trace_options = Exact();
    trace_options.compile.graph_opt_level = level;
    std::vector<float> weights(8 * 8 * 9, 0.01f), biases(8, 0.5f), ones(8 * 36, 1);
    const Array weight = Array::from(weights.data(), {8, 8, 3, 3}),
                bias = Array::from(biases.data(), {8, 1, 1}),
                image = Array::from(ones.data(), {1, 8, 6, 6});
    auto net = trace(
        [&](const Array& a, const Array& z) {
          return relu(conv(a, weight, {.pads = {1, 1, 1, 1}}) + bias + z);
        },
        trace_options);
    net(image, image);
    DumpOptions options;
    options.optimize_for_inference = wanted;
    const absl::StatusOr<DumpInfo> info = net.dump(kiln_, options);
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return "";
    const auto package = Package::OpenToLookAt(PackageSource::File(kiln_));
    EXPECT_TRUE(package.ok()) << package.status();
    program::Program program;
    EXPECT_TRUE(program.ParseFromString((*package)->stored().targets(0).variants(0).program()));
    std::string text;
    for (const program::Thunk& thunk : program.regions(0).thunks()) {
      if (thunk.has_library()) {
        absl::StrAppend(&text, thunk.library().op(), "(");
        for (const auto& post : thunk.library().post_ops())
          absl::StrAppend(&text, post.name(), " ");
        absl::StrAppend(&text, ") ");
      } else if (thunk.has_kernel()) {
        absl::StrAppend(&text, "kernel ");
      }
    }
    return text;
  }
};

TEST_F(DumpConvTest, FuseConvBiasNonlinearityTakesThemAlong) {
  EXPECT_EQ(ThunksOf({}), "conv() kernel kernel ");  // the bias is folded into the convolution
  EXPECT_EQ(ThunksOf({.layout = "nchw", .fuse_conv_bias_nonlinearity = true}), "conv(add relu ) ");
}

TEST_F(DumpConvTest, FuseConvBiasWithZTakesTheAddendAlong) {
  EXPECT_EQ(ThunksOf({.layout = "nchw", .fuse_conv_bias_with_z = true}), "conv(add relu ) ");
}

TEST_F(DumpConvTest, FusePreprocessMakesOneKernel) {
  TraceOptions trace_options = Exact();
  trace_options.compile.graph_opt_level = 0;
  auto net = trace([](const Array& a) { return (cast(a, {.to = DType::kF32}) - 128.0f) / 255.0f; },
                   trace_options);
  net(Array::from(std::vector<uint8_t>{1, 2, 3}));
  const auto kernels = [&](const OptimizeForInference& wanted) {
    DumpOptions options;
    options.optimize_for_inference = wanted;
    const absl::StatusOr<DumpInfo> info = net.dump(kiln_, options);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? info->kernels : -1;
  };
  EXPECT_EQ(kernels({}), 3);
  EXPECT_EQ(kernels({.fuse_preprocess = true}), 1);
}

TEST_F(DumpConvTest, LayoutSaysHowActivationsLie) {
  // nhwc raises the level; a kernel transposes the image before. nchw leaves the level alone.
  EXPECT_EQ(ThunksOf({.layout = "nhwc"}), "kernel conv(add relu ) ");
  EXPECT_EQ(ThunksOf({.layout = "nchw"}), "conv() kernel kernel ");
  for (const char* const blocked : {"nchw4", "nchw44_dot", "nhwcd4", "chwn4"}) {
    DumpOptions options;
    options.optimize_for_inference = {.layout = blocked};
    EXPECT_HAS(Refused(dir_.File("other.kiln"), options, kUnimplemented), "activations are dense");
  }
  DumpOptions options;
  options.optimize_for_inference = {.layout = "nwhc"};
  EXPECT_HAS(Refused(dir_.File("other.kiln"), options), "expected nchw or nhwc");
}

TEST_F(DumpTest, SwitchesOfPackagesAreRefusedInFilesOfOperators) {
  const OptimizeForInference all[] = {{.layout = "nhwc"},
                                      {.fuse_conv_bias_nonlinearity = true},
                                      {.fuse_conv_bias_with_z = true},
                                      {.fuse_preprocess = true}};
  for (const OptimizeForInference& wanted : all) {
    DumpOptions options;
    options.optimize_for_inference = wanted;
    EXPECT_HAS(Refused(onnx_, options, kUnimplemented), "decided when it is loaded");
  }
}

TEST_F(DumpTest, StripInfoListsOperatorsAndTypes) {
  auto step = Step();
  step(x);
  DumpOptions options;
  options.strip_info_file = dir_.File("strip.json");
  const auto models = [&] {
    const auto file = nlohmann::json::parse(Contents(options.strip_info_file));
    EXPECT_EQ(file["schema"], "kiln.strip_info/1");
    return file["models"];
  };
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  ASSERT_EQ(models().size(), 1u);
  EXPECT_EQ(models()[0]["model"], "m.graph");
  EXPECT_EQ(models()[0]["operators"], nlohmann::json({"add", "mul", "relu"}));
  EXPECT_EQ(models()[0]["dtypes"], nlohmann::json({"f32"}));
  options.append_json = true;
  KILN_ASSERT_OK(step.dump(onnx_, options).status());
  ASSERT_EQ(models().size(), 2u);
  EXPECT_EQ(models()[1]["model"], "m.onnx");
  std::ofstream(options.strip_info_file) << "[1, 2]";
  EXPECT_HAS(step.dump(onnx_, options).status().message(), "is no kiln.strip_info/1");
  options.strip_info_file.clear();
  EXPECT_HAS(step.dump(onnx_, options).status().message(), "append_json: it is about");
}

TEST_F(DumpTest, NotesAreInTheFile) {
  auto step = Step();
  step(x);
  DumpOptions options;
  options.user_info = "made by \"us\"\nf\xc3\xbcr alle";
  options.metadata = {{"commit", "abc"}, {"license", "none"}};
  options.model_version = 7;
  KILN_ASSERT_OK(step.dump(onnx_, options).status());
  const onnx::ModelProto model = Onnx(onnx_);
  EXPECT_EQ(model.model_version(), 7);
  ASSERT_EQ(model.metadata_props_size(), 3);
  EXPECT_EQ(model.metadata_props(0).key(), "user_info");
  EXPECT_EQ(model.metadata_props(0).value(), options.user_info);
  EXPECT_EQ(model.metadata_props(2).value(), "none");
  KILN_ASSERT_OK(step.dump(graph_, options).status());
  EXPECT_HAS(Contents(graph_), "# user_info \"made by \\\"us\\\"\\nf\xc3\xbcr alle\"\n");
  EXPECT_HAS(Contents(graph_), "# metadata \"license\" \"none\"\n# model_version 7\n");
  KILN_ASSERT_OK(Compile(graph_, OnVm()).status());
  KILN_ASSERT_OK(step.dump(kiln_, options).status());
  KILN_ASSERT_OK_AND_ASSIGN(const auto package, Package::Open(PackageSource::File(kiln_)));
  EXPECT_EQ(package->notes().user_info, options.user_info);
  EXPECT_EQ(package->notes().metadata, options.metadata);
  EXPECT_EQ(package->notes().model_version, 7);
  options.user_info = "\xff";
  EXPECT_HAS(Refused(dir_.File("other.kiln"), options), "user_info and metadata are UTF-8");
}

TEST_F(DumpTest, RecordsThatAreNoModelAreRefused) {
  TraceOptions plain = Exact();
  plain.capture_as_const = false;
  auto inputs = trace([](const Array& a) { return a * w; }, plain);
  EXPECT_HAS(inputs.dump(graph_).status().message(), "it has no record yet; call it");
  inputs(x);
  EXPECT_HAS(inputs.dump(graph_).status().message(), "trace it with capture_as_const");
  auto reads = trace(
      [](const Array& a) { return a * *reduce_sum(a, {.keepdims = 0}).item<float>(); }, Exact());
  reads(x);
  KILN_ASSERT_OK(reads.status());
  EXPECT_HAS(reads.dump(graph_).status().message(), "it reads a value");
  auto step = Step();
  step(x);
  EXPECT_HAS(step.dump(dir_.File("m.txt")).status().message(), "none of .onnx, .graph and .kiln");
  auto moved = std::move(step);
  EXPECT_HAS(step.dump(graph_).status().message(), "moved from");
  EXPECT_EQ(moved.dump(dir_.File("none/m.graph")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DumpTest, NotWhileACallIsRunning) {
  std::function<absl::Status()> dump_now;
  auto step = trace(
      [&](const Array& a) {
        if (dump_now) EXPECT_EQ(TraceErrorOf(dump_now()), TraceError::kThread);
        return a * w;
      },
      Exact());
  step(x);
  dump_now = [&] { return step.dump(graph_).status(); };
  step(x);
  KILN_EXPECT_OK(step.status());
  KILN_EXPECT_OK(dump_now());
}

TEST_F(DumpTest, TextOfLargeConstantsIsRefused) {
  const std::vector<float> many(20000, 1.0f / 3);
  const Array large = Array::from(many);
  auto step = trace([&](const Array& a) { return a + large; }, Exact());
  const Array y = step(Array::full({1}, 1));
  EXPECT_HAS(step.dump(graph_).status().message(), "constant f32 [20000] has 80000 bytes");
  for (const std::string& file : {onnx_, kiln_}) {
    KILN_ASSERT_OK(step.dump(file).status());
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(file, {*Array::full({1}, 1).tensor()}));
    EXPECT_EQ(ValuesOf(got[0]), *y.to_vector<float>());
  }
}

TEST_F(DumpTest, RecordOnlyAndFrozenFunctionsAreDumped) {
  TraceOptions options = Exact();
  options.record_only = true;
  auto unrun = trace([](const Array& a) { return exp(a) * w; }, options);
  unrun(x);
  KILN_ASSERT_OK(unrun.dump(graph_).status());
  auto frozen = freeze([](const Array& a) { return exp(a) * w; }, Exact());
  const Array y = frozen(x);
  KILN_ASSERT_OK(frozen.dump(onnx_).status());
  for (const std::string& file : {graph_, onnx_}) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(file, {*x.tensor()}));
    EXPECT_EQ(ValuesOf(got[0]), *y.to_vector<float>());
  }
}

TEST_F(DumpTest, ResultsMayBeArgumentsConstantsAndTheSame) {
  auto step = trace(
      [](const Array& a, const Array& b) {
        const Array c = a * 2.0f;
        return std::vector<Array>{c, a, w, c, b};
      },
      Exact());
  step(x, w);
  for (const std::string& file : {graph_, onnx_, kiln_}) {
    KILN_ASSERT_OK(step.dump(file).status());
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(file, {*x.tensor(), *w.tensor()}));
    ASSERT_EQ(got.size(), 5u);
    EXPECT_EQ(ValuesOf(got[0]), (Floats{2, -4, 6}));
    EXPECT_EQ(ValuesOf(got[1]), (Floats{1, -2, 3}));
    EXPECT_EQ(ValuesOf(got[2]), *w.to_vector<float>());
    EXPECT_EQ(ValuesOf(got[3]), ValuesOf(got[0]));
  }
}

// The pool's gradient divides by counts, an array that is a constant of the record.
TEST_F(DumpTest, GradientsAreDumped) {
  auto step = trace(value_and_grad([](const Array& a) {
                      const Array y = average_pool(a, {.kernel = {2, 2}, .pads = {1, 1, 0, 0}});
                      return reduce_sum(y * y, {.keepdims = 0});
                    }),
                    Exact());
  const Array image = Array::from(Floats{1, 2, 3, 4}.data(), {1, 1, 2, 2});
  const auto expected = step(image);
  for (const std::string& file : {graph_, onnx_, kiln_}) {
    KILN_ASSERT_OK(step.dump(file).status());
    KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(file, {*image.tensor()}));
    ASSERT_EQ(got.size(), 2u);
    for (size_t k = 0; k < 2; ++k)
      EXPECT_EQ(ValuesOf(got[k]), *expected[k].to_vector<float>()) << file;
  }
}

TEST_F(DumpTest, PackagesHaveCodeWhereTheyAreCompiled) {
  TraceOptions options = Exact();
  options.compile.compile_mode = CompileMode::kBackground;
  auto uncached = trace([](const Array& a) { return exp(a) * w; }, options);
  uncached(x);
  EXPECT_HAS(uncached.dump(kiln_).status().message(), "there is no cache that may be written");
  options.compile.cache = {true, dir_.File("cache")};
  auto step = trace([](const Array& a) { return exp(a) * w; }, options);
  const Array y = step(x);
  KILN_ASSERT_OK_AND_ASSIGN(const DumpInfo info, step.dump(kiln_));
  EXPECT_EQ(info.kernels, 1);
  EXPECT_EQ(info.on_vm, 0);
  KILN_ASSERT_OK_AND_ASSIGN(const auto package, Package::Open(PackageSource::File(kiln_)));
  EXPECT_EQ(package->compiled(), 1);
  KILN_ASSERT_OK_AND_ASSIGN(const auto got, Run(kiln_, {*x.tensor()}));
  EXPECT_EQ(ValuesOf(got[0]), *y.to_vector<float>());
}

}  // namespace
}  // namespace kiln
