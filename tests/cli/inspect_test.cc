// SPDX-License-Identifier: Apache-2.0
// kiln inspect: the kernel of a group reads as it should, and the other forms of it are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/npy.h"
#include "graph/tensors.h"
#include "nlohmann/json.hpp"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class InspectTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_.File(name)) << text;
    return dir_.File(name);
  }
  TempDir dir_;
};

TEST_F(InspectTest, SoftmaxOfScaledAndMaskedRowsIsTheKernelOfTheDesign) {
  const std::string model = Write("rows.graph",
                                  "graph rows\n"
                                  "input x : f32 [n, m]\n"
                                  "input mask : f32 [m]\n"
                                  "const scale : f32 [] = 0.3\n"
                                  "t = mul(x, scale)\n"
                                  "u = add(t, mask)\n"
                                  "z = softmax(u) {axis = 1}\n"
                                  "output z\n");
  const ProcessResult result = Kiln({"inspect", model, "--group", "0", "--emit", "kernel"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.out,
            "kernel v1 math 1\n"
            "dims a b\n"
            "in   0 f32 [a, b] dense\n"
            "in   1 f32 [b] dense\n"
            "par  0 f32\n"
            "s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])\n"
            "s1 : f32 [a]    = reduce max over b (s0[a, b])\n"
            "s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))\n"
            "s3 : f32 [a]    = reduce add over b (s2[a, b])\n"
            "s4 : f32 [a]    = div(1, s3[a])\n"
            "out  0 f32 [a, b] dense = mul(s2[a, b], s4[a])\n");
}

TEST_F(InspectTest, DumpsHoldTheCodeOfEveryKernel) {
  const std::string model =
      Write("relu.graph", "graph relu\ninput x : f32 [n]\ny = relu(x)\noutput y\n");
  const ProcessResult result =
      Kiln({"run", model, "-q"},
           {.environment = {{"KILN_DUMP", "ir,stmt,asm"}, {"KILN_DUMP_DIR", dir_.File("dump")}}});
  EXPECT_EQ(result.exit, 0) << result.err;
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(dir_.File("dump"))) {
    names.push_back(file.path().filename());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"0.ir.kernel0.0.txt", "1.stmt.kernel0.0.txt",
                                             "2.asm.kernel0.0.txt"}));
}

TEST_F(InspectTest, KernelFilesGoThroughTheWorker) {
  const std::string kernel =
      Write("abc.kernel",
            "kernel v1 math 1\ndims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\nin 2 f32 [a] dense\n"
            "out 0 f32 [a] dense = mul(mul(in0[a], in1[a]), in2[a])\n");
  EXPECT_NE(
      Kiln({"inspect", kernel, "--emit", "kernel"}).out.find("mul(mul(in0[a], in1[a]), in2[a])"),
      std::string::npos);
  const std::string picture = Kiln({"inspect", kernel, "--emit", "schedule"}).out;
  EXPECT_THAT(picture, testing::HasSubstr("pointwise"));
  EXPECT_THAT(picture, testing::HasSubstr("in0  by out0 along vectors"));
  EXPECT_THAT(picture, testing::HasSubstr("price of a = 256"));
  EXPECT_NE(Kiln({"inspect", kernel, "--emit", "asm"}).out.find("vmulps"), std::string::npos);
  EXPECT_NE(Kiln({"inspect", kernel, "--emit", "stmt"}).out.find("parallel"), std::string::npos);
  EXPECT_EQ(
      Kiln({"inspect", Write("bad.kernel", "kernel v1 math 1\nout 0 f32 [a] dense = 1\n")}).exit,
      3);
}

TEST_F(InspectTest, EmitsOfAGroupWhatItsTargetHas) {
  const std::string model = Write("m.graph", "graph m\ninput x : f32 [n]\ny = exp(x)\noutput y\n");
  const auto refused = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"inspect", model};
    words.insert(words.end(), flags.begin(), flags.end());
    const ProcessResult result = Kiln(words);
    EXPECT_EQ(result.exit, 2) << result.out;
    return result.err;
  };
  EXPECT_EQ(refused({"--emit", "asm", "--target", "x86-64-v3"}),
            "kiln: --emit asm: name a group, as --group N\n");
  EXPECT_EQ(refused({"--group", "0", "--emit", "ptx", "--target", "x86-64-v3"}),
            "kiln: --emit ptx: is of kernels for GPUs (--target cuda-sm90); those for x86-64-v3 "
            "have kernel, schedule, ir, stmt, asm\n");
  EXPECT_EQ(refused({"--group", "0", "--emit", "stmt", "--target", "cuda-sm90"}),
            "kiln: --emit stmt: is of kernels for CPUs (--target x86-64-v3); those for cuda-sm90 "
            "have kernel, schedule, ptx, launch, ptxas, sass\n");
}

TEST_F(InspectTest, JsonHasPortsAndGroups) {
  const std::string model =
      Write("g.graph", "graph g\ninput x : f32 [n, 4]\ny = exp(x)\noutput y\n");
  const auto results = nlohmann::json::parse(Kiln({"inspect", model, "--json"}).out)["results"];
  EXPECT_EQ(results["inputs"][0]["shape"], nlohmann::json({"n", 4}));
  EXPECT_EQ(results["outputs"][0]["name"], "y");
  EXPECT_EQ(results["nodes"], 1);
  EXPECT_TRUE(results["unsupported"].empty());
  EXPECT_EQ(Kiln({"inspect", model, "--group", "99"}).exit, 2);
}

TEST_F(InspectTest, ExplainGivesAReasonForEveryEdge) {
  const std::string model = Write("g.graph",
                                  "graph g\ninput x : f32 [n, 4]\ninput w : f32 [4, 4]\ny = "
                                  "exp(x)\nz = neg(y)\nm = matmul(z, w)\noutput m\n");
  const auto results = nlohmann::json::parse(Kiln({"explain", model, "--json"}).out)["results"];
  ASSERT_EQ(results["edges"].size(), 2u);
  EXPECT_EQ(results["fused"], 1);
  for (const auto& edge : results["edges"])
    EXPECT_EQ(edge["fused"].get<bool>(), edge["reason"].get<std::string>().empty());
  EXPECT_EQ(results["traffic"]["launches"], 2);
  EXPECT_EQ(results["traffic"]["groups"].size(), 2u);
  EXPECT_EQ(Kiln({"explain", model, "--node", "nobody"}).exit, 2);
}

TEST_F(InspectTest, ExplainListsCopiesBetweenHostAndDevice) {
  const std::string model = Write("g.graph",
                                  "graph g\ninput x : f32 [n, 4]\ny = exp(x)\nt, i = top_k(y) {k "
                                  "= 2}\nz = neg(t)\noutput z\n");
  const auto copies = [&](const std::string& device) {
    std::string told;
    const auto results =
        nlohmann::json::parse(Kiln({"explain", model, "--json", "--device", device}).out);
    for (const auto& copy : results["results"]["copies"])
      told += copy["value"].get<std::string>() + " to " + copy["to"].get<std::string>() + " for " +
              copy["for"].get<std::string>() + ": " + copy["why"].get<std::string>() + "\n";
    return told;
  };
  EXPECT_EQ(copies("cuda-emulated"),
            "x to device for y: a kernel of the device\n"
            "y to host for t: the device has no top_k; the library's runs\n"
            "t to device for z: a kernel of the device\n"
            "z to host for the caller: the caller's memory is the host's\n");
  EXPECT_EQ(copies("cpu"), "");
}

// A model for a GPU says what of it does not run there: to who asks, on its page, in the log.
TEST_F(InspectTest, WhatRunsOnTheCpuInPlaceOfTheDeviceIsTold) {
  const std::string model = Write("g.graph",
                                  "graph g\ninput x : f32 [n, 4]\ny = exp(x)\nt, i = top_k(y) {k "
                                  "= 2}\nz = neg(t)\noutput z\n");
  const char kWhy[] = "the device has no top_k; the library's runs";
  const auto on_cpu = [&](const std::string& device) {
    return nlohmann::json::parse(
        Kiln({"explain", model, "--json", "--device", device}).out)["results"]["on_cpu"];
  };
  EXPECT_EQ(on_cpu("cuda-emulated"), nlohmann::json({{{"nodes", "t"}, {"why", kWhy}}}));
  EXPECT_TRUE(on_cpu("cpu").empty());
  EXPECT_THAT(Kiln({"explain", "-q", model, "--device", "cuda-emulated"}).out,
              AllOf(HasSubstr(kWhy), HasSubstr("1 of 3 launches on the CPU, not on cuda-sm80")));
  const auto report = [&](const std::string& device) {
    const std::string page = dir_.File("r.html");
    EXPECT_EQ(Kiln({"report", model, "--device", device, "-o", page}).exit, 0);
    std::ostringstream text;
    text << std::ifstream(page).rdbuf();
    return text.str();
  };
  EXPECT_THAT(report("cuda-emulated"), HasSubstr("1 of 3 launches: t (the device has no top_k"));
  EXPECT_THAT(report("cpu"), testing::Not(HasSubstr("On the CPU")));
}

TEST_F(InspectTest, ExplainSaysHowKernelsOfMoreElementsThan32BitsRun) {
  const auto large = [&](const std::string& text) {
    const auto results =
        nlohmann::json::parse(Kiln({"explain", Write("g.graph", text), "--json"}).out)["results"];
    return results["traffic"]["groups"][0].value("large", "");
  };
  EXPECT_EQ(large("graph g\ninput x : u8 [60000, 50000]\ny = add(x, x)\noutput y\n"), "2 pieces");
  EXPECT_EQ(large("graph g\ninput x : i8 [3000000000]\ny = reduce_max(x) {axes = [0]}\noutput y\n"),
            "VM, 64-bit indices");
  EXPECT_EQ(large("graph g\ninput x : u8 [20000, 50000]\ny = add(x, x)\noutput y\n"), "");
}

TEST_F(InspectTest, ExplainSaysWhoComputesLibraryCallsAndWhyNotOthers) {
  const std::string model = Write("g.graph",
                                  "graph g\ninput x : f32 [4, 4]\ninput w : f64 [4, 4]\n"
                                  "m = matmul(x, x)\no = matmul(w, w)\n"
                                  "output m\noutput o\n");
  const auto calls = nlohmann::json::parse(
      Kiln({"explain", model, "--library", "--json", "-q"}).out)["results"]["library"];
  ASSERT_EQ(calls.size(), 2u);
  // The last one computes; those before it say why they do not.
  EXPECT_EQ(calls[0]["considered"].back()["refusal"], "");
  EXPECT_FALSE(calls[0]["code"].get<std::string>().empty());
  const auto& considered = calls[1]["considered"];
  EXPECT_EQ(considered.back()["implementation"], "loop");
  EXPECT_TRUE(std::any_of(considered.begin(), considered.end(), [](const auto& one) {
    return one["refusal"] == "type f64; takes f32";
  })) << considered;
  EXPECT_EQ(Kiln({"explain", model, "--library", "--input", "nobody=ones"}).exit, 2);
}

TEST_F(InspectTest, ExplainSaysWhichLibrariesADeviceHas) {
  const std::string model =
      Write("g.graph", "graph g\ninput x : f32 [4, 4]\nm = matmul(x, x)\noutput m\n");
  const auto there = nlohmann::json::parse(
      Kiln({"explain", model, "--library", "--json", "-q", "--device", "cuda-emulated"})
          .out)["results"]["device_libraries"];
  ASSERT_EQ(there.size(), 2u);
  EXPECT_EQ(there[0]["name"], "cuBLASLt");
  EXPECT_EQ(there[1]["name"], "cuDNN");
  for (const auto& one : there)
    EXPECT_NE(one["missing"].get<std::string>().find("the emulated GPU has none"),
              std::string::npos);
}

TEST_F(InspectTest, ExplainObeysTheFusionFlagsAndDrawsTheGroups) {
  const std::string model =
      Write("g.graph", "graph g\ninput x : f32 [n, 4]\ny = exp(x)\nz = neg(y)\noutput z\n");
  const auto fused = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"explain", model, "--json"});
    return nlohmann::json::parse(Kiln(flags).out)["results"]["fused"].get<int>();
  };
  const std::string node =
      nlohmann::json::parse(Kiln({"explain", model, "--json"}).out)["results"]["edges"][0]["from"];
  EXPECT_EQ(fused({}), 1);
  EXPECT_EQ(fused({"--rules", "greedy"}), 1);
  EXPECT_EQ(fused({"--no-fuse", node}), 0);
  EXPECT_EQ(Kiln({"explain", model, "--no-fuse", "nobody"}).exit, 3);
  EXPECT_EQ(Kiln({"explain", model, "--disable-pass", "nobody"}).exit, 2);
  const std::string dot = Write("g.dot", "");
  EXPECT_EQ(Kiln({"explain", model, "--dot", dot}).exit, 0);
  std::ifstream in(dot);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_NE(text.find("cluster_0"), std::string::npos) << text;
}

TEST_F(InspectTest, TakesModelsWhoseStructureValuesDecide) {
  const std::string model = Write(
      "m.onnx",
      OnnxModel(17, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"y"})},
                              {OnnxValue("x", kFloat, {2, 3}), OnnxValue("axes", kInt64, {1})},
                              {OnnxValue("y", kFloat, {"a", "b"})})));
  KILN_ASSERT_OK(WriteNpy(dir_.File("axes.npy"), FilledTensor(DType::kI64, {1}, 1)));
  const std::string axes = "axes=@" + dir_.File("axes.npy");
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"inspect", "--json"},
                                             {"explain", "--json"},
                                             {"explain", "--library", "--json"},
                                             {"verify", "--json"},
                                             {"bench", "--iters", "1", "--json"}}) {
    std::vector<std::string> command = {verb[0], model, "-q", "--input", axes};
    command.insert(command.end(), verb.begin() + 1, verb.end());
    const ProcessResult result = Kiln(command);
    EXPECT_EQ(result.exit, 0) << verb[0] << ": " << result.err;
    if (verb[0] == "run" || verb[0] == "inspect") {
      EXPECT_EQ(nlohmann::json::parse(result.out)["results"]["outputs"][0]["shape"],
                nlohmann::json({2, 1}));
    }
  }
}

// Copies between host and device, and a concat of several parts, are thunks of their own.
TEST_F(InspectTest, FindsTheKernelOfAGroup) {
  const std::string model = Write("g.graph",
                                  "graph g\ninput x : f32 [8, 64]\ninput w : f32 [64, 64]\n"
                                  "a = exp(x)\nm = matmul(a, w)\nn = matmul(m, w)\n"
                                  "c = concat(m, n) {axis = 0}\ny = reduce_max(c) {axes = [0]}\n"
                                  "z = tanh(x)\noutput c\noutput y\noutput z\n");
  for (const char* device : {"cpu", "cuda-emulated"}) {
    const auto groups = nlohmann::json::parse(
        Kiln({"inspect", model, "--device", device, "--json"}).out)["results"]["groups"];
    for (const auto& group : groups) {
      const std::string number = std::to_string(group["group"].get<int>()),
                        ops = group["ops"].dump();
      const ProcessResult shown =
          Kiln({"inspect", model, "--device", device, "--group", number, "--emit", "kernel"});
      EXPECT_EQ(shown.exit, group["kind"] == "kernel" ? 0 : 2) << device << " " << group;
      for (const char* op : {"exp", "tanh", "reduce max"})
        EXPECT_EQ(
            shown.out.find(op) != std::string::npos,
            ops.find(op == std::string("reduce max") ? "reduce_max" : op) != std::string::npos)
            << device << " " << group << "\n"
            << shown.out;
    }
  }
}

TEST_F(InspectTest, ShowsModelsOfSeveralSegments) {
  const std::string model = Write("g.graph",
                                  "graph g\ninput x : f32 [n]\na = neg(x)\nb = exp(a)\n"
                                  "i = nonzero(b) {extents = [1, k]}\n"
                                  "j = cast(i) {to = f32}\ny = exp(j)\noutput y\n");
  const auto results = nlohmann::json::parse(Kiln({"inspect", model, "--json"}).out)["results"];
  ASSERT_EQ(results["groups"].size(), 2u);
  EXPECT_NE(results["groups"][0]["segment"], results["groups"][1]["segment"]);
  EXPECT_NE(Kiln({"inspect", model, "--group", "1", "--emit", "kernel"}).out.find("exp"),
            std::string::npos);
  EXPECT_EQ(Kiln({"inspect", model, "--group", "2"}).exit, 2);
  EXPECT_EQ(
      nlohmann::json::parse(Kiln({"explain", model, "--json"}).out)["results"]["edges"].size(), 2u);
  for (const char* verb : {"run", "verify", "bench"})
    EXPECT_EQ(Kiln({verb, model, "--shape", "x=5", "-q"}).exit, 0) << verb;
  EXPECT_EQ(Kiln({"verify", model, "--per-group", "--shape", "x=5", "-q"}).exit, 0);
}

TEST_F(InspectTest, VerifyKnowsThatNarrowTypesRoundAtEveryOperator) {
  const std::string model = Write("h.graph",
                                  "graph g\ninput x : f16 [n, 33]\na = gelu(x)\nb = exp(a)\n"
                                  "c = sqrt(b)\ny = softmax(c)\noutput y\n");
  EXPECT_EQ(Kiln({"verify", model, "--shape", "x=7x33", "-q"}).exit, 0);
  EXPECT_EQ(Kiln({"verify", model, "--shape", "x=7x33", "-O0", "--jit", "0", "-q"}).exit, 0);
}

TEST_F(InspectTest, ListsWhatCannotRun) {
  const std::string model =
      Write("m.onnx", OnnxModel(17, OnnxGraph({OnnxNode("NoSuchOp", {"x"}, {"a"}),
                                               OnnxNode("Unheard", {"a"}, {"y"}, {}, "my.domain")},
                                              {OnnxValue("x", kFloat, {2})}, {OnnxValue("y")})));
  const ProcessResult result = Kiln({"inspect", model, "--json"});
  EXPECT_EQ(result.exit, 4) << result.err;
  const auto listed = nlohmann::json::parse(result.out)["results"]["unsupported"];
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0]["op"], "NoSuchOp");
  EXPECT_EQ(listed[0]["opset"], 17);
  EXPECT_EQ(listed[1]["node"], "n_y");
  EXPECT_EQ(listed[1]["op"], "my.domain.Unheard");
}

TEST_F(InspectTest, EmitsOnnxWithGroupsAsFunctions) {
  const std::string model =
      Write("g.graph", "graph g\ninput x : f32 [n, 4]\ny = exp(x)\nz = neg(y)\noutput z\n");
  const std::string fused = dir_.File("fused.onnx"), flat = dir_.File("flat.onnx");
  EXPECT_EQ(Kiln({"inspect", model, "--emit-onnx", fused}).exit, 0);
  EXPECT_EQ(Kiln({"inspect", model, "--emit-onnx", flat, "--flat"}).exit, 0);
  for (const std::string& file : {fused, flat}) {
    std::ifstream in(file);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(bytes.find("kiln.kernel") != std::string::npos, file == fused);
    const ProcessResult verified = Kiln({"verify", file, "--shape", "x=3x4", "-q"});
    EXPECT_EQ(verified.exit, 0) << verified.err;
  }
  EXPECT_EQ(Kiln({"inspect", model, "--emit-onnx", dir_.File("no/folder.onnx")}).exit, 7);
}

TEST_F(InspectTest, OptRunsNamedPasses) {
  const std::string model = Write("g.graph",
                                  "graph g\ninput x : f32 [n, 4]\nconst one : f32 [] = 1\ny = "
                                  "mul(x, one)\nz = neg(y)\noutput z\n");
  EXPECT_NE(Kiln({"opt", model}).out.find("mul"), std::string::npos);
  const ProcessResult done = Kiln({"opt", model, "--passes", "algebra,dead_code"});
  EXPECT_EQ(done.exit, 0);
  EXPECT_EQ(done.out.find("mul"), std::string::npos) << done.out;
  EXPECT_NE(Kiln({"opt", "--list-passes"}).out.find("fold_constants"), std::string::npos);
  EXPECT_EQ(Kiln({"opt", model, "--passes", "nobody"}).exit, 2);
  EXPECT_EQ(Kiln({"opt"}).exit, 2);
}

}  // namespace
}  // namespace kiln
