// SPDX-License-Identifier: Apache-2.0
// Programs written by hand for a device, and the same for the CPU: random chains of small kernels
// with host thunks between, whose device code is PTX written by hand.
//
//   DeviceProgram program(seed, /*on_device=*/true);
//   KILN_ASSERT_OK_AND_ASSIGN(Model model, program.MakeModel(RuntimeOn(device)));
//
// Both compute the same bits: negations, sums and products of f32.
#ifndef KILN_TESTS_CUDA_DEVICE_PROGRAM_H_
#define KILN_TESTS_CUDA_DEVICE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/cuda/gpu.h"
#include "exec/support/compute_device.h"
#include "kiln/model.h"
#include "kiln/runtime.h"
#include "tests/exec/fake_program.h"

namespace kiln {

// A runtime whose device is this one.
std::shared_ptr<Runtime> RuntimeOn(const std::shared_ptr<ComputeDevice>& device);

// Device `ordinal` of the emulated driver, which goes on as it is (emulated_gpu.h starts it anew).
std::shared_ptr<ComputeDevice> EmulatedDevice(int ordinal = 0);

// How a program is drawn.
struct DeviceProgramOptions {
  int kernels = 8;          // at least
  bool host_thunks = true;  // now and then a kernel that the CPU runs on a copy
  bool state = false;       // the last input and output are the ports of a state
  bool on_device = true;    // else all of it is the CPU's
};

class DeviceProgram {
 public:
  // Inputs x0, x1, ... and outputs y0, y1, ... are f32 [n].
  DeviceProgram(uint64_t seed, const DeviceProgramOptions& options);
  // The kernels are loaded for the runtime's device.
  absl::StatusOr<Model> MakeModel(const std::shared_ptr<Runtime>& runtime,
                                  RunOptions options = {}) const;

  // One of its kernels, wherever it is, writes an element behind its output.
  void WriteBeyond() { beyond_ = true; }

  size_t inputs() const { return fake_.ports_in.size(); }
  size_t outputs() const { return fake_.ports_out.size(); }

 private:
  struct Value {
    int host = -1, device = -1;  // buffers; -1: it is not there
  };
  int Bring(Value& value, bool on_device);
  void AddKernel(const FakeKernel& kernel, const std::vector<size_t>& from, bool on_device);
  int Temporary(bool on_device);

  const DeviceProgramOptions options_;
  bool beyond_ = false;
  FakeProgram fake_;
  std::vector<Value> values_;
  std::vector<bool> is_device_;  // per kernel definition
};

// Device code of kNegate, kMix and kScale: entries of an elementwise kernel. Of kNegate there are
// two functions, for operands at multiples of 16 bytes, which traps elsewhere, and for others;
// kScale has two launches, with scratch between. `beyond`: it computes one element more.
CodeImage DeviceCodeOf(const FakeKernel& kernel, bool beyond = false);

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_DEVICE_PROGRAM_H_
