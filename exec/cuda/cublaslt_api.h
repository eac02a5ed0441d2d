// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt's interface that Kiln calls: types, values, and one list of functions.
//
// Nothing here needs cublasLt.h or links libcublasLt: cublaslt.h opens the library at run time.
// Values and layouts are the ABI of cuBLASLt 12 and 13, under the names that the library exports
// (cuda_library_api_test compares them with the header where there is one).
//
//   KILN_CUBLASLT_FUNCTIONS(F)   expands F(result, name, parameters) for each function
#ifndef KILN_EXEC_CUDA_CUBLASLT_API_H_
#define KILN_EXEC_CUDA_CUBLASLT_API_H_

#include <cstddef>
#include <cstdint>

#include "exec/cuda/driver_api.h"

namespace kiln::cuda {

enum LtStatus : int {
  kLtSuccess = 0,
  kLtNotInitialized = 1,
  kLtAllocFailed = 3,
  kLtInvalidValue = 7,
  kLtArchMismatch = 8,
  kLtExecutionFailed = 13,
  kLtInternalError = 14,
  kLtNotSupported = 15,
};

enum LtCompute : int { kLtCompute32F = 68, kLtCompute64F = 70 };  // 32F: without TF32
enum LtType : int { kLtR32F = 0, kLtR64F = 1, kLtR16F = 2, kLtR16BF = 14 };
enum LtEpilogue : uint32_t {
  kLtEpilogueDefault = 1,
  kLtEpilogueRelu = 2,
  kLtEpilogueBias = 4,
  kLtEpilogueGelu = 32,
};
enum LtReduction : uint32_t { kLtReductionComputeType = 2 };

enum LtDescAttribute : int {
  kLtDescTransA = 3,
  kLtDescTransB = 4,
  kLtDescEpilogue = 7,
  kLtDescBiasPointer = 8,
};
enum LtLayoutAttribute : int { kLtLayoutBatchCount = 5, kLtLayoutBatchStep = 6 };
enum LtPreferenceAttribute : int {
  kLtPreferenceWorkspace = 1,
  kLtPreferenceReductions = 3,
  kLtPreferenceAlignmentA = 5,
  kLtPreferenceAlignmentB = 6,
  kLtPreferenceAlignmentC = 7,
  kLtPreferenceAlignmentD = 8,
};

using LtHandle = struct LtHandleOf*;
using LtDesc = struct LtDescOf*;
using LtLayout = struct LtLayoutOf*;
using LtPreference = struct LtPreferenceOf*;

struct LtAlgo {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgo algo;
  size_t workspace;
  LtStatus state;
  float waves;
  int reserved[4];
};

// clang-format off
#define KILN_CUBLASLT_FUNCTIONS(F)                                                                 \
  F(size_t, cublasLtGetVersion, ())                                                                \
  F(LtStatus, cublasLtCreate, (LtHandle* handle))                                                  \
  F(LtStatus, cublasLtDestroy, (LtHandle handle))                                                  \
  F(LtStatus, cublasLtMatmulDescCreate, (LtDesc* desc, LtCompute compute, LtType scale))           \
  F(LtStatus, cublasLtMatmulDescDestroy, (LtDesc desc))                                            \
  F(LtStatus, cublasLtMatmulDescSetAttribute, (LtDesc desc, LtDescAttribute attribute,             \
                                               const void* value, size_t bytes))                   \
  F(LtStatus, cublasLtMatrixLayoutCreate, (LtLayout* layout, LtType type, uint64_t rows,           \
                                           uint64_t columns, int64_t ld))                          \
  F(LtStatus, cublasLtMatrixLayoutDestroy, (LtLayout layout))                                      \
  F(LtStatus, cublasLtMatrixLayoutSetAttribute, (LtLayout layout, LtLayoutAttribute attribute,     \
                                                 const void* value, size_t bytes))                 \
  F(LtStatus, cublasLtMatmulPreferenceCreate, (LtPreference* preference))                          \
  F(LtStatus, cublasLtMatmulPreferenceDestroy, (LtPreference preference))                          \
  F(LtStatus, cublasLtMatmulPreferenceSetAttribute, (LtPreference preference,                      \
                                                     LtPreferenceAttribute attribute,              \
                                                     const void* value, size_t bytes))             \
  F(LtStatus, cublasLtMatmulAlgoGetHeuristic, (LtHandle handle, LtDesc desc, LtLayout a,           \
                                               LtLayout b, LtLayout c, LtLayout d,                 \
                                               LtPreference preference, int asked,                 \
                                               LtHeuristic* found, int* count))                    \
  F(LtStatus, cublasLtMatmul, (LtHandle handle, LtDesc desc, const void* alpha, const void* a,     \
                               LtLayout a_layout, const void* b, LtLayout b_layout,                \
                               const void* beta, const void* c, LtLayout c_layout, void* d,        \
                               LtLayout d_layout, const LtAlgo* algo, void* workspace,             \
                               size_t workspace_bytes, Stream stream))
// clang-format on

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_CUBLASLT_API_H_
