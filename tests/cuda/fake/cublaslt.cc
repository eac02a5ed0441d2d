// SPDX-License-Identifier: Apache-2.0
// A cuBLASLt for tests: the functions that Kiln calls, by plain loops over columns, in float64, on
// the memory of the emulated driver. It refuses what the real one refuses: columns that overlap,
// operands that are less aligned than the algorithm asks, a workspace that is not there.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "exec/cuda/cublaslt_api.h"
#include "tests/cuda/fake/state.h"

namespace kiln::cuda {

struct LtHandleOf {};
struct LtDescOf {
  LtCompute compute;
  LtType scale;
  int32_t transposed_a = 0, transposed_b = 0;
  uint32_t epilogue = kLtEpilogueDefault;
  const void* bias = nullptr;
};
struct LtLayoutOf {
  LtType type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t batch = 1;
  int64_t step = 0;
};
struct LtPreferenceOf {
  size_t workspace = 0;
  uint32_t alignment = 256;  // the largest of what is asked is what all have
};

namespace {

constexpr uint64_t kMagic = 0x5eed;
constexpr size_t kWorkspace = 96;

Item ItemOf(LtType type) {
  switch (type) {
    case kLtR64F:
      return Item::kF64;
    case kLtR16F:
      return Item::kF16;
    case kLtR16BF:
      return Item::kBF16;
    default:
      return Item::kF32;
  }
}

template <typename T, typename... Args>
LtStatus New(T** made, Args... args) {
  if (const int failure = State().Next()) return static_cast<LtStatus>(failure);
  *made = new T{args...};
  ++State().objects;
  return kLtSuccess;
}
template <typename T>
LtStatus Delete(T* object) {
  delete object;
  --State().objects;
  return kLtSuccess;
}
template <typename T>
LtStatus Set(T& member, const void* value, size_t bytes) {
  if (bytes != sizeof member) return kLtInvalidValue;
  std::memcpy(&member, value, bytes);
  return kLtSuccess;
}

// One matrix of a batch.
struct Matrix {
  const LtLayoutOf& layout;
  std::vector<double> values;  // columns, without gaps

  bool Fetch(const void* at, int64_t batch, Stream stream) {
    const size_t item = BytesOf(ItemOf(layout.type));
    std::vector<double> column;
    for (uint64_t j = 0; j < layout.columns; ++j) {
      const auto offset = static_cast<size_t>(batch * layout.step) * item +
                          j * static_cast<size_t>(layout.ld) * item;
      if (!cuda::Fetch(static_cast<const uint8_t*>(at) + offset, layout.rows, ItemOf(layout.type),
                       stream, column))
        return false;
      values.insert(values.end(), column.begin(), column.end());
    }
    return true;
  }
  double At(bool transposed, uint64_t i, uint64_t j) const {
    return transposed ? values[i * layout.rows + j] : values[j * layout.rows + i];
  }
};

double Epilogue(double x, uint32_t epilogue) {
  if ((epilogue & kLtEpilogueRelu) != 0) return std::fmax(x, 0);
  if ((epilogue & kLtEpilogueGelu) != 0)
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

bool Fits(const LtDescOf& desc, const LtLayoutOf& a, const LtLayoutOf& b, const LtLayoutOf& c,
          const LtLayoutOf& d) {
  for (const LtLayoutOf* layout : {&a, &b, &c, &d}) {
    if (layout->type != a.type || layout->batch != a.batch ||
        layout->ld < static_cast<int64_t>(layout->rows))
      return false;
  }
  const bool f64 = a.type == kLtR64F;
  const uint64_t k = desc.transposed_a != 0 ? a.rows : a.columns;
  return desc.compute == (f64 ? kLtCompute64F : kLtCompute32F) &&
         desc.scale == (f64 ? kLtR64F : kLtR32F) && c.rows == d.rows && c.columns == d.columns &&
         (desc.transposed_a != 0 ? a.columns : a.rows) == d.rows &&
         (desc.transposed_b != 0 ? b.rows : b.columns) == d.columns &&
         (desc.transposed_b != 0 ? b.columns : b.rows) == k;
}

double Number(const void* scalar, LtType type) {
  return type == kLtR64F ? *static_cast<const double*>(scalar) : *static_cast<const float*>(scalar);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are the library's.
#define KILN_EXPORT(result, name, parameters) \
  extern "C" __attribute__((visibility("default"))) result name parameters;
KILN_CUBLASLT_FUNCTIONS(KILN_EXPORT)
#undef KILN_EXPORT

size_t cublasLtGetVersion() { return State().version != 0 ? State().version.load() : 130100; }
LtStatus cublasLtCreate(LtHandle* handle) { return New(handle); }
LtStatus cublasLtDestroy(LtHandle handle) { return Delete(handle); }
LtStatus cublasLtMatmulDescCreate(LtDesc* desc, LtCompute compute, LtType scale) {
  return New(desc, compute, scale);
}
LtStatus cublasLtMatmulDescDestroy(LtDesc desc) { return Delete(desc); }
LtStatus cublasLtMatmulDescSetAttribute(LtDesc desc, LtDescAttribute attribute, const void* value,
                                        size_t bytes) {
  if (const int failure = State().Next()) return static_cast<LtStatus>(failure);
  switch (attribute) {
    case kLtDescTransA:
      return Set(desc->transposed_a, value, bytes);
    case kLtDescTransB:
      return Set(desc->transposed_b, value, bytes);
    case kLtDescEpilogue:
      return Set(desc->epilogue, value, bytes);
    case kLtDescBiasPointer:
      return Set(desc->bias, value, bytes);
  }
  return kLtInvalidValue;
}
LtStatus cublasLtMatrixLayoutCreate(LtLayout* layout, LtType type, uint64_t rows, uint64_t columns,
                                    int64_t ld) {
  return New(layout, type, rows, columns, ld);
}
LtStatus cublasLtMatrixLayoutDestroy(LtLayout layout) { return Delete(layout); }
LtStatus cublasLtMatrixLayoutSetAttribute(LtLayout layout, LtLayoutAttribute attribute,
                                          const void* value, size_t bytes) {
  if (const int failure = State().Next()) return static_cast<LtStatus>(failure);
  return attribute == kLtLayoutBatchCount ? Set(layout->batch, value, bytes)
                                          : Set(layout->step, value, bytes);
}
LtStatus cublasLtMatmulPreferenceCreate(LtPreference* preference) { return New(preference); }
LtStatus cublasLtMatmulPreferenceDestroy(LtPreference preference) { return Delete(preference); }
LtStatus cublasLtMatmulPreferenceSetAttribute(LtPreference preference,
                                              LtPreferenceAttribute attribute, const void* value,
                                              size_t bytes) {
  if (const int failure = State().Next()) return static_cast<LtStatus>(failure);
  uint32_t reductions = 0;
  switch (attribute) {
    case kLtPreferenceWorkspace:
      return Set(preference->workspace, value, bytes);
    case kLtPreferenceReductions:
      return Set(reductions, value, bytes);
    default:
      return Set(preference->alignment, value, bytes);
  }
}

LtStatus cublasLtMatmulAlgoGetHeuristic(LtHandle, LtDesc desc, LtLayout a, LtLayout b, LtLayout c,
                                        LtLayout d, LtPreference preference, int asked,
                                        LtHeuristic* found, int* count) {
  if (const int failure = State().Next()) return static_cast<LtStatus>(failure);
  *count = 0;
  ++State().queries;
  if (State().refuse != 0) return kLtNotSupported;
  if (!Fits(*desc, *a, *b, *c, *d)) return kLtInvalidValue;
  if (asked < 2) return kLtInvalidValue;
  // One that cannot be had, then one that can.
  found[0] = {{}, 0, kLtNotSupported, 0, {}};
  found[1] = {{{kMagic, preference->alignment, a->rows, a->columns}},
              std::min(kWorkspace, preference->workspace),
              kLtSuccess,
              1,
              {}};
  *count = 2;
  return kLtSuccess;
}

LtStatus cublasLtMatmul(LtHandle, LtDesc desc, const void* alpha, const void* a, LtLayout a_layout,
                        const void* b, LtLayout b_layout, const void* beta, const void* c,
                        LtLayout c_layout, void* d, LtLayout d_layout, const LtAlgo* algo,
                        void* workspace, size_t workspace_bytes, Stream stream) {
  if (const int failure = State().Next()) return static_cast<LtStatus>(failure);
  if (!Fits(*desc, *a_layout, *b_layout, *c_layout, *d_layout)) return kLtInvalidValue;
  if (algo->data[0] != kMagic || algo->data[2] != a_layout->rows) return kLtInvalidValue;
  for (const void* operand : {a, b, c, static_cast<const void*>(d)})
    if (reinterpret_cast<uintptr_t>(operand) % algo->data[1] != 0) return kLtInvalidValue;
  if (workspace_bytes < kWorkspace || cuMemsetD8Async(reinterpret_cast<DevicePointer>(workspace),
                                                      0xa5, kWorkspace, stream) != kSuccess)
    return kLtExecutionFailed;
  const Item item = ItemOf(d_layout->type);
  const double alpha_is = Number(alpha, desc->scale), beta_is = Number(beta, desc->scale);
  const uint64_t k_end = desc->transposed_a != 0 ? a_layout->rows : a_layout->columns;
  std::vector<double> bias(d_layout->rows), column(d_layout->rows);
  const bool has_bias = (desc->epilogue & kLtEpilogueBias) != 0;
  if (has_bias && !Fetch(desc->bias, bias.size(), item, stream, bias)) return kLtExecutionFailed;
  for (int32_t batch = 0; batch < d_layout->batch; ++batch) {
    Matrix left{*a_layout, {}}, right{*b_layout, {}}, added{*c_layout, {}};
    if (!left.Fetch(a, batch, stream) || !right.Fetch(b, batch, stream)) return kLtExecutionFailed;
    if (beta_is != 0 && !added.Fetch(c, batch, stream)) return kLtExecutionFailed;
    for (uint64_t j = 0; j < d_layout->columns; ++j) {
      for (uint64_t i = 0; i < d_layout->rows; ++i) {
        double sum = 0;
        for (uint64_t k = 0; k < k_end; ++k)
          sum += left.At(desc->transposed_a != 0, i, k) * right.At(desc->transposed_b != 0, k, j);
        sum = alpha_is * sum + (beta_is != 0 ? beta_is * added.At(false, i, j) : 0) + bias[i];
        column[i] = Epilogue(sum, desc->epilogue);
      }
      const auto offset =
          (static_cast<size_t>(batch * d_layout->step) + j * static_cast<size_t>(d_layout->ld)) *
          BytesOf(item);
      if (!Store(static_cast<uint8_t*>(d) + offset, column, item, stream))
        return kLtExecutionFailed;
    }
  }
  ++State().computed;
  return kLtSuccess;
}
// NOLINTEND(readability-identifier-naming)

}  // namespace kiln::cuda
