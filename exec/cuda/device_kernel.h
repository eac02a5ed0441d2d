// SPDX-License-Identifier: Apache-2.0
// Device code of a Kernel, ready to be launched by its recipe (kernel/launch_recipe.h).
//
//   const auto counts = DeviceKernel::Counts::Of(kernel);
//   KILN_ASSIGN_OR_RETURN(auto loaded, DeviceKernel::Load(gpu, ptx, recipe, counts));
//   PreparedKernel prepared(*loaded, argv);    // argv as for compiled code
//   KILN_RETURN_IF_ERROR(prepared.Refresh(scratch));
//   for (const PreparedLaunch& launch : prepared.launches()) ...    // cuLaunchKernel
//
// Operands lie on the device: BufferArg::host has their addresses there.
#ifndef KILN_EXEC_CUDA_DEVICE_KERNEL_H_
#define KILN_EXEC_CUDA_DEVICE_KERNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/cuda/gpu.h"
#include "kernel/kernel.h"
#include "kernel/launch_recipe.h"

namespace kiln::cuda {

// Immutable; any number of queues of its device may have launches of it at once.
class DeviceKernel {
 public:
  // How many arguments there are of each kind, and where params are no addresses.
  struct Counts {
    size_t inputs = 0, dims = 0, outputs = 0;
    std::vector<DType> params;
    static Counts Of(const Kernel& kernel);
  };

  // The text is PTX; the machine code, where there is one, is what is loaded in its place.
  // kDataLoss: the code is none, or has not the functions of the recipe, or these take other
  // arguments, or it names some that there are not.
  static absl::StatusOr<std::unique_ptr<DeviceKernel>> Load(std::shared_ptr<Gpu> gpu,
                                                            absl::string_view text,
                                                            absl::string_view recipe, Counts counts,
                                                            absl::string_view machine_code = "");

 private:
  friend class PreparedKernel;
  DeviceKernel() = default;
  absl::Status CheckArguments(absl::string_view text) const;

  std::shared_ptr<DeviceModule> module_;
  LaunchRecipe recipe_;
  Counts counts_;
  std::vector<Function> functions_;  // one for each launch
};

// What cuLaunchKernel is given.
struct PreparedLaunch {
  const std::string* name = nullptr;  // of the function
  Function function = nullptr;
  std::array<unsigned, 3> grid{}, block{};
  unsigned shared_bytes = 0;
  std::vector<uint64_t> values;  // of the arguments
  std::vector<void*> params;     // their addresses
  bool changed = true;           // since it was taken last

  Result Launch(const Driver& driver, Stream stream) {
    return driver.cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                 shared_bytes, stream, params.data(), nullptr);
  }
};

// The launches of a kernel with certain extents: grids, blocks and numbers are evaluated once, and
// what depends on addresses when they change.
class PreparedKernel {
 public:
  // `argv` is as kernel/abi.h says. Both outlive it, and what argv points to stays where it is.
  PreparedKernel(const DeviceKernel& kernel, void** argv) : kernel_(&kernel), argv_(argv) {}

  // Of the memory that its launches share.
  absl::StatusOr<size_t> ScratchBytes() const;
  // Makes the launches those for the addresses that operands have now. True: other functions are
  // launched than before, or it is the first time.
  absl::StatusOr<bool> Refresh(DevicePointer scratch);
  std::vector<PreparedLaunch>& launches() { return launches_; }

 private:
  struct Place {
    size_t launch, value;
    LaunchOperand operand;
  };
  const void* AddressOf(LaunchOperand operand) const;
  absl::StatusOr<std::vector<DevicePointer>> Scratch(DevicePointer base) const;
  absl::Status Evaluate(DevicePointer scratch);
  // Notes where operands lie. Whether something that the recipe asks about them has changed.
  bool SeeAddresses();

  const DeviceKernel* kernel_;
  void** argv_;
  bool evaluated_ = false;
  DevicePointer scratch_ = 0;
  std::vector<const void*> seen_;  // addresses of inputs, then outputs
  std::vector<PreparedLaunch> launches_;
  std::vector<Place> places_;  // of addresses among values
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_DEVICE_KERNEL_H_
