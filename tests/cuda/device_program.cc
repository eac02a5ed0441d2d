// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/device_program.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "base/status_macros.h"
#include "exec/cuda/cuda_device.h"
#include "exec/kernel_function.h"
#include "exec/runtime_state.h"
#include "kernel/text.h"
#include "tests/cuda/emulated_gpu.h"

namespace kiln {
namespace {

// y[i] = f(a[i], b[i], p) for i < n, by threads of blocks of 32. `body` makes %f4 of %f1, %f2, %f3.
std::string Entry(const std::string& name, const std::string& body) {
  return ".visible .entry " + name +
         R"((
  .param .u64 )" +
         name + R"(_0, .param .u64 )" + name + R"(_1, .param .u64 )" + name +
         R"(_2,
  .param .u32 )" +
         name + R"(_3, .param .f32 )" + name + R"(_4
)
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .f32 %f<6>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [)" +
         name + R"(_0];
  ld.param.u64 %rd2, [)" +
         name + R"(_1];
  ld.param.u64 %rd3, [)" +
         name + R"(_2];
  ld.param.u32 %r1, [)" +
         name + R"(_3];
  ld.param.f32 %f3, [)" +
         name + R"(_4];
  mov.u32 %r2, %ctaid.x;
  shl.b32 %r3, %r2, 5;
  mov.u32 %r4, %tid.x;
  add.s32 %r3, %r3, %r4;
  setp.ge.s32 %p1, %r3, %r1;
  @%p1 bra $end;
  mul.wide.s32 %rd4, %r3, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
)" + body +
         R"(
  st.global.f32 [%rd7], %f4;
$end:
  ret;
}
)";
}

constexpr char kHead[] = ".version 7.0\n.target sm_80\n.address_size 64\n";
constexpr char kOver[] = "grid (/ (+ extent0 31) 32) 1 1\nblock 32 1 1\nshared 0\n";

std::string Launch(const std::string& entry, const std::string& when,
                   const std::vector<std::string>& buffers, const std::string& param) {
  std::string text = "launch " + entry + "\n";
  if (!when.empty()) text += "when " + when + "\n";
  text += kOver;
  for (const std::string& buffer : buffers) text += "arg buffer " + buffer + "\n";
  return text + "arg i32 extent0\narg " + param + "\n";
}

struct Code {
  std::string ptx, recipe;
};

Code NegateCode() {
  const std::string body = "  neg.f32 %f4, %f1;";
  const std::string traps =
      "  or.b64 %rd8, %rd1, %rd3;\n  and.b64 %rd8, %rd8, 15;\n  setp.ne.s64 %p2, %rd8, 0;\n"
      "  @%p2 trap;\n";
  const std::string aligned = "(and (<= 16 (align in0)) (<= 16 (align out0)))";
  return {kHead + Entry("aligned", traps + body) + Entry("other", body),
          "kiln launch 1\n" + Launch("aligned", aligned, {"in0", "in0", "out0"}, "i32 0") +
              Launch("other", "(not " + aligned + ")", {"in0", "in0", "out0"}, "i32 0")};
}
Code MixCode() {
  return {kHead + Entry("mix", "  add.rn.f32 %f5, %f2, %f2;\n  add.rn.f32 %f4, %f1, %f5;"),
          "kiln launch 1\n" + Launch("mix", "", {"in0", "in1", "out0"}, "i32 0")};
}
Code BeyondCode() {
  return {
      kHead + Entry("beyond", "  neg.f32 %f4, %f1;"),
      "kiln launch 1\nlaunch beyond\n" + std::string(kOver) +
          "arg buffer in0\narg buffer in0\narg buffer out0\narg i32 (+ extent0 1)\narg i32 0\n"};
}
Code ScaleCode() {
  return {
      kHead + Entry("times", "  mul.rn.f32 %f4, %f1, %f3;") + Entry("move", "  mov.f32 %f4, %f1;"),
      "kiln launch 1\nscratch (* 4 extent0)\n" +
          Launch("times", "", {"in0", "in0", "scratch0"}, "param 0") +
          Launch("move", "", {"scratch0", "scratch0", "out0"}, "i32 0")};
}

}  // namespace

CodeImage DeviceCodeOf(const FakeKernel& kernel, bool beyond) {
  static const Code kCodes[] = {NegateCode(), MixCode(), ScaleCode(), BeyondCode()};
  const Code& code = kCodes[beyond                        ? 3
                            : kernel.name == kNegate.name ? 0
                            : kernel.name == kMix.name    ? 1
                                                          : 2];
  CodeImage image;
  image.code = code.ptx;
  image.recipe = code.recipe;
  image.kernel = kernel.text;
  return image;
}

std::shared_ptr<Runtime> RuntimeOn(const std::shared_ptr<ComputeDevice>& device) {
  auto runtime = Runtime::Create({.threads = 1});
  EXPECT_TRUE(runtime.ok()) << runtime.status();
  if (runtime.ok() && device != nullptr)
    (*runtime)->state().device = std::make_shared<DeviceConstants>(device);
  return runtime.ok() ? *std::move(runtime) : nullptr;
}

std::shared_ptr<ComputeDevice> EmulatedDevice(int ordinal) {
  const auto open = [&]() -> absl::StatusOr<std::shared_ptr<ComputeDevice>> {
    KILN_ASSIGN_OR_RETURN(auto driver, cuda::Driver::Open(EmulatedDriver()));
    KILN_ASSIGN_OR_RETURN(auto gpu, cuda::Gpu::Open(std::move(driver), ordinal));
    return cuda::MakeCudaDevice(std::move(gpu), absl::StrCat("cuda-emulated:", ordinal));
  };
  auto device = open();
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

int DeviceProgram::Temporary(bool on_device) {
  const int buffer = fake_.Temporary({"n"});
  if (on_device) fake_.proto().mutable_buffers(buffer)->set_device("cuda");
  return buffer;
}

int DeviceProgram::Bring(Value& value, bool on_device) {
  int& there = on_device ? value.device : value.host;
  if (there >= 0) return there;
  there = Temporary(on_device);
  fake_.Copy(on_device ? value.host : value.device, there, {"n"});
  return there;
}

void DeviceProgram::AddKernel(const FakeKernel& kernel, const std::vector<size_t>& from,
                              bool on_device) {
  std::vector<int> inputs;
  for (const size_t value : from) inputs.push_back(Bring(values_[value], on_device));
  Value made;
  (on_device ? made.device : made.host) = Temporary(on_device);
  FakeKernel named = kernel;
  const std::string name = absl::StrCat(kernel.name, on_device ? "_device" : "_host");
  named.name = name.c_str();
  const std::vector<float> params =
      kernel.name == kScale.name ? std::vector<float>{1.25F} : std::vector<float>{};
  fake_.Kernel(named, inputs, {on_device ? made.device : made.host}, {"n"}, params);
  is_device_.resize(static_cast<size_t>(fake_.proto().kernels_size()), on_device);
  values_.push_back(made);
}

DeviceProgram::DeviceProgram(uint64_t seed, const DeviceProgramOptions& options)
    : options_(options) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const size_t inputs = 1 + below(3), outputs = 1 + below(3);
  for (size_t i = 0; i < inputs; ++i)
    values_.push_back({fake_.Input(absl::StrCat("x", i), {"n"}), -1});
  const size_t kernels = static_cast<size_t>(options.kernels) + below(6);
  for (size_t k = 0; k < kernels; ++k) {
    // Mostly of what is new, so that chains are long.
    const auto pick = [&] {
      return below(3) > 0 ? values_.size() - 1 - below(std::min<size_t>(2, values_.size()))
                          : below(values_.size());
    };
    const bool on_host = below(6) == 0 && options.host_thunks;
    const size_t which = below(3), a = pick(), b = pick();
    const bool on_device = options.on_device && !on_host;
    AddKernel(which == 0   ? kNegate
              : which == 1 ? kMix
                           : kScale,
              which == 1 ? std::vector<size_t>{a, b} : std::vector<size_t>{a}, on_device);
  }
  for (size_t i = 0; i < outputs; ++i) {
    Value& value = values_[values_.size() - 1 - i % (values_.size() - inputs)];
    const int output = fake_.Output(absl::StrCat("y", i), {"n"});
    fake_.Copy(value.device >= 0 ? value.device : value.host, output, {"n"});
  }
}

absl::StatusOr<Model> DeviceProgram::MakeModel(const std::shared_ptr<Runtime>& runtime,
                                               RunOptions options) const {
  const auto variant = std::make_shared<Variant>(*fake_.variant);
  for (int k = 0; k < variant->program.kernels_size(); ++k) {
    const std::string& name = variant->program.kernels(k).name();
    std::shared_ptr<const KernelFunction> function;
    if (is_device_[static_cast<size_t>(k)]) {
      const FakeKernel& kernel = name == "negate_device" ? kNegate
                                 : name == "mix_device"  ? kMix
                                                         : kScale;
      KILN_ASSIGN_OR_RETURN(LoadedKernel loaded,
                            runtime->state().device->device().Load(
                                DeviceCodeOf(kernel, beyond_ && &kernel == &kMix)));
      function = CompiledFunction(std::move(loaded), DeviceKind::kCuda);
    } else {
      KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(variant->program.kernels(k).text()));
      KILN_ASSIGN_OR_RETURN(function, VmFunction(kernel, DefaultDevice()));
    }
    variant->kernels[static_cast<size_t>(k)] = {std::make_shared<KernelHandle>(function)};
  }
  options.runtime = runtime;
  options.threads = 1;
  if (options_.state) {
    options.states = {{fake_.ports_in.back().name, fake_.ports_out.back().name}};
  }
  return Model::Create(std::make_shared<FakeProvider>(fake_.ports_in, fake_.ports_out, variant),
                       options);
}

}  // namespace kiln
