// SPDX-License-Identifier: Apache-2.0
// Which devices are there, and that nobody looks for a GPU who has not been asked for one.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
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

TEST_F(DevicesTest, ListsTheGpuThatTheDriverNames) {
  const ProcessResult result = RunWithDriver({"devices", "--json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json devices = json::parse(result.out)["results"]["devices"];
  ASSERT_EQ(devices.size(), 2u) << devices;
  EXPECT_EQ(devices[0]["device"], "cpu");
  EXPECT_EQ(devices[1]["device"], "cuda");
  EXPECT_EQ(devices[1]["target"], "cuda-sm80");
  EXPECT_EQ(devices[1]["features"], json({"sm_80"}));
  EXPECT_TRUE(HasLookedForDriver());
}

TEST_F(DevicesTest, WhoDoesNotAskForAGpuOpensNoDriver) {
  const std::string model = dir_.File("m.graph");
  std::ofstream(model) << "graph g\ninput x : f32 [70]\ny = tanh(x)\noutput y\n";
  const ProcessResult run =
      RunWithDriver({"run", model, "--cache-dir", dir_.File("cache"), "--input", "x=random:7"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(RunWithDriver({"doctor", "--dir", dir_.File("cache")}).exit, 0);
  EXPECT_FALSE(HasLookedForDriver());
}

}  // namespace
}  // namespace kiln
