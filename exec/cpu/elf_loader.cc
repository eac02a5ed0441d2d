// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/elf_loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/cpu_features.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/cpu/elf_check.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U  // Linux 6.3; older kernels answer EINVAL
#endif

namespace kiln {
namespace {

// The result of an import that a checked launch cannot reach.
constexpr int kUnreachable = -99;  // correctness

// What compiled code calls; `context` is the LaunchContext that argv[0] points to.
int DoParFor(void* context, TaskFn task, int min, int n, uint8_t* closure) {
  auto* launch = static_cast<LaunchContext*>(context);
  return launch->parallel_for(launch, task, min, n, closure);
}
void* Malloc(void* context, size_t bytes) {
  auto* launch = static_cast<LaunchContext*>(context);
  return launch->allocate(launch, bytes);
}
void Free(void* context, void* memory) {
  auto* launch = static_cast<LaunchContext*>(context);
  launch->release(launch, memory);
}
int Unreachable() { return kUnreachable; }

// The slots in the order of kImportNames.
void FillImports(void** table) {
  void* const known[] = {
      reinterpret_cast<void*>(&DoParFor),    reinterpret_cast<void*>(&Malloc),
      reinterpret_cast<void*>(&Free),        reinterpret_cast<void*>(&std::memset),
      reinterpret_cast<void*>(&std::memcpy), reinterpret_cast<void*>(&std::memmove)};
  constexpr size_t kKnown = sizeof(known) / sizeof(known[0]);
  for (size_t i = 0; i < kNumImports; ++i)
    table[i] = i < kKnown ? known[i] : reinterpret_cast<void*>(&Unreachable);
}

// "/proc/self/fd/<fd>" spelled in a way that no other load uses.
std::string UniquePath(int fd) {
  static std::atomic<uint32_t> loads{0};
  const uint32_t load = loads.fetch_add(1, std::memory_order_relaxed);
  std::string path = "/proc/self/fd";
  for (int bit = 0; bit < 32; ++bit) path += (load >> bit & 1) != 0 ? "/." : "//";
  return absl::StrCat(path, "/", fd);
}

std::shared_ptr<void> Open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  return std::shared_ptr<void>(handle, [](void* object) { dlclose(object); });
}

absl::Status OpenError() {
  const char* why = dlerror();
  return absl::UnavailableError(
      absl::StrCat("kernel object: dlopen: ", why == nullptr ? "unknown error" : why,
                   "; the kernel runs in the VM"));
}

// The import table of `object`, or null if another load has filled it: then glibc gave us an object
// that it already had.
void** FreshTable(void* object) {
  auto** table = static_cast<void**>(dlsym(object, "kiln_imports"));
  return table != nullptr && table[0] == nullptr ? table : nullptr;
}

absl::StatusOr<std::shared_ptr<void>> OpenFromMemory(absl::string_view bytes,
                                                     const std::string& name) {
  int raw = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
  if (raw < 0 && errno == EINVAL) raw = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const Descriptor fd(raw);
  if (!fd) return ErrnoStatus(errno, name, "memfd_create");
  KILN_RETURN_IF_ERROR(WriteAll(fd, bytes, name));
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, name, "fcntl(F_ADD_SEALS)");
  }
  // A second copy of this library in the process counts loads for itself.
  constexpr int kTries = 4;  // correctness
  for (int i = 0; i < kTries; ++i) {
    std::shared_ptr<void> object = Open(UniquePath(fd.get()));
    if (object == nullptr) return OpenError();
    if (FreshTable(object.get()) != nullptr) return object;
  }
  return absl::UnavailableError(
      "kernel object: its path is taken by another object; the kernel runs in the VM");
}

// For systems without executable memory files, and for debugging. Only this user can reach the
// folder.
absl::StatusOr<std::shared_ptr<void>> OpenFromFile(absl::string_view bytes, const std::string& name,
                                                   bool keep) {
  const char* temp = secure_getenv("TMPDIR");
  std::string folder =
      absl::StrCat(temp == nullptr || *temp == '\0' ? "/tmp" : temp, "/kiln-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) return ErrnoStatus(errno, folder, "mkdtemp");
  const std::string path = absl::StrCat(folder, "/", name, ".so");
  absl::StatusOr<std::shared_ptr<void>> result = [&]() -> absl::StatusOr<std::shared_ptr<void>> {
    const Descriptor fd(
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.get() < 0) return ErrnoStatus(errno, path, "open");
    KILN_RETURN_IF_ERROR(WriteAll(fd, bytes, path));
    std::shared_ptr<void> object = Open(path);
    if (object == nullptr) return OpenError();
    if (FreshTable(object.get()) == nullptr)
      return absl::UnavailableError("kernel object: its path is taken; try again");
    return object;
  }();
  if (!keep || !result.ok()) {
    unlink(path.c_str());
    rmdir(folder.c_str());
  }
  return result;
}

// Letters, digits, `-`, `_` and `.` of `name`, at most 60: a file name on any system.
std::string FileName(absl::string_view name) {
  std::string out;
  for (const char c : name.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    out += plain ? c : '.';
  }
  return out.empty() ? "kernel" : out;
}

absl::StatusOr<std::shared_ptr<void>> OpenObject(absl::string_view bytes, const std::string& name) {
  const char* debug = secure_getenv("KILN_DEBUG_LOAD");
  if (debug != nullptr && absl::string_view(debug) == "file")
    return OpenFromFile(bytes, name, /*keep=*/true);
  absl::StatusOr<std::shared_ptr<void>> object = OpenFromMemory(bytes, name);
  if (object.ok() || absl::IsResourceExhausted(object.status())) return object;
  absl::StatusOr<std::shared_ptr<void>> fallback = OpenFromFile(bytes, name, /*keep=*/false);
  return fallback.ok() ? fallback : object;
}

}  // namespace

absl::StatusOr<LoadedKernel> LoadElf(absl::string_view bytes, absl::string_view name) {
  KILN_ASSIGN_OR_RETURN(const KernelElf elf, CheckKernelElf(bytes));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<void> object, OpenObject(bytes, FileName(name)));
  auto** table = static_cast<void**>(dlsym(object.get(), "kiln_imports"));
  FillImports(table);
  if (elf.imports_alone)
    mprotect(table, kNumImports * sizeof(void*), PROT_READ);  // a failure only leaves it writable
  const auto function = reinterpret_cast<KernelFn>(dlsym(object.get(), "k_argv"));
  if (function == nullptr) return OpenError();
  return LoadedKernel(std::move(object), function);
}

bool HostRuns(absl::string_view isa) {
  const CpuFeatures& host = HostCpu();
  for (absl::string_view wanted : absl::StrSplit(isa, ' ', absl::SkipEmpty())) {
    if (absl::StartsWith(wanted, "avx512") && HostIsa() < IsaLevel::kV4) return false;
    const auto known =
        std::find_if(AllCpuFeatures().begin(), AllCpuFeatures().end(),
                     [&](const CpuFeatureName& feature) { return feature.name == wanted; });
    if (known == AllCpuFeatures().end() || !(host.*known->has)) return false;
  }
  return true;
}

}  // namespace kiln
