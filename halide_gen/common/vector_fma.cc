// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/vector_fma.h"

#include <Halide.h>
#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "halide_gen/common/vector_fma_bitcode.h"

namespace kiln {

#define KILN_INITIAL_MODULE \
  "_ZN6Halide8Internal29get_initial_module_for_targetENS_6TargetEPN4llvm11LLVMContextEbb"

// Stands for std::unique_ptr<llvm::Module>, which is returned alike: LLVM's headers, which its
// destructor needs, do not come with Halide.
struct ModulePointer {
  explicit ModulePointer(llvm::Module* module) : module(module) {}
  ModulePointer(const ModulePointer& other) = delete;
  ~ModulePointer() {}
  llvm::Module* module;
};

using InitialModule = ModulePointer (*)(Halide::Target, llvm::LLVMContext*, bool, bool);

[[gnu::visibility("default")]] ModulePointer ModuleWithVectorFma(
    Halide::Target target, llvm::LLVMContext* context, bool for_shared_jit_runtime,
    bool just_gpu) asm(KILN_INITIAL_MODULE);

ModulePointer ModuleWithVectorFma(Halide::Target target, llvm::LLVMContext* context,
                                  bool for_shared_jit_runtime, bool just_gpu) {
  static const auto halides =
      reinterpret_cast<InitialModule>(dlsym(RTLD_NEXT, KILN_INITIAL_MODULE));
  static const std::vector<uint8_t> bitcode = [] {
    std::string bytes;
    absl::Base64Unescape(kVectorFmaBitcode, &bytes);
    return std::vector<uint8_t>(bytes.begin(), bytes.end());
  }();
  const ModulePointer initial = halides(target, context, for_shared_jit_runtime, just_gpu);
  Halide::Internal::add_bitcode_to_module(context, *initial.module, bitcode, "vector_fma");
  return ModulePointer(initial.module);
}

const char* VectorFmaName(int bits) { return bits == 32 ? "kiln_fma_f32" : "kiln_fma_f64"; }

}  // namespace kiln
