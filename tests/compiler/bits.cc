// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/bits.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exec/support/launch.h"
#include "exec/support/pool.h"
#include "exec/vm/vm.h"
#include "kernel/operands.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"

namespace kiln {
namespace {

// The call block of a run: pointers stay valid while the object and the run live.
class Arguments {
 public:
  explicit Arguments(RandomRun& run) : params_(run.params) {
    buffers_.reserve(run.inputs.size() + run.outputs.size());
    dims_.reserve(buffers_.capacity());
    for (const int64_t extent : run.extents) extents_.push_back(static_cast<int32_t>(extent));
    argv_.push_back(nullptr);
    for (RandomOperand& operand : run.inputs) Add(operand);
    for (int32_t& extent : extents_) argv_.push_back(&extent);
    for (size_t k = 0; k < params_.size(); ++k) argv_.push_back(&params_[k]);
    for (RandomOperand& operand : run.outputs) Add(operand);
  }
  void** argv() { return argv_.data(); }

 private:
  void Add(RandomOperand& operand) {
    std::vector<BufferDim>& dims = dims_.emplace_back();
    for (size_t axis = operand.shape.size(); axis-- > 0;) {
      dims.push_back({0, static_cast<int32_t>(operand.shape[axis]),
                      static_cast<int32_t>(operand.strides[axis]), 0});
    }
    BufferArg& buffer = buffers_.emplace_back();
    buffer.host = static_cast<uint8_t*>(operand.data());
    buffer.type_code = operand.type == DType::kBF16 ? 4
                       : IsFloat(operand.type)      ? 2
                       : IsSigned(operand.type)     ? 0
                                                    : 1;
    buffer.type_bits = static_cast<uint8_t>(8 * SizeOf(operand.type));
    buffer.dimensions = static_cast<int32_t>(dims.size());
    buffer.dim = dims.data();
    argv_.push_back(&buffer);
  }

  std::vector<uint64_t> params_;
  std::vector<int32_t> extents_;
  std::vector<BufferArg> buffers_;
  std::vector<std::vector<BufferDim>> dims_;
  std::vector<void*> argv_;
};

// A program with the kernel in the narrowest size class that holds these extents.
absl::StatusOr<program::Program> ProgramFor(const Kernel& kernel, const RandomRun& run,
                                            Target target) {
  program::Program program;
  program::KernelDef* const def = program.add_kernels();
  def->set_text(Print(kernel));
  const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
  for (const SizeClass& sizes : SizeClassesFor(kernel, any)) {
    if (!sizes.Contains(run.extents)) continue;
    program::KernelChoice* const choice = def->add_choices();
    choice->set_schedule(ChooseSchedule(kernel, sizes, ShippedMachine(target)).ToString());
    for (const int64_t bound : sizes.at_most) choice->add_at_most(bound == kUnbounded ? -1 : bound);
    return program;
  }
  return absl::InternalError("no size class holds the extents");
}

bool HasElements(const RandomOperand& operand) {
  return std::find(operand.shape.begin(), operand.shape.end(), 0) == operand.shape.end();
}

// Plans launch the VM where an input, or what is reduced, has no elements.
bool IsForVmAlone(const Kernel& kernel, const RandomRun& run) {
  return ReducesNothing(kernel, run.extents) ||
         !std::all_of(run.inputs.begin(), run.inputs.end(), HasElements);
}

std::string Launch(const KernelFunction& function, int threads, RandomRun& run) {
  Pool pool(threads);
  Launcher launcher(&pool);
  Arguments arguments(run);
  const int result = launcher.Launch(function.run, function.self, arguments.argv());
  return result == 0 ? "" : absl::StrCat("returned ", result);
}

}  // namespace

BitComparer::BitComparer() {
  for (const auto& [level, name, doc] : AllTargets()) {
    if (!level.compiles() || !level.RunsOn(HostTarget())) continue;
    CompileOptions options;
    options.target = level;
    options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
    options.kernel_timeout_ms = 240'000;  // bits are compared here; slow building is no failure
    options.kernel_cpu_ms = 0;
    levels_.push_back(level);
    services_.push_back(std::make_shared<KernelService>(options));
  }
}

std::string BitComparer::Difference(const Kernel& kernel, const RandomRun& run) {
  const auto vm = VmKernel::Compile(kernel);
  if (!vm.ok()) return absl::StrCat("VM: ", vm.status().message());
  const KernelFunction on_vm{&RunVm, vm->get(), true, nullptr};
  RandomRun want = run;
  if (std::string error = Launch(on_vm, 1, want); !error.empty()) return absl::StrCat("VM ", error);
  const auto compare = [&](const KernelFunction& function, const std::string& name) {
    for (const int threads : {1, 2, 3, 8}) {
      RandomRun got = run;
      std::string error = Launch(function, threads, got);
      if (error.empty()) error = FirstDifference(kernel, got, want);
      if (!error.empty()) return absl::StrCat(name, ", ", threads, " threads: ", error);
    }
    return std::string();
  };
  if (std::string error = compare(on_vm, "VM"); !error.empty()) return error;
  for (size_t k = 0; k < levels_.size() && !IsForVmAlone(kernel, run); ++k) {
    if (!AcceptsKernel(kernel, levels_[k])) continue;  // compilers leave it to the VM, too
    const auto program = ProgramFor(kernel, run, levels_[k]);
    if (!program.ok()) return std::string(program.status().message());
    const auto handle = services_[k]->Get(program->kernels(0), program->kernels(0).choices(0));
    if (!handle.ok()) return std::string(handle.status().message());
    const std::string name(levels_[k].name());
    if ((*handle)->Get()->vm) return absl::StrCat(name, ": was not compiled");
    if (std::string error = compare(*(*handle)->Get(), name); !error.empty()) return error;
  }
  return "";
}

RandomRun RunFor(const Kernel& kernel, std::vector<int64_t> extents, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto element = [&](DType type, uint8_t* at) {
    const double value = static_cast<double>(static_cast<int64_t>(random() % 8001) - 4000) * 1e-3;
    const uint64_t bits = IsFloat(type) ? ConstBits(ComputeType(type), value) : random() % 3;
    if (type == DType::kF16 || type == DType::kBF16) {
      const auto narrow = type == DType::kF16 ? FloatToHalf(static_cast<float>(value))
                                              : FloatToBFloat(static_cast<float>(value));
      std::memcpy(at, &narrow, 2);
    } else {
      const uint64_t stored = type == DType::kBool ? bits & 1 : bits;
      std::memcpy(at, &stored, SizeOf(type));
    }
  };
  const auto operand = [&](DType type, const std::vector<int32_t>& dims, bool fill) {
    RandomOperand out;
    out.type = type;
    for (const int32_t dim : dims) out.shape.push_back(extents[static_cast<size_t>(dim)]);
    out.strides = DenseStrides(out.shape);
    int64_t count = 1;
    for (const int64_t extent : out.shape) count *= extent;
    out.bytes.assign(2 * RandomOperand::kPad + static_cast<size_t>(count) * SizeOf(type), 0xa5);
    for (int64_t k = 0; fill && k < count; ++k)
      element(type, out.bytes.data() + RandomOperand::kPad + static_cast<size_t>(k) * SizeOf(type));
    return out;
  };
  RandomRun run;
  for (const KernelInput& input : kernel.inputs)
    run.inputs.push_back(operand(input.type, input.dims, true));
  for (const KernelOutput& output : kernel.outputs)
    run.outputs.push_back(operand(output.type, output.dims, false));
  for (const DType type : kernel.params)
    run.params.push_back(ConstBits(type, IsFloat(type) ? 0.37 : 1));
  run.extents = std::move(extents);
  return run;
}

}  // namespace kiln
