// SPDX-License-Identifier: Apache-2.0
#include "tests/halide_gen/loaded_kernel.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

int ParallelFor(void* context, TaskFn task, int min, int n, uint8_t* closure) {
  for (int i = n - 1; i >= 0; --i) {
    if (const int result = task(context, min + i, closure); result != 0) return result;
  }
  return 0;
}

// Scratch is whole lines that end where nothing can be read; before it stands its length.
constexpr size_t kPage = 4096;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

void* Allocate(void*, size_t bytes) {
  const size_t length = RoundUp(bytes, kLine), pages = RoundUp(length + sizeof(length), kPage);
  void* const first =
      mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED) return nullptr;
  uint8_t* const end = static_cast<uint8_t*>(first) + pages;
  if (mprotect(end, kPage, PROT_NONE) != 0) return nullptr;
  std::memset(end - length, 0xff, length);  // what is read before it is written shows as NaN
  std::memcpy(end - length - sizeof(length), &length, sizeof(length));
  return end - length;
}

void Release(void*, void* memory) {
  if (memory == nullptr) return;
  size_t length = 0;
  std::memcpy(&length, static_cast<uint8_t*>(memory) - sizeof(length), sizeof(length));
  const size_t pages = RoundUp(length + sizeof(length), kPage);
  munmap(static_cast<uint8_t*>(memory) + length - pages, pages + kPage);
}

int Unreachable() { return -1; }

BufferArg Describe(const HostView& array, std::vector<BufferDim>& dims) {
  for (size_t axis = array.extents.size(); axis-- > 0;) {
    dims.push_back({0, static_cast<int32_t>(array.extents[axis]),
                    static_cast<int32_t>(array.strides[axis]), 0});
  }
  BufferArg arg;
  arg.host = static_cast<uint8_t*>(array.data);
  arg.type_bits = static_cast<uint8_t>(SizeOf(array.type) * 8);
  arg.dimensions = static_cast<int32_t>(dims.size());
  arg.dim = dims.data();
  return arg;
}

}  // namespace

HostArray HostArray::Make(DType type, std::vector<int64_t> extents, int64_t step, int64_t gap) {
  HostArray array{type, std::move(extents), {}, {}};
  array.strides.resize(array.extents.size());
  int64_t stride = step;
  for (size_t axis = array.extents.size(); axis-- > 0;) {
    array.strides[axis] = stride;
    stride *= array.extents[axis];
    if (axis + 1 == array.extents.size()) stride += gap;
  }
  // Room for a scalar, and for the one element that a launcher keeps readable behind an empty
  // operand.
  array.bytes.resize(static_cast<size_t>(stride + 1) * SizeOf(type) + 64);
  return array;
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> LoadedKernel::Load(const std::string& elf) {
  static int loads = 0;
  const int fd = memfd_create("kernel", MFD_CLOEXEC);
  if (fd < 0 || write(fd, elf.data(), elf.size()) != static_cast<ssize_t>(elf.size())) {
    return absl::InternalError("cannot write a memfd");
  }
  // The loader knows objects by path, and descriptors are used again: each load spells its path
  // differently.
  std::string path = "/proc/self/fd";
  for (int bit = 0; bit < 20; ++bit) path += (loads >> bit & 1) != 0 ? "/." : "//";
  ++loads;
  absl::StrAppend(&path, "/", fd);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  close(fd);
  if (handle == nullptr) return absl::InternalError(absl::StrCat("dlopen: ", dlerror()));
  const auto* abi = static_cast<const uint32_t*>(dlsym(handle, "kiln_abi"));
  auto** imports = static_cast<void**>(dlsym(handle, "kiln_imports"));
  const auto function = reinterpret_cast<KernelFn>(dlsym(handle, "k_argv"));
  if (abi == nullptr || *abi != kKernelAbi || imports == nullptr || function == nullptr) {
    return absl::InternalError("the object lacks kiln_abi, kiln_imports or k_argv");
  }
  void* const known[] = {reinterpret_cast<void*>(ParallelFor), reinterpret_cast<void*>(Allocate),
                         reinterpret_cast<void*>(Release),     reinterpret_cast<void*>(memset),
                         reinterpret_cast<void*>(memcpy),      reinterpret_cast<void*>(memmove)};
  for (size_t i = 0; i < kNumImports; ++i)
    imports[i] = i < 6 ? known[i] : reinterpret_cast<void*>(Unreachable);
  return std::unique_ptr<LoadedKernel>(new LoadedKernel(handle, function));
}

LoadedKernel::~LoadedKernel() { dlclose(handle_); }

int LoadedKernel::Run(const Kernel& kernel, const std::vector<int32_t>& extents,
                      const std::vector<uint64_t>& params, const std::vector<HostView>& inputs,
                      const std::vector<HostView>& outputs,
                      const std::vector<std::pair<int32_t, int32_t>>& in_place) const {
  std::vector<std::vector<BufferDim>> dims(inputs.size() + outputs.size());
  std::vector<BufferArg> buffers;
  for (const HostView& array : inputs) buffers.push_back(Describe(array, dims[buffers.size()]));
  for (const HostView& array : outputs) buffers.push_back(Describe(array, dims[buffers.size()]));
  for (const auto& [input, output] : in_place) {
    buffers[inputs.size() + static_cast<size_t>(output)].host =
        buffers[static_cast<size_t>(input)].host;
  }
  LaunchContext context;
  const auto first_output = buffers.begin() + static_cast<ptrdiff_t>(inputs.size());
  context.non_temporal = std::all_of(first_output, buffers.end(), WholeLines);
  LaunchContext* context_pointer = &context;
  std::vector<void*> argv = {&context_pointer};
  for (size_t i = 0; i < inputs.size(); ++i) argv.push_back(&buffers[i]);
  for (const int32_t& extent : extents) argv.push_back(const_cast<int32_t*>(&extent));
  for (size_t i = 0; i < kernel.params.size(); ++i)
    argv.push_back(const_cast<uint64_t*>(&params[i]));
  for (size_t i = 0; i < outputs.size(); ++i) argv.push_back(&buffers[inputs.size() + i]);
  return function_(argv.data());
}

}  // namespace kiln
