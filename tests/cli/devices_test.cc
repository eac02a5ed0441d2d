// SPDX-License-Identifier: Apache-2.0
// Which devices are there, and that nobody looks for a GPU who has not been asked for one.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "schedule/machine.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using nlohmann::json;

class DevicesTest : public testing::Test {
 protected:
  // A run with the emulator as the driver of this computer.
  ProcessResult RunWithDriver(std::vector<std::string> arguments) {
    std::filesystem::create_directories(dir_.File("lib"));
    const std::string driver = dir_.File("lib/libcuda.so.1");
    if (!std::filesystem::exists(driver))
      std::filesystem::create_symlink(KILN_TEST_PTX_DRIVER, driver);
    return Kiln(std::move(arguments), {.environment = {{"LD_LIBRARY_PATH", dir_.File("lib")},
                                                       {"LD_DEBUG", "libs"},
                                                       {"LD_DEBUG_OUTPUT", dir_.File("ld")}}});
  }
  // Whether a process of the runs so far has looked for the driver.
  bool HasLookedForDriver() {
    bool any = false;
    for (const auto& file : std::filesystem::directory_iterator(dir_.path())) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      any = any || text.find("libcuda.so.1") != std::string::npos;
    }
    return any;
  }

  TempDir dir_;
};

TEST_F(DevicesTest, ListsTheGpusThatTheDriverHas) {
  const ProcessResult result = RunWithDriver({"devices", "--json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json devices = json::parse(result.out)["results"]["devices"];
  ASSERT_EQ(devices.size(), 3u) << devices;
  EXPECT_EQ(devices[0]["device"], "cpu");
  EXPECT_EQ(devices[2]["device"], "cuda:1");
  EXPECT_EQ(devices[1]["device"], "cuda");
  EXPECT_EQ(devices[2]["device"], "cuda:1");
  EXPECT_EQ(devices[1]["target"], "cuda-sm80");
  EXPECT_EQ(devices[1]["features"], json({"sm_80"}));
  EXPECT_TRUE(HasLookedForDriver());
}

TEST_F(DevicesTest, MeasuresADeviceThatIsNamed) {
  const std::string file = dir_.File("emulated.machine");
  const ProcessResult result =
      Kiln({"devices", "--device", "cuda-emulated", "--measure", file, "--json", "-q"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json devices = json::parse(result.out)["results"]["devices"];
  ASSERT_EQ(devices.size(), 1u) << devices;
  EXPECT_EQ(devices[0]["device"], "cuda-emulated");
  EXPECT_EQ(devices[0]["multiprocessors"], 108);
  EXPECT_EQ(devices[0]["memory_bytes"], int64_t{1} << 30);
  EXPECT_EQ(devices[0]["driver"], "CUDA 13.0");
  for (const char* rate :
       {"memory_gb_s", "cache_gb_s", "to_device_pinned_gb_s", "from_device_pinned_gb_s",
        "to_device_pageable_gb_s", "from_device_pageable_gb_s", "launch_ns"})
    EXPECT_GT(devices[0]["measured"][rate], 0) << rate;
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text.find("# "), 0u) << text;
  const absl::StatusOr<Machine> machine = ParseMachine(text);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->target.name(), "cuda-sm80");
  EXPECT_EQ(machine->gpu.multiprocessors, 108);
  EXPECT_EQ(machine->sets.size(), 2u);
  EXPECT_NEAR(machine->launch_ns, devices[0]["measured"]["launch_ns"], 100);
  const std::string model = dir_.File("m.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [70]\ny = tanh(x)\noutput y\n";
  const ProcessResult explained =
      Kiln({"explain", model, "--device", "cuda-emulated", "--machine", file});
  EXPECT_EQ(explained.exit, 0) << explained.err;
}

TEST_F(DevicesTest, ADeviceThatIsNotThereIsExitFive) {
  EXPECT_EQ(Kiln({"devices", "--device", "cuda:77"}).exit, 5);
  EXPECT_EQ(Kiln({"devices", "--device", "gpu"}).exit, 2);
  const ProcessResult cpu = Kiln({"devices", "--device", "cpu", "--json"});
  EXPECT_EQ(json::parse(cpu.out)["results"]["devices"].size(), 1u);
}

TEST_F(DevicesTest, ProfilesKernelsByTheDevicesClock) {
  const std::string model = dir_.File("m.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [7000]\ny = tanh(x)\noutput y\n";
  const ProcessResult result =
      Kiln({"bench", model, "--device", "cuda-emulated", "--cache-dir", dir_.File("cache"),
            "--iters", "1", "--profile", "--json", "-q"});
  ASSERT_EQ(result.exit, 0) << result.err;
  std::vector<double> kernels;
  const json results = json::parse(result.out)["results"];
  for (const json& row : results["profile"])
    if (row["kind"] == "kernel") kernels.push_back(row["ms"]);
  // The emulator's clock: a nanosecond for each instruction of a warp, of which there are 219.
  ASSERT_EQ(kernels.size(), 1u) << results["profile"];
  EXPECT_GT(kernels[0], 219e-6);
  EXPECT_LT(kernels[0], 219e-3);
  EXPECT_GT(results["probes"]["bandwidth_gb_s"], 0);
}

// A copy is the host's work and takes the host's time; constants, and views of them, lie on the
// device before.
TEST_F(DevicesTest, CopiesOfARunAreThoseOfPorts) {
  const std::string model = dir_.File("m.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [n, 3]\n"
                          "const c : f32 [3, 2] = [1, 2, 3, 4, 5, 6]\n"
                          "m = matmul(x, c)\noutput m\n";
  const ProcessResult result =
      Kiln({"bench", model, "--device", "cuda-emulated", "--cache-dir", dir_.File("cache"), "--dim",
            "n=50", "--iters", "1", "--profile", "--json", "-q"});
  ASSERT_EQ(result.exit, 0) << result.err;
  std::vector<std::string> copies;
  const json results = json::parse(result.out)["results"];
  for (const json& row : results["profile"]) {
    if (row["kind"] != "copy") continue;
    copies.push_back(row["name"]);
    EXPECT_GT(row["ms"], 0) << row;
  }
  EXPECT_EQ(copies.size(), 2u) << results["profile"];  // x and m
}

TEST_F(DevicesTest, AllThatReadsPlansReadsThoseOfADevice) {
  const std::string model = dir_.File("m.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [70]\ny = tanh(x)\noutput y\n";
  const auto run = [&](std::vector<std::string> arguments) {
    for (const char* word : {"--device", "cuda-emulated", "--cache-dir"}) arguments.push_back(word);
    arguments.push_back(dir_.File("cache"));
    const ProcessResult result = Kiln(arguments);
    EXPECT_EQ(result.exit, 0) << arguments[0] << ": " << result.err;
  };
  run({"report", model, "-o", dir_.File("report.html")});
  run({"bench", model, "--iters", "1", "--memory-plan", dir_.File("plan.html")});
  run({"lock", model, "--target", "cuda-sm80", "-o", dir_.File("lock")});
}

TEST_F(DevicesTest, APackageForGpusAlone) {
  const std::string model = dir_.File("m.graph"), package = dir_.File("m.kiln");
  std::ofstream(model) << "graph g\ninput x : f32 [70]\ny = tanh(x)\noutput y\n";
  const ProcessResult made = Kiln({"compile", model, "--target", "cuda-sm80", "-o", package,
                                   "--cache-dir", dir_.File("cache"), "-q"});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(Kiln({"run", package, "-q", "--device", "cuda-emulated"}).exit, 0);
  EXPECT_EQ(Kiln({"run", package, "-q"}).exit, 7);
}

TEST_F(DevicesTest, ShowsKernelsOfAPackage) {
  const std::string model = dir_.File("m.graph"), package = dir_.File("m.kiln");
  std::ofstream(model) << "graph g\ninput x : f32 [70]\ny = tanh(x)\noutput y\n";
  // Without --target: the level of the device.
  const ProcessResult made = Kiln({"compile", model, "--device", "cuda-emulated", "-o", package,
                                   "--cache-dir", dir_.File("cache"), "-q"});
  ASSERT_EQ(made.exit, 0) << made.err;
  const json results = json::parse(Kiln({"inspect", package, "--json"}).out)["results"];
  ASSERT_EQ(results["targets"].size(), 1u) << results;
  EXPECT_EQ(results["targets"][0]["name"], "cuda-sm80");
  const json kernel = results["package"]["kernels"][0];
  EXPECT_EQ(kernel["validated_on"], "cuda Emulated sm_80");
  EXPECT_THAT(Kiln({"inspect", package}).out, testing::HasSubstr("on cuda Emulated sm_80"));
  const std::string key = kernel["key"];
  const auto emitted = [&](const std::string& what) {
    const ProcessResult shown =
        Kiln({"inspect", package, "--kernel", key.substr(0, 12), "--emit", what});
    EXPECT_EQ(shown.exit, 0) << what << ": " << shown.err;
    return shown.out;
  };
  EXPECT_THAT(emitted("ptx"), testing::HasSubstr(".target sm_80"));
  EXPECT_THAT(emitted("launch"), testing::HasSubstr("block"));
  EXPECT_THAT(emitted("kernel"), testing::HasSubstr("kernel v1"));
  EXPECT_THAT(emitted("schedule"), testing::HasSubstr("streaming"));
  EXPECT_EQ(Kiln({"inspect", package, "--emit", "ptx"}).exit, 2);
  EXPECT_EQ(Kiln({"inspect", package, "--kernel", "none", "--emit", "ptx"}).exit, 2);
}

TEST_F(DevicesTest, ALockForAGpuNeedsNone) {
  const std::string model = dir_.File("m.graph"), lock = dir_.File("lock");
  std::ofstream(model) << "graph g\ninput x : f32 [70]\ny = tanh(x)\noutput y\n";
  const ProcessResult made = Kiln({"lock", model, "--target", "cuda-sm90", "-o", lock});
  ASSERT_EQ(made.exit, 0) << made.err;
  std::ifstream in(lock);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, testing::HasSubstr("plan cuda-sm90 \"x\" [70]\narena "));
  const std::string of_device = dir_.File("device");
  EXPECT_EQ(Kiln({"lock", model, "--device", "cuda-emulated", "-o", of_device}).exit, 0);
  std::ifstream other(of_device);
  EXPECT_THAT((std::string{std::istreambuf_iterator<char>(other), {}}),
              testing::HasSubstr("plan cuda-sm80 "));
}

TEST_F(DevicesTest, AnEmulatedDeviceWithANumberTakesNoLibraryOfTheSystem) {
  const ProcessResult result = Kiln({"devices", "--device", "cuda-emulated:1"});
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, testing::HasSubstr("no cuBLASLt: the emulated GPU has none"));
}

TEST_F(DevicesTest, WhoDoesNotAskForAGpuOpensNoDriver) {
  const std::string model = dir_.File("m.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [70]\ny = tanh(x)\noutput y\n";
  const ProcessResult run =
      RunWithDriver({"run", model, "--cache-dir", dir_.File("cache"), "--input", "x=random:7"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_FALSE(HasLookedForDriver());
  const ProcessResult doctor = RunWithDriver({"doctor", "--dir", dir_.File("cache"), "--json"});
  EXPECT_EQ(doctor.exit, 0) << doctor.err;
  EXPECT_THAT(doctor.out, testing::HasSubstr("Emulated sm_80, cuda-sm80, CUDA 13.0, 1.0 GiB"));
  EXPECT_TRUE(HasLookedForDriver()) << "doctor names the GPU's libraries";
}

}  // namespace
}  // namespace kiln
