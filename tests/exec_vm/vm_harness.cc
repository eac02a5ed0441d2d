// SPDX-License-Identifier: Apache-2.0
#include "tests/exec_vm/vm_harness.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "exec/support/launch.h"
#include "exec/vm/vm.h"

namespace kiln {
namespace {

constexpr uint8_t kPattern = 0xa5;

float RandomFloat(std::mt19937& random) {
  constexpr float kSpecial[] = {0.0f,  -0.0f,  1.0f,     -1.0f,   1e-40f,  -1e-45f, 3e38f,   -3e38f,
                                88.7f, -104.f, 0x1p-14f, 65504.f, 65520.f, 1e30f,   -1e-30f, 0.5f};
  switch (random() % 24) {
    case 0:
      return __builtin_nanf("");
    case 1:
      return __builtin_inff();
    case 2:
      return -__builtin_inff();
    case 3:
    case 4:
    case 5:
      return kSpecial[random() % 16];
    default:
      return (static_cast<float>(random() % 200001) - 100000.0f) * 1e-4f;
  }
}

bool IsNanBits(DType type, uint64_t bits) {
  const double value = ConstValue(ComputeType(type), bits);
  return IsFloat(type) && value != value;
}

}  // namespace

TestArg::TestArg(DType type, void* data, const std::vector<int64_t>& extents,
                 const std::vector<int64_t>& strides) {
  for (size_t k = extents.size(); k > 0; --k) {
    dims.push_back(
        {0, static_cast<int32_t>(extents[k - 1]), static_cast<int32_t>(strides[k - 1]), 0});
  }
  arg.host = static_cast<uint8_t*>(data);
  arg.type_bits = static_cast<uint8_t>(8 * SizeOf(type));
  arg.dimensions = static_cast<int32_t>(dims.size());
  arg.dim = dims.data();
}

int64_t TestBuffer::elements() const {
  int64_t n = 1;
  for (const int64_t e : extents) n *= e;
  return n;
}

int64_t TestBuffer::OffsetOf(int64_t i) const {
  int64_t offset = 0;
  for (size_t k = extents.size(); k > 0; --k) {
    offset += i % extents[k - 1] * strides[k - 1];
    i /= extents[k - 1];
  }
  return offset;
}

bool TestBuffer::Intact() const {
  std::vector<bool> covered(bytes.size(), false);
  for (int64_t i = 0; i < elements(); ++i) {
    const size_t at = kGuardBytes + static_cast<size_t>(OffsetOf(i)) * SizeOf(type);
    for (size_t b = 0; b < SizeOf(type); ++b) covered[at + b] = true;
  }
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (!covered[b] && bytes[b] != kPattern) return false;
  }
  return true;
}

TestBuffer MakeBuffer(DType type, const std::vector<int64_t>& extents, Layout layout) {
  TestBuffer buffer;
  buffer.type = type;
  buffer.extents = extents;
  buffer.strides.resize(extents.size());
  int64_t stride = layout == Layout::kStrided ? 2 : 1;
  for (size_t k = extents.size(); k > 0; --k) {
    buffer.strides[k - 1] = stride;
    stride *= extents[k - 1];
    if (layout != Layout::kDense) stride += 3;
  }
  buffer.bytes.assign(2 * TestBuffer::kGuardBytes + static_cast<size_t>(stride + 1) * SizeOf(type),
                      kPattern);
  for (size_t k = extents.size(); k > 0; --k) {
    buffer.dims.push_back(
        {0, static_cast<int32_t>(extents[k - 1]), static_cast<int32_t>(buffer.strides[k - 1]), 0});
  }
  return buffer;
}

uint64_t RandomBits(DType type, std::mt19937& random) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return ConstBits(DType::kF32, static_cast<double>(RandomFloat(random)));
    case DType::kF64:
      return ConstBits(type, random() % 4 == 0 ? static_cast<double>(RandomFloat(random))
                                               : (random() % 20001 - 10000.0) * 1e-3);
    case DType::kBool:
      return random() % 2;
    default:
      break;
  }
  const uint64_t wide = (static_cast<uint64_t>(random()) << 32) | random();
  switch (random() % 6) {
    case 0:
      return ConstBits(type, 0) + wide % 3;
    case 1:
      return wide;
    case 2:
      return IsSigned(type) ? uint64_t{1} << (8 * SizeOf(type) - 1) : ~uint64_t{0};
    case 3:
      return ~uint64_t{0};
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(wide % 21) - (IsSigned(type) ? 10 : 0));
  }
}

void FillRandom(TestBuffer& buffer, std::mt19937& random) {
  for (int64_t i = 0; i < buffer.elements(); ++i) {
    StoreElement(buffer.data(), buffer.type, buffer.OffsetOf(i), RandomBits(buffer.type, random));
  }
}

Operands MakeOperands(const Kernel& kernel, const Case& c) {
  std::mt19937 random(c.seed);
  Operands operands;
  const auto extents_of = [&](const std::vector<int32_t>& dims) {
    std::vector<int64_t> extents;
    for (const int32_t d : dims) extents.push_back(c.extents[static_cast<size_t>(d)]);
    return extents;
  };
  for (const KernelInput& input : kernel.inputs) {
    operands.inputs.push_back(MakeBuffer(input.type, extents_of(input.dims), input.layout));
    FillRandom(operands.inputs.back(), random);
  }
  for (const KernelOutput& output : kernel.outputs) {
    operands.outputs.push_back(MakeBuffer(output.type, extents_of(output.dims), output.layout));
  }
  for (const DType type : kernel.params) {
    uint64_t bits = 0;
    uint8_t memory[8] = {};
    StoreElement(memory, type, 0, RandomBits(type, random));
    bits = LoadElement(memory, type, 0);
    operands.params.push_back(bits);
  }
  operands.extents.assign(c.extents.begin(), c.extents.end());
  return operands;
}

int RunInVm(const Kernel& kernel, const Case& c, Operands& operands) {
  auto vm = VmKernel::Compile(kernel, c.isa);
  if (!vm.ok()) return -1000;
  std::vector<void*> argv = {nullptr};
  const auto add = [&argv](TestBuffer& buffer) {
    buffer.arg.host = static_cast<uint8_t*>(buffer.data());
    buffer.arg.type_bits = static_cast<uint8_t>(8 * SizeOf(buffer.type));
    buffer.arg.dimensions = static_cast<int32_t>(buffer.dims.size());
    buffer.arg.dim = buffer.dims.data();
    argv.push_back(&buffer.arg);
  };
  for (TestBuffer& input : operands.inputs) add(input);
  for (int32_t& extent : operands.extents) argv.push_back(&extent);
  for (uint64_t& param : operands.params) argv.push_back(&param);
  for (TestBuffer& output : operands.outputs) add(output);
  Pool pool(c.threads);
  Launcher launcher(&pool);
  const bool lines = std::all_of(operands.outputs.begin(), operands.outputs.end(),
                                 [](const TestBuffer& output) { return WholeLines(output.arg); });
  return launcher.Launch(&RunVm, vm->get(), argv.data(), lines);
}

std::string CompareWithNaive(const Kernel& kernel, const Case& c) {
  Operands vm = MakeOperands(kernel, c), naive = MakeOperands(kernel, c);
  const std::string where = absl::StrCat("extents ", absl::StrJoin(c.extents, ","), " threads ",
                                         c.threads, " isa ", Name(c.isa), " seed ", c.seed, ": ");
  if (const int error = RunInVm(kernel, c, vm); error != 0)
    return absl::StrCat(where, "the VM gives error ", error);
  std::vector<NaiveBuffer> inputs, outputs;
  for (TestBuffer& input : naive.inputs) inputs.push_back(input.naive());
  for (TestBuffer& output : naive.outputs) outputs.push_back(output.naive());
  const absl::Status status = EvalKernel(kernel, inputs, c.extents, naive.params, outputs);
  if (!status.ok()) return absl::StrCat(where, status.message());
  for (size_t o = 0; o < vm.outputs.size(); ++o) {
    TestBuffer &got = vm.outputs[o], &want = naive.outputs[o];
    if (!got.Intact())
      return absl::StrCat(where, "output ", o, " was written outside its elements");
    for (int64_t i = 0; i < got.elements(); ++i) {
      const uint64_t a = LoadElement(got.data(), got.type, got.OffsetOf(i)),
                     b = LoadElement(want.data(), want.type, want.OffsetOf(i));
      if (a == b || (IsNanBits(got.type, a) && IsNanBits(got.type, b))) continue;
      return absl::StrCat(where, "output ", o, " element ", i, ": got 0x", absl::Hex(a),
                          ", expected 0x", absl::Hex(b));
    }
  }
  return "";
}

std::vector<IsaLevel> LevelsHere() {
  std::vector<IsaLevel> levels = {IsaLevel::kBaseline};
  if (HostIsa() >= IsaLevel::kV3) levels.push_back(IsaLevel::kV3);
  if (HostIsa() >= IsaLevel::kV4) levels.push_back(IsaLevel::kV4);
  return levels;
}

std::string CompareEverywhere(const Kernel& kernel, const std::vector<int64_t>& extents,
                              uint32_t seed) {
  for (const IsaLevel isa : LevelsHere()) {
    for (int threads = 1; threads <= 3; ++threads) {
      if (std::string difference = CompareWithNaive(kernel, {extents, threads, isa, seed});
          !difference.empty())
        return difference;
    }
  }
  return "";
}

}  // namespace kiln
