// SPDX-License-Identifier: Apache-2.0
// Dense arrays, and one call of a library operator on them, for tests.
#ifndef KILN_TESTS_EXEC_LIBRARY_CALL_H_
#define KILN_TESTS_EXEC_LIBRARY_CALL_H_

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "exec/library/library.h"
#include "exec/support/pool.h"
#include "gtest/gtest.h"

namespace kiln::library {

using Extents = std::vector<int64_t>;

inline int64_t Count(const Extents& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

template <typename T>
struct Array {
  Extents shape;
  std::vector<T> data;

  explicit Array(Extents s, T value = T())
      : shape(std::move(s)), data(static_cast<size_t>(Count(shape)), value) {}
  T& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  const T& operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
};

// Multiples of 0.001 from -1 to 1.
inline Array<float> Random(Extents shape, uint64_t seed) {
  Array<float> a(std::move(shape));
  std::mt19937_64 random(seed);
  for (float& x : a.data)
    x = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 1000.0F;
  return a;
}

template <typename T>
Operand Describe(const Array<T>& a, DType type, bool constant = false) {
  return {true, type, a.shape, DenseStrides(a.shape), constant ? a.data.data() : nullptr};
}

inline std::shared_ptr<Session> NewSession(int threads = 1) {
  static std::map<int, kiln::Pool> pools;
  return *Session::Create(&pools.try_emplace(threads, threads).first->second);
}

// What a primitive made for the request says.
inline absl::Status RunOp(absl::string_view name, const Request& request,
                          std::vector<const void*> inputs, void* output,
                          const std::shared_ptr<Session>& session) {
  const Operator* op = Find(name);
  if (op == nullptr) return absl::NotFoundError("no operator");
  auto primitive = Make(*op, request, session);
  if (!primitive.ok()) return primitive.status();
  std::vector<void*> in;
  for (const void* p : inputs) in.push_back(const_cast<void*>(p));
  void* scratch =
      std::aligned_alloc(64, static_cast<size_t>(((*primitive)->scratch_bytes() + 64) / 64 * 64));
  // Twice: a primitive keeps nothing of a run.
  absl::Status status = (*primitive)->Run({in.data(), &output, scratch, nullptr});
  if (status.ok()) status = (*primitive)->Run({in.data(), &output, scratch, nullptr});
  std::free(scratch);
  return status;
}

inline void ExpectNear(const Array<float>& got, const std::vector<double>& want,
                       const std::string& what) {
  ASSERT_EQ(got.data.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got.data[i], want[i], 1e-4 * (1 + std::abs(want[i]))) << what << " element " << i;
  }
}

}  // namespace kiln::library

#endif  // KILN_TESTS_EXEC_LIBRARY_CALL_H_
