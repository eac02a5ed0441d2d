// SPDX-License-Identifier: Apache-2.0
// Runs one kernel of a small PTX text over one buffer.
//
//   PtxRun run(Header() + ".visible .entry k(.param .u64 p) {...}", 4096);
//   run.Fill<uint32_t>({1, 2, 3});
//   EXPECT_EQ(run.Launch({1, 1, 1}, {32, 1, 1}), cuda::kSuccess) << run.findings.ToString();
//   run.Read<uint32_t>(0)
#ifndef KILN_TESTS_PTX_EMULATOR_RUN_PTX_H_
#define KILN_TESTS_PTX_EMULATOR_RUN_PTX_H_

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ptx_emulator/machine.h"

namespace kiln::ptx {

inline std::string Header() { return ".version 7.8\n.target sm_80\n.address_size 64\n"; }

// A kernel k with the pointer p in %rd0 and the thread's number in %r0; 20 registers of each kind.
inline std::string KernelText(const std::string& body, const std::string& before = "") {
  return Header() + before +
         ".visible .entry k(.param .u64 p)\n{\n"
         ".reg .pred %p<20>;\n.reg .b16 %h<20>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<20>;\n"
         "ld.param.u64 %rd0, [p];\nmov.u32 %r0, %tid.x;\n" +
         body + "\nret;\n}\n";
}

class PtxRun {
 public:
  explicit PtxRun(const std::string& text, uint64_t bytes = 4096)
      : memory(0x7000000000, 1 << 26), buffer(memory.Allocate(bytes)) {
    absl::StatusOr<Module> parsed = Parse(text);
    EXPECT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
    if (parsed.ok()) module = *std::move(parsed);
  }

  template <typename T>
  void Fill(const std::vector<T>& values) {
    Allocation* allocation = memory.Find(buffer, values.size() * sizeof(T));
    std::memcpy(allocation->bytes.get(), values.data(), values.size() * sizeof(T));
    allocation->MarkWritten(0, values.size() * sizeof(T));
  }
  template <typename T>
  T Read(size_t index) {
    T value;
    Allocation* allocation = memory.Find(buffer + index * sizeof(T), sizeof(T));
    std::memcpy(&value, allocation->bytes.get() + index * sizeof(T), sizeof(T));
    return value;
  }
  cuda::Result Launch(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block,
                      uint32_t shared_bytes = 0) {
    if (module.kernels.empty()) return cuda::kInvalidPtx;
    std::vector<uint8_t> parameters(static_cast<size_t>(module.kernels[0].parameter_bytes) +
                                    sizeof buffer);
    std::memcpy(parameters.data(), &buffer, sizeof buffer);
    std::vector<uint64_t> variables;
    for (const Variable& variable : module.variables) {
      variables.push_back(memory.Allocate(variable.bytes));
      Allocation* allocation = memory.Find(variables.back(), variable.bytes);
      std::memset(allocation->bytes.get(), 0, variable.bytes);
      std::copy(variable.initial.begin(), variable.initial.end(), allocation->bytes.get());
      allocation->MarkWritten(0, variable.bytes);
    }
    const ptx::Launch launch = {
        &module.kernels[0], {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
        shared_bytes,       parameters.data(),           &variables};
    return RunLaunch(launch, options, memory, findings, counters);
  }

  Memory memory;
  uint64_t buffer;
  Module module;
  MachineOptions options;
  Findings findings;
  Counters counters = {};
};

}  // namespace kiln::ptx

#endif  // KILN_TESTS_PTX_EMULATOR_RUN_PTX_H_
