// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs that lie on the device, from DLPack and to it, and the application's stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "exec/cuda/gpu.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/device_program.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/twins.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// An application with tensors of its own on the devices.
class Application {
 public:
  explicit Application(int ordinal = 0)
      : gpu_(*cuda::Gpu::Open(*cuda::Driver::Open(EmulatedDriver()), ordinal)),
        stream_(*cuda::DeviceStream::Make(gpu_)) {}

  // As it comes from another library: through DLPack.
  Tensor On(const Tensor& host, int64_t shift = 0) {
    const auto bytes = static_cast<size_t>(host.size_bytes());
    const auto offset = static_cast<size_t>(shift) * SizeOf(host.dtype());
    auto memory = *cuda::DeviceMemory::Allocate(gpu_, bytes + offset);
    const cuda::DevicePointer address = memory->address() + offset;
    EXPECT_TRUE(gpu_->CopyIn(address, host.data(), bytes, stream_->handle()).ok());
    EXPECT_TRUE(stream_->Wait().ok());
    const Tensor made = Tensor::View(cuda::AsPointer(address), host.dtype(), host.shape(), {},
                                     memory, {DeviceKind::kCuda, gpu_->ordinal()});
    return *FromDLPack(*ToDLPack(made));
  }
  Tensor Back(const Tensor& device) {
    Tensor host = Tensor::Allocate(device.dtype(), device.shape());
    EXPECT_TRUE(gpu_->CopyOut(host.data(), cuda::AddressOf(device.data()),
                              static_cast<size_t>(host.size_bytes()), stream_->handle())
                    .ok());
    EXPECT_TRUE(stream_->Wait().ok());
    return host;
  }
  cuda::Gpu& gpu() { return *gpu_; }
  cuda::Stream stream() const { return stream_->handle(); }

 private:
  const std::shared_ptr<cuda::Gpu> gpu_;
  const std::shared_ptr<cuda::DeviceStream> stream_;
};

const std::vector<const char*> kCopies = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                          "cuMemcpyDtoDAsync_v2", "cuStreamSynchronize"};
using Calls = std::vector<uint64_t>;

// All ports on the device: nothing is copied, in the stream of the application nobody waits, and
// its work before and after is in order.
TEST(DeviceTensors, AreUsedWhereTheyLie) {
  Restart();
  Application application;
  Twins twins;
  KILN_ASSERT_OK(twins.Make(3, {.kernels = 10, .host_thunks = false}, RuntimeOn(EmulatedDevice())));
  std::mt19937_64 random(3);
  std::vector<Tensor> results;
  for (size_t i = 0; i < twins.inputs; ++i) {
    const Tensor x = RandomTensor(random, 200);
    KILN_ASSERT_OK(twins.cpu->Bind(i, x));
    KILN_ASSERT_OK(twins.device->Bind(i, application.On(x)));
  }
  for (size_t i = 0; i < twins.outputs; ++i) {
    results.push_back(application.On(RandomTensor(random, 200)));
    KILN_ASSERT_OK(twins.device->BindOutput(i, results.back()));
  }
  KILN_ASSERT_OK(twins.cpu->Run());
  RunControl control;
  for (int run = 0; run < 4; ++run) {
    control.stream = run < 2 ? nullptr : application.stream();
    const Calls calls = CallsOf(kCopies, [&] { KILN_ASSERT_OK(twins.device->Run(control)); });
    EXPECT_EQ(calls, (Calls{0, 0, 0, control.stream == nullptr ? 1U : 0U})) << "run " << run;
    for (size_t i = 0; i < twins.outputs; ++i) {
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor output, twins.device->Output(i));
      EXPECT_EQ(output.data(), results[i].data());
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor given, FromDLPack(*ToDLPack(output)));
      EXPECT_EQ(given.device(), (Device{DeviceKind::kCuda, 0}));
      EXPECT_TRUE(CompareBits(application.Back(given), *twins.cpu->Output(i)).ok);
    }
  }
  EXPECT_EQ(TakeFindings(), "");
}

// Some ports on the device, some on the host, in programs with and without host thunks, rebound
// between runs.
TEST(DeviceTensors, GiveTheBitsOfTheCpu) {
  const auto programs = static_cast<uint64_t>(FromEnvironment("KILN_DEVICE_PROGRAMS", 40));
  Restart();
  Application application;
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  for (uint64_t seed = 1; seed <= programs && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const auto one_in = [&](uint64_t n) { return random() % n == 0; };
    Twins twins;
    KILN_ASSERT_OK(twins.Make(seed, {.kernels = 5, .host_thunks = seed % 2 == 0}, runtime));
    int64_t n = 1;
    for (int run = 0; run < 10 && !testing::Test::HasFailure(); ++run) {
      const bool resized = run == 0 || one_in(5);
      if (resized) n = kExtents[random() % std::size(kExtents)];
      for (size_t i = 0; i < twins.inputs; ++i) {
        if (!resized && one_in(2)) continue;
        const Tensor x = RandomTensor(random, n);
        KILN_ASSERT_OK(twins.cpu->Bind(i, x));
        const auto shift = static_cast<int64_t>(random() % 3);
        KILN_ASSERT_OK(twins.device->Bind(i, one_in(3) ? x : application.On(x, shift)));
      }
      for (size_t i = 0; i < twins.outputs; ++i) {
        if (!resized && one_in(2)) continue;
        const Tensor y = RandomTensor(random, n);
        KILN_ASSERT_OK(twins.device->BindOutput(i, one_in(3) ? y : application.On(y)));
      }
      RunControl control;
      if (one_in(2)) control.stream = application.stream();
      KILN_ASSERT_OK(twins.cpu->Run());
      KILN_ASSERT_OK(twins.device->Run(control));
      for (size_t i = 0; i < twins.outputs; ++i) {
        KILN_ASSERT_OK_AND_ASSIGN(const Tensor output, twins.device->Output(i));
        const Tensor got = output.device() == Device() ? output : application.Back(output);
        ASSERT_TRUE(CompareBits(got, *twins.cpu->Output(i)).ok) << "run " << run << " output " << i;
      }
    }
  }
  EXPECT_EQ(TakeFindings(), "");
}

// An output over an input.
TEST(DeviceTensors, MayBeInputAndOutput) {
  Restart();
  Application application;
  const std::shared_ptr<Runtime> runtime = RuntimeOn(EmulatedDevice());
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Twins twins;
    KILN_ASSERT_OK(twins.Make(seed, {.kernels = 4, .host_thunks = seed % 3 == 0}, runtime));
    std::mt19937_64 random(seed);
    std::vector<Tensor> x;
    for (size_t i = 0; i < twins.inputs; ++i) {
      const Tensor host = RandomTensor(random, 90);
      x.push_back(application.On(host));
      KILN_ASSERT_OK(twins.cpu->Bind(i, host));
      KILN_ASSERT_OK(twins.device->Bind(i, x[i]));
    }
    KILN_ASSERT_OK(twins.device->BindOutput(size_t{0}, x[seed % twins.inputs]));
    KILN_ASSERT_OK(twins.cpu->Run());
    KILN_ASSERT_OK(twins.device->Run());
    EXPECT_TRUE(CompareBits(application.Back(*twins.device->Output(size_t{0})),
                            *twins.cpu->Output(size_t{0}))
                    .ok);
  }
}

TEST(DeviceTensors, OfAnotherPlaceAreRefused) {
  Restart(2);
  Application first(0), second(1);
  const DeviceProgram program(1, {});
  std::mt19937_64 random(1);
  const Tensor host = RandomTensor(random, 16);
  const auto refused = [&](Context& context, const Tensor& x, const std::string& why) {
    for (const absl::Status& status :
         {context.Bind(size_t{0}, x), context.BindOutput(size_t{0}, x)}) {
      EXPECT_FALSE(status.ok()) << why;
      EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    }
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, program.MakeModel(RuntimeOn(EmulatedDevice(0))));
  Context context = model.NewContext();
  const Device on_first{DeviceKind::kCuda, 0};
  refused(context, second.On(host), "is on device 1 of cuda, the model runs on");
  refused(context, Tensor::View(host.data(), DType::kF32, {16}, {}, nullptr, on_first),
          "the memory is none of a device");
  refused(context, Tensor::View(second.On(host).data(), DType::kF32, {16}, {}, nullptr, on_first),
          "expected that of device 0");
  void* const gone = first.On(host).data();
  refused(context, Tensor::View(gone, DType::kF32, {16}, {}, nullptr, on_first),
          "none of a device");
  const Tensor x = first.On(host);
  refused(context, Tensor::View(x.data(), DType::kF32, {8}, {2}, nullptr, on_first),
          "not dense and aligned");
  const Tensor small = first.On(RandomTensor(random, 4));
  refused(context, Tensor::View(small.data(), DType::kF32, {1 << 20}, {}, nullptr, on_first),
          "none of a device");
  // A device that is lost has no tensors.
  kiln_ptx_fail_at(1, 700, 1);
  EXPECT_FALSE(context.Bind(size_t{0}, x).ok());
  EXPECT_THAT(context.Bind(size_t{0}, x), StatusIs(absl::StatusCode::kUnavailable));

  DeviceProgramOptions on_cpu;
  on_cpu.on_device = false;
  KILN_ASSERT_OK_AND_ASSIGN(Model cpu_model,
                            DeviceProgram(1, on_cpu).MakeModel(RuntimeOn(nullptr)));
  Context cpu = cpu_model.NewContext();
  refused(cpu, x, "copy it to the CPU");
  RunControl control;
  control.stream = first.stream();
  KILN_ASSERT_OK(cpu.Bind(size_t{0}, host));
  EXPECT_THAT(cpu.Run(control), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace kiln
