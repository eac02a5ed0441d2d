// SPDX-License-Identifier: Apache-2.0
// The fakes of NVIDIA's libraries, opened as Kiln opens them, and steered through what they export.
#ifndef KILN_TESTS_CUDA_FAKE_FAKES_H_
#define KILN_TESTS_CUDA_FAKE_FAKES_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln {

// The functions of fake/control.h in one of the fakes.
class Fake {
 public:
  explicit Fake(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << path;
  }
  void reset() { Call<void (*)()>("reset")(); }
  void fail_at(uint64_t k, int status) { Call<void (*)(uint64_t, int)>("fail_at")(k, status); }
  void set_version(size_t version) { Call<void (*)(size_t)>("set_version")(version); }
  void refuse(int refuse) { Call<void (*)(int)>("refuse")(refuse); }
  uint64_t calls() { return Call<uint64_t (*)()>("calls")(); }
  uint64_t queries() { return Call<uint64_t (*)()>("queries")(); }
  uint64_t computed() { return Call<uint64_t (*)()>("computed")(); }
  uint64_t objects() { return Call<uint64_t (*)()>("objects")(); }

 private:
  template <typename Function>
  Function Call(const char* name) {
    return reinterpret_cast<Function>(dlsym(library_, (std::string("kiln_fake_") + name).c_str()));
  }
  void* const library_;
};

struct FakeLibraries {
  const std::string cublaslt_path = KILN_TEST_FAKE_CUBLASLT, cudnn_path = KILN_TEST_FAKE_CUDNN;
  Fake cublaslt{cublaslt_path}, cudnn{cudnn_path};
};

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_FAKE_FAKES_H_
