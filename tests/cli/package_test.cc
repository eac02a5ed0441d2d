// SPDX-License-Identifier: Apache-2.0
// kiln compile -o, and packages on machines with neither compiler nor cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/package/package.h"
#include "kiln/model.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using nlohmann::json;

class PackageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<float> w(3000);
    for (size_t k = 0; k < w.size(); ++k) w[k] = 0.001f * static_cast<float>(k);
    std::ofstream(model_, std::ios::binary) << OnnxModel(
        17, OnnxGraph({OnnxNode("Exp", {"x"}, {"e"}), OnnxNode("Mul", {"e", "w"}, {"m"}),
                       OnnxNode("Softmax", {"m"}, {"y"})},
                      {OnnxValue("x", kFloat, {"n", 3000})}, {OnnxValue("y", kFloat, {"n", 3000})},
                      {OnnxFloats("w", w)}));
    const ProcessResult made =
        Kiln({"compile", model_, "-o", package_, "--target", "x86-64-v3", "--target", "x86-64-v4",
              "-q", "--cache-dir", dir_.File("cache")});
    ASSERT_EQ(made.exit, 0) << made.err;
    const ProcessResult run = Kiln({"run", model_, "-q", "--dim", "n=3", "--input", "x=random:5",
                                    "--output", "y=@" + right_, "--cache-dir", dir_.File("cache")});
    ASSERT_EQ(run.exit, 0) << run.err;
  }

  // A run of `package` that is to give the very bits, with nothing to build by and no place to
  // cache in.
  ProcessResult Run(const std::string& package, const std::string& isa = "") {
    return Kiln({"run", package, "-q", "--json", "--dim", "n=3", "--input", "x=random:5",
                 "--expect", "y=@" + right_, "--rtol", "0", "--atol", "0"},
                {{{"KILN_CODEGEN", "/nonexistent"},
                  {"KILN_VALIDATE", "/nonexistent"},
                  {"KILN_CACHE_DIR", dir_.File("nowhere")},
                  {"KILN_MAX_ISA", isa}}});
  }

  TempDir dir_;
  const std::string model_ = dir_.File("m.onnx");
  const std::string package_ = dir_.File("m.kiln");
  const std::string right_ = dir_.File("y.npy");
};

TEST_F(PackageTest, WithoutADescriptorForCodeItRunsOnTheVm) {
  const ProcessResult run = RunProcess(
      {"/bin/sh", "-c", "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 5; exec \"$@\"", "sh",
       KilnPath(), "run", package_, "-q", "--dim", "n=3", "--input", "x=random:5", "--expect",
       "y=@" + right_, "--rtol", "0", "--atol", "0"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_NE(run.err.find("runs on the VM"), std::string::npos) << run.err;
}

TEST_F(PackageTest, RunsWithoutModelCompilerAndCacheWithTheSameBits) {
  std::filesystem::remove(model_);
  for (const char* isa : {"", "x86-64-v3", "x86-64"}) {
    const ProcessResult run = Run(package_, isa);
    ASSERT_EQ(run.exit, 0) << isa << run.err;
    const json compile = json::parse(run.out)["results"]["compile"];
    EXPECT_GT(compile["kernels"].get<int>(), 0);
    EXPECT_EQ(compile["built"], 0);
    EXPECT_EQ(compile[isa == std::string("x86-64") ? "vm" : "cached"], compile["kernels"]) << isa;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.File("nowhere")));
}

// What the builder cannot run is marked; whoever asks for it has all code compared before it runs.
TEST_F(PackageTest, CodeThatNobodyValidatedIsMarked) {
  const std::string package = dir_.File("cross.kiln");
  const ProcessResult made = Kiln({"compile", model_, "-o", package, "--target", "x86-64-v3",
                                   "--target", "x86-64-v4", "-q", "--cache-dir", dir_.File("v3")},
                                  {{{"KILN_MAX_ISA", "x86-64-v3"}}});
  ASSERT_EQ(made.exit, 0) << made.err;
  const json targets = json::parse(Kiln({"inspect", package, "--json"}).out)["results"]["targets"];
  for (const json& target : targets) {
    EXPECT_GT(target["kernels"].get<int>(), 0);
    EXPECT_EQ(target["unvalidated"],
              target["name"] == "x86-64-v4" ? target["kernels"].get<int>() : 0);
  }
  for (const char* const validator : {"", "/nonexistent"}) {
    const ProcessResult run =
        Kiln({"run", package, "-q", "--json", "--validate", "first_use", "--dim", "n=3", "--input",
              "x=random:5", "--expect", "y=@" + right_, "--rtol", "0", "--atol", "0"},
             {{{"KILN_VALIDATE", validator}}});
    ASSERT_EQ(run.exit, 0) << run.err;
    const json compile = json::parse(run.out)["results"]["compile"];
    EXPECT_EQ(compile[validator[0] == '\0' ? "cached" : "vm"], compile["kernels"]);
    EXPECT_EQ(compile["unvalidated"], compile["vm"]);
    EXPECT_EQ(compile["failed"], compile["vm"]);
  }
}

TEST_F(PackageTest, InspectListsTargets) {
  const ProcessResult shown = Kiln({"inspect", package_, "--json"});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  const json results = json::parse(shown.out)["results"];
  EXPECT_EQ(results["inputs"][0]["name"], "x");
  EXPECT_EQ(results["outputs"][0]["dtype"], "f32");
  ASSERT_EQ(results["targets"].size(), 2u);
  for (const json& target : results["targets"]) {
    EXPECT_GT(target["kernels"].get<int>(), 0);
    EXPECT_GT(target["bytes"].get<int>(), 0);
  }
  EXPECT_NE(Kiln({"inspect", package_}).out.find("x86-64-v3"), std::string::npos);
}

// Everything in the file, and nothing of it runs.
TEST_F(PackageTest, InspectListsAll) {
  const json package = json::parse(Kiln({"inspect", package_, "--json"}).out)["results"]["package"];
  EXPECT_EQ(package["format"], 2);
  EXPECT_EQ(package["bytes"], Contents(package_).size());
  EXPECT_TRUE(package["signer"].is_null());
  ASSERT_GE(package["variants"].size(), 2u);
  EXPECT_EQ(package["variants"][0]["part"], "");
  ASSERT_EQ(package["constants"].size(), 1u);
  EXPECT_EQ(package["constants"][0]["bytes"], 12000);
  EXPECT_EQ(package["constants"][0]["compression"], "none");
  ASSERT_GE(package["kernels"].size(), 2u);
  EXPECT_EQ(package["kernels"][0]["key"].get<std::string>().size(), 64u);
  std::string text = Kiln({"inspect", package_}).out;
  for (const char* part : {"format  2, ", "not signed", "x86-64-v4", "none"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// Those of a convolution: in the file as the library packs them on this CPU; where they are not, or
// not whole, packed by whoever runs it. The bits are the same.
TEST_F(PackageTest, WeightsArePacked) {
  const std::string model = dir_.File("conv.onnx"), y = dir_.File("z.npy");
  std::vector<float> w(512 * 128 * 9);
  for (size_t k = 0; k < w.size(); ++k) w[k] = 0.001f * static_cast<float>(k % 977);
  std::ofstream(model, std::ios::binary)
      << OnnxModel(17, OnnxGraph({OnnxNode("Conv", {"x", "w"}, {"y"})},
                                 {OnnxValue("x", kFloat, {1, 128, 14, 14})},
                                 {OnnxValue("y", kFloat, {1, 512, 12, 12})},
                                 {OnnxTensor("w", kFloat, {512, 128, 3, 3}, RawBytes(w))}));
  const auto run = [&](const std::string& package, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", package, "--input", "x=random:5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Kiln(arguments);
  };
  const auto packed = [](const std::string& package) {
    const json all = json::parse(Kiln({"inspect", package, "--json"}).out);
    json list = json::array();
    for (const json& constant : all["results"]["package"]["constants"])
      if (constant["packed"].get<bool>()) list.push_back(constant);
    return list;
  };
  const std::string with = dir_.File("with.kiln"), without = dir_.File("without.kiln");
  const std::string cache = dir_.File("cache");
  ASSERT_EQ(Kiln({"compile", model, "-q", "-o", with, "--cache-dir", cache}).exit, 0);
  ASSERT_EQ(
      Kiln({"compile", model, "-q", "-o", without, "--no-packed-weights", "--cache-dir", cache})
          .exit,
      0);
  // What a run of the package packs, as it does not find it.
  const auto kept = [&](const std::string& package) -> size_t {
    const auto opened = Package::Open(PackageSource::File(package));
    EXPECT_TRUE(opened.ok()) << opened.status();
    (*opened)->weights().KeepAll();
    absl::StatusOr<Model> loaded = Model::Create(*opened, {});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE(loaded->Run({{"x", Tensor::Allocate(DType::kF32, {1, 128, 14, 14})}}).ok());
    return (*opened)->weights().Kept().size();
  };
  if (kept(without) == 0) GTEST_SKIP() << "on this CPU a convolution takes its weights as they are";
  EXPECT_EQ(kept(with), 0u);
  EXPECT_EQ(packed(with).size(), kept(without));
  EXPECT_EQ(packed(without).size(), 0u);
  ASSERT_EQ(run(without, {"--output", "y=@" + y}).exit, 0);
  const std::vector<std::string> same = {"--expect", "y=@" + y, "--rtol", "0", "--atol", "0"};
  EXPECT_EQ(run(with, same).exit, 0);
  // The byte in the middle of w, and the last one of what is packed, which are in chunks of their
  // own: one is damaged, or both.
  const std::string good = Contents(with);
  const json last = packed(with)[0];
  const size_t of_packed = last["offset"].get<size_t>() + last["bytes"].get<size_t>() - 1;
  const size_t of_w = good.find(RawBytes(w)) + w.size() * 2;
  const auto run_damaged = [&](const std::vector<size_t>& at) {
    std::string bytes = good;
    for (const size_t byte : at) bytes[byte] ^= 1;
    std::ofstream(with, std::ios::binary | std::ios::trunc) << bytes;
    return run(with, same);
  };
  EXPECT_EQ(run_damaged({of_w}).exit, 0);  // nobody reads it
  const ProcessResult repacked = run_damaged({of_packed});
  EXPECT_EQ(repacked.exit, 0) << repacked.err;
  EXPECT_NE(repacked.err.find("packed again"), std::string::npos) << repacked.err;
  const ProcessResult refused = run_damaged({of_w, of_packed});
  EXPECT_EQ(refused.exit, 3) << refused.err;
  EXPECT_NE(refused.err.find("constants: chunk "), std::string::npos) << refused.err;
  EXPECT_EQ(refused.out, "");
}

TEST_F(PackageTest, IsMeasuredAsAModelIs) {
  const std::vector<std::string> bench = {"bench", package_, "-q",      "--json",
                                          "--dim", "n=3",    "--iters", "3"};
  const ProcessResult measured = Kiln(bench);
  ASSERT_EQ(measured.exit, 0) << measured.err;
  const json results = json::parse(measured.out)["results"];
  EXPECT_EQ(results["latency_ms"]["n"], 3);
  EXPECT_EQ(results["compile"]["built"], 0);
  EXPECT_GT(results["compile"]["kernels"], 0);
  std::vector<std::string> compared = bench;
  compared.insert(compared.end(), {"--compare", "-O0,-O3"});
  const ProcessResult refused = Kiln(compared);
  EXPECT_EQ(refused.exit, 2) << refused.err;
  EXPECT_NE(refused.err.find("is a package"), std::string::npos) << refused.err;
}

// Where a device is named its code runs, else that of the CPU, whose library has the products.
TEST_F(PackageTest, OfTwoDevicesRunsOnTheOneThatIsNamed) {
  const std::string model = dir_.File("product.graph"), package = dir_.File("product.kiln");
  std::ofstream(model) << "graph g\ninput x : f32 [5, 6]\ninput w : f32 [6, 7]\n"
                          "m = matmul(x, w)\ny = tanh(m)\noutput y\n";
  const ProcessResult made = Kiln({"compile", model, "--target", "cuda-sm80,x86-64-v3", "-o",
                                   package, "-q", "--cache-dir", dir_.File("cache")});
  ASSERT_EQ(made.exit, 0) << made.err;
  std::string printed;
  for (const std::string device : {"cpu", "cuda-emulated"}) {
    const ProcessResult measured =
        Kiln({"bench", package, "-q", "--json", "--iters", "3", "--device", device});
    ASSERT_EQ(measured.exit, 0) << measured.err;
    const json launches = json::parse(measured.out)["results"]["launches"];
    EXPECT_EQ(launches["library"], device == "cpu" ? 1 : 0) << device;
    EXPECT_EQ(launches["kernel"], device == "cpu" ? 0 : 1) << device;
    const ProcessResult ran = Kiln({"run", package, "-q", "--device", device});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    if (printed.empty()) printed = ran.out;
    EXPECT_EQ(ran.out, printed);
  }
}

TEST_F(PackageTest, WithoutCodeForTheDeviceSaysThatItRunsOnTheCpu) {
  const std::vector<std::string> run = {"run", package_,   "-q",           "--dim",
                                        "n=3", "--device", "cuda-emulated"};
  const ProcessResult told = Kiln(run);
  EXPECT_EQ(told.exit, 0) << told.err;
  EXPECT_EQ(std::count(told.err.begin(), told.err.end(), '\n'), 1) << told.err;
  EXPECT_NE(
      told.err.find("none for cuda-sm80; it runs on the CPU, not on device \"cuda-emulated\""),
      std::string::npos)
      << told.err;
  std::vector<std::string> required = run;
  required.push_back("--require-device");
  const ProcessResult refused = Kiln(required);
  EXPECT_EQ(refused.exit, 7) << refused.err;
  EXPECT_NE(refused.err.find("none for cuda-sm80"), std::string::npos) << refused.err;
}

TEST_F(PackageTest, SignaturesAreDemanded) {
  const std::string key = dir_.File("key.pem"), trust = dir_.File("trust");
  std::ofstream(key) << "-----BEGIN PRIVATE KEY-----\n"
                        "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
                        "-----END PRIVATE KEY-----\n";
  const std::string us = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
  std::ofstream(trust) << "us " << us << "\n";
  const ProcessResult plain = Kiln({"run", package_, "-q", "--dim", "n=3", "--trust", trust});
  EXPECT_EQ(plain.exit, 3);
  EXPECT_NE(plain.err.find("is not signed"), std::string::npos) << plain.err;
  const std::string signed_one = dir_.File("signed.kiln");
  const ProcessResult made = Kiln({"compile", model_, "-o", signed_one, "--sign", key, "--zstd",
                                   "-q", "--json", "--cache-dir", dir_.File("cache")});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(json::parse(made.out)["results"]["signer"], us);
  const ProcessResult run = Kiln({"run", signed_one, "-q", "--dim", "n=3", "--trust", trust});
  EXPECT_EQ(run.exit, 0) << run.err;
  std::ofstream(trust) << "them " << std::string(64, '0') << "\n";
  const ProcessResult other = Kiln({"run", signed_one, "-q", "--dim", "n=3", "--trust", trust});
  EXPECT_EQ(other.exit, 3);
  EXPECT_EQ(other.err, absl::StrCat("kiln: package \"", signed_one, "\": signed with ", us,
                                    ", which is not a trusted signer; code in it would run as you: "
                                    "add the key to the trust file\n"));
  const ProcessResult absent =
      Kiln({"run", signed_one, "-q", "--dim", "n=3", "--trust", dir_.File("absent")});
  EXPECT_EQ(absent.exit, 7);
  EXPECT_NE(absent.err.find("absent\": open: No such file"), std::string::npos) << absent.err;
  const std::string looked = Kiln({"inspect", signed_one}).out;
  EXPECT_NE(looked.find(us + " (not a trusted signer)\n"), std::string::npos) << looked;
  EXPECT_EQ(looked.find(" \n"), std::string::npos) << looked;
  const json signer =
      json::parse(Kiln({"inspect", signed_one, "--json"}).out)["results"]["package"]["signer"];
  EXPECT_EQ(signer["key"], us);
  EXPECT_EQ(signer["verified"], true);
  EXPECT_EQ(Kiln({"compile", model_, "--cache-only", "--sign", key}).exit, 2);
  EXPECT_EQ(Kiln({"compile", model_, "-o", signed_one, "--sign", trust}).exit, 2);
}

// How much there is to compute only the data tell.
TEST_F(PackageTest, SizesThatDataDecide) {
  const std::string model = dir_.File("found.onnx"), package = dir_.File("found.kiln");
  std::ofstream(model, std::ios::binary) << OnnxModel(
      17, OnnxGraph({OnnxNode("Relu", {"x"}, {"r"}), OnnxNode("NonZero", {"r"}, {"i"}),
                     OnnxNode("Cast", {"i"}, {"f"}, {IntAttribute("to", kFloat)}),
                     OnnxNode("Exp", {"f"}, {"y"})},
                    {OnnxValue("x", kFloat, {"n"})}, {OnnxValue("y", kFloat, {1, "k"})}));
  const ProcessResult made = Kiln({"compile", model, "-o", package, "-q", "--cache-dir",
                                   dir_.File("cache"), "--target", "x86-64-v3"});
  ASSERT_EQ(made.exit, 0) << made.err;
  for (const char* n : {"n=1", "n=7", "n=1000"}) {
    const std::string right = dir_.File("found.npy");
    const ProcessResult run = Kiln({"run", model, "-q", "--dim", n, "--input", "x=random:5",
                                    "--output", "y=@" + right, "--cache-dir", dir_.File("cache")});
    ASSERT_EQ(run.exit, 0) << run.err;
    const ProcessResult same =
        Kiln({"run", package, "-q", "--dim", n, "--input", "x=random:5", "--expect", "y=@" + right,
              "--rtol", "0", "--atol", "0"},
             {{{"KILN_CODEGEN", "/nonexistent"}, {"KILN_CACHE_DIR", dir_.File("nowhere")}}});
    EXPECT_EQ(same.exit, 0) << n << ": " << same.err << same.out;
  }
  const json parts =
      json::parse(Kiln({"inspect", package, "--json"}).out)["results"]["package"]["variants"];
  EXPECT_GT(parts.size(), 1u);
}

TEST_F(PackageTest, SameInputsGiveTheSameBytes) {
  const std::string again = dir_.File("again.kiln");
  EXPECT_EQ(Kiln({"compile", model_, "-o", again, "--target", "x86-64-v3", "--target", "x86-64-v4",
                  "-q", "--cache-dir", dir_.File("other")})
                .exit,
            0);
  EXPECT_TRUE(Contents(again) == Contents(package_));
}

// The kernel of both has the same text and schedule, and bounds of its own.
TEST_F(PackageTest, WhatTheCacheHasServedBeforeChangesNoByte) {
  const auto compile = [&](int columns, const std::string& cache) {
    const std::string model = dir_.File(absl::StrCat(columns, ".graph"));
    const std::string package = dir_.File(absl::StrCat(cache, columns, ".kiln"));
    std::ofstream(model) << "graph sums\ninput x : f32 [n, " << columns
                         << "]\ny = reduce_sum(x) {axes = [0]}\noutput y\n";
    const ProcessResult made = Kiln({"compile", model, "-o", package, "--target", "x86-64-v3", "-q",
                                     "--cache-dir", dir_.File(cache)});
    EXPECT_EQ(made.exit, 0) << made.err;
    return Contents(package);
  };
  compile(4, "used");
  EXPECT_TRUE(compile(5, "used") == compile(5, "fresh"));
}

TEST_F(PackageTest, DamageIsRefusedBeforeAnythingRuns) {
  const std::string good = Contents(package_);
  const std::string bad = dir_.File("bad.kiln");
  const auto try_out = [&](const std::string& bytes) {
    std::ofstream(bad, std::ios::binary | std::ios::trunc) << bytes;
    return Run(bad).exit;
  };
  for (const size_t size : {size_t{0}, size_t{7}, good.size() / 2, good.size() - 1})
    EXPECT_EQ(try_out(good.substr(0, size)), 3) << size;
  std::mt19937 random(3);
  int refused = 0;
  for (int k = 0; k < 40; ++k) {
    std::string bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    const int exit = try_out(bytes);
    EXPECT_TRUE(exit == 3 || exit == 0) << exit;  // 0: in code for other CPUs, which is not read
    refused += exit == 3 ? 1 : 0;
  }
  EXPECT_GT(refused, 10);
}

TEST_F(PackageTest, TellsWhatDoesNotFit) {
  const ProcessResult shape = Kiln({"run", package_, "-q", "--shape", "x=3x7"});
  EXPECT_EQ(shape.exit, 3);
  EXPECT_NE(shape.err.find("\"x\": dim 1 is 7, expected 3000"), std::string::npos) << shape.err;
  const std::string model = dir_.File("sum.onnx");
  std::ofstream(model, std::ios::binary)
      << OnnxModel(17, OnnxGraph({OnnxNode("Add", {"x", "y"}, {"z"})},
                                 {OnnxValue("x", kFloat, {"n"}), OnnxValue("y", kFloat, {"n"})},
                                 {OnnxValue("z", kFloat, {"n"})}));
  const std::string sum = dir_.File("sum.kiln");
  ASSERT_EQ(Kiln({"compile", model, "-o", sum, "-q", "--cache-dir", dir_.File("cache")}).exit, 0);
  EXPECT_EQ(Kiln({"run", sum, "-q", "--dim", "n=9"}).exit, 0);
  for (const char* command : {"run", "bench"})
    EXPECT_EQ(Kiln({command, sum, "-q", "--shape", "x=4", "--shape", "y=1"}).exit, 4) << command;
  std::ofstream(dir_.File("shapes")) << "n=4\nx=4 y=1\n";
  ASSERT_EQ(Kiln({"compile", model, "-o", sum, "-q", "--shapes", dir_.File("shapes"), "--cache-dir",
                  dir_.File("cache")})
                .exit,
            0);
  EXPECT_EQ(Kiln({"run", sum, "-q", "--shape", "x=4", "--shape", "y=1"}).exit, 0);
  EXPECT_EQ(Kiln({"run", sum, "-q", "--device", "reference"}).exit, 4);
  EXPECT_EQ(Kiln({"run", dir_.File("none.kiln")}).exit, 7);
  for (const char* verb : {"verify", "explain"})
    EXPECT_NE(Kiln({verb, sum}).err.find("has no graph"), std::string::npos) << verb;
  EXPECT_EQ(Kiln({"compile", model, "-o", sum, "--cache-only"}).exit, 2);
}

}  // namespace
}  // namespace kiln
