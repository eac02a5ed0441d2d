// SPDX-License-Identifier: Apache-2.0
// A program on the emulated GPU beside the same one on the CPU's VM: both are bound and run alike,
// and must give the same bits.
//
//   Restart();
//   Twins twins;
//   KILN_ASSERT_OK(twins.Make(seed, {}, RuntimeOn(EmulatedDevice())));
//   Binder binder(twins, seed);
//   binder.Bind(true);
//   twins.Run("the first run");
#ifndef KILN_TESTS_CUDA_TWINS_H_
#define KILN_TESTS_CUDA_TWINS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "ptx_emulator/control.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"

namespace kiln {

// The emulated driver anew, where a finding fails the launch.
inline void Restart(int devices = 1) {
  kiln_ptx_config config;
  kiln_ptx_default_config(&config);
  config.devices = devices;
  config.strict = 1;
  kiln_ptx_configure(&config);
}

// A tensor of random values, `shift` elements behind memory that is aligned.
inline Tensor RandomTensor(std::mt19937_64& random, int64_t n, int64_t shift = 0) {
  const Tensor memory = Tensor::Allocate(DType::kF32, {n + shift});
  auto* const data = static_cast<float*>(memory.data());
  for (int64_t i = 0; i < n + shift; ++i)
    data[i] = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 64;
  return Tensor::View(data + shift, DType::kF32, {n}, {}, memory.owner());
}

// One caller of the program on the device, and one of its twin on the CPU.
struct Twins {
  absl::Status Make(uint64_t seed, const DeviceProgramOptions& options,
                    const std::shared_ptr<Runtime>& runtime, const RunOptions& run = {}) {
    DeviceProgramOptions on_cpu = options;
    on_cpu.on_device = false;
    const DeviceProgram program(seed, options), twin(seed, on_cpu);
    inputs = program.inputs() - (options.state ? 1 : 0);
    outputs = program.outputs();
    KILN_ASSIGN_OR_RETURN(model, program.MakeModel(runtime, run));
    KILN_ASSIGN_OR_RETURN(cpu_model, twin.MakeModel(RuntimeOn(nullptr)));
    device = std::make_unique<Context>(model.NewContext());
    cpu = std::make_unique<Context>(cpu_model.NewContext());
    return absl::OkStatus();
  }
  // Both run, and give the same.
  void Run(const std::string& what, const RunControl& control = {}) {
    KILN_ASSERT_OK(cpu->Run());
    KILN_ASSERT_OK(device->Run(control)) << what;
    for (size_t i = 0; i < outputs; ++i) {
      const absl::StatusOr<Tensor> got = device->Output(i), want = cpu->Output(i);
      if (!want.ok()) continue;  // not wanted
      KILN_ASSERT_OK(got.status());
      const Comparison comparison = CompareBits(*got, *want);
      ASSERT_TRUE(comparison.ok) << what << ", output " << i << ": " << comparison.what;
    }
  }

  size_t inputs = 0, outputs = 0;
  Model model, cpu_model;
  std::unique_ptr<Context> device, cpu;
};

inline constexpr int64_t kExtents[] = {1, 5, 64, 1000};

// A random binding: of some inputs and outputs, where they fit.
class Binder {
 public:
  Binder(Twins& twins, uint64_t seed) : twins_(twins), random_(seed) {}

  void Bind(bool all) {
    const bool resized = all || Below(6) == 0;
    if (resized) n_ = kExtents[Below(std::size(kExtents))];
    for (size_t i = 0; i < twins_.inputs; ++i) {
      if (!resized && Below(2) == 0) continue;
      const Tensor x = RandomTensor(random_, n_, static_cast<int64_t>(Below(4)));
      KILN_ASSERT_OK(twins_.device->Bind(i, x));
      KILN_ASSERT_OK(twins_.cpu->Bind(i, x));
    }
    for (size_t i = 0; i < twins_.outputs; ++i) {
      if (!resized && Below(2) == 0) continue;
      for (Context* const context : {twins_.device.get(), twins_.cpu.get()})
        KILN_ASSERT_OK(context->BindOutput(i, RandomTensor(random_, n_, Shift(i))));
    }
    if (Below(4) == 0) ChooseOutputs();
  }
  // All inputs and outputs elsewhere, of the same extents.
  void Move() {
    for (size_t i = 0; i < twins_.inputs; ++i) {
      const Tensor x = RandomTensor(random_, n_);
      KILN_ASSERT_OK(twins_.device->Bind(i, x));
      KILN_ASSERT_OK(twins_.cpu->Bind(i, x));
    }
    for (size_t i = 0; i < twins_.outputs; ++i)
      KILN_ASSERT_OK(twins_.device->BindOutput(i, RandomTensor(random_, n_)));
  }

 private:
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }
  int64_t Shift(size_t i) const { return static_cast<int64_t>(i % 4); }
  void ChooseOutputs() {
    std::vector<std::string> names;
    for (size_t i = 0; i < twins_.outputs; ++i)
      if (Below(2) == 0) names.push_back(absl::StrCat("y", i));
    KILN_ASSERT_OK(twins_.device->SetOutputs(names));
    KILN_ASSERT_OK(twins_.cpu->SetOutputs(names));
  }

  Twins& twins_;
  std::mt19937_64 random_;
  int64_t n_ = 1;
};

// Calls of a driver's function during body().
template <typename Body>
std::vector<uint64_t> CallsOf(const std::vector<const char*>& functions, Body body) {
  std::vector<uint64_t> before, calls;
  for (const char* const function : functions) before.push_back(kiln_ptx_calls(function));
  body();
  for (size_t k = 0; k < functions.size(); ++k)
    calls.push_back(kiln_ptx_calls(functions[k]) - before[k]);
  return calls;
}

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_TWINS_H_
