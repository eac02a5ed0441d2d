// SPDX-License-Identifier: Apache-2.0
// What Kiln declares of cuBLASLt and cuDNN: against their headers where these are there, and
// against the libraries where those are. What needs no GPU is called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "exec/cuda/cublaslt.h"
#include "exec/cuda/cudnn.h"
#include "exec/cuda/window_descriptors.h"
#include "tests/base/status_matchers.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif

namespace kiln::cuda {
namespace {

using testing::HasSubstr;

// As many parameters of the same sizes, and none of them a struct.
template <typename... A, typename R, typename... B, typename S>
constexpr bool Alike(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) {
    return false;
  } else {
    return sizeof(R) == sizeof(S) && ((sizeof(A) == sizeof(B)) && ...) &&
           ((std::is_pointer_v<A> == std::is_pointer_v<B>)&&...);
  }
}

#ifdef CUBLAS_VERSION
#define KILN_ALIKE(result, name, parameters) \
  static_assert(Alike(static_cast<result(*) parameters>(nullptr), &::name), #name);
KILN_CUBLASLT_FUNCTIONS(KILN_ALIKE)
#undef KILN_ALIKE

TEST(CublasLtApi, HasTheValuesOfTheHeader) {
  static_assert(sizeof(LtAlgo) == sizeof(cublasLtMatmulAlgo_t));
  static_assert(sizeof(LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
  static_assert(offsetof(LtHeuristic, workspace) ==
                offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  static_assert(offsetof(LtHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
  const std::pair<int, int> values[] = {
      {kLtNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED},
      {kLtAllocFailed, CUBLAS_STATUS_ALLOC_FAILED},
      {kLtInvalidValue, CUBLAS_STATUS_INVALID_VALUE},
      {kLtArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH},
      {kLtExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED},
      {kLtInternalError, CUBLAS_STATUS_INTERNAL_ERROR},
      {kLtNotSupported, CUBLAS_STATUS_NOT_SUPPORTED},
      {kLtCompute32F, CUBLAS_COMPUTE_32F},
      {kLtCompute64F, CUBLAS_COMPUTE_64F},
      {kLtR32F, CUDA_R_32F},
      {kLtR64F, CUDA_R_64F},
      {kLtR16F, CUDA_R_16F},
      {kLtR16BF, CUDA_R_16BF},
      {kLtEpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT},
      {kLtEpilogueRelu, CUBLASLT_EPILOGUE_RELU},
      {kLtEpilogueBias, CUBLASLT_EPILOGUE_BIAS},
      {kLtEpilogueRelu | kLtEpilogueBias, CUBLASLT_EPILOGUE_RELU_BIAS},
      {kLtEpilogueGelu, CUBLASLT_EPILOGUE_GELU},
      {kLtEpilogueGelu | kLtEpilogueBias, CUBLASLT_EPILOGUE_GELU_BIAS},
      {kLtReductionComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
      {kLtDescTransA, CUBLASLT_MATMUL_DESC_TRANSA},
      {kLtDescTransB, CUBLASLT_MATMUL_DESC_TRANSB},
      {kLtDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE},
      {kLtDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER},
      {kLtLayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT},
      {kLtLayoutBatchStep, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET},
      {kLtPreferenceWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES},
      {kLtPreferenceReductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK},
      {kLtPreferenceAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES},
      {kLtPreferenceAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES},
      {kLtPreferenceAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES},
      {kLtPreferenceAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
      {0, CUBLAS_OP_N},
      {1, CUBLAS_OP_T}};
  for (const auto& [ours, theirs] : values) EXPECT_EQ(ours, theirs);
}
#endif

#ifdef CUDNN_VERSION
#define KILN_ALIKE(result, name, parameters) \
  static_assert(Alike(static_cast<result(*) parameters>(nullptr), &::name), #name);
KILN_CUDNN_FUNCTIONS(KILN_ALIKE)
#undef KILN_ALIKE

TEST(CudnnApi, HasTheValuesOfTheHeader) {
  static_assert(sizeof(DnnPerf) == sizeof(cudnnConvolutionFwdAlgoPerf_t));
  static_assert(sizeof(DnnPerf) == sizeof(cudnnConvolutionBwdDataAlgoPerf_t));
  static_assert(sizeof(DnnPerf) == sizeof(cudnnConvolutionBwdFilterAlgoPerf_t));
  static_assert(offsetof(DnnPerf, memory) == offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
  static_assert(offsetof(DnnPerf, determinism) ==
                offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism));
  static_assert(offsetof(DnnPerf, determinism) ==
                offsetof(cudnnConvolutionBwdDataAlgoPerf_t, determinism));
  static_assert(offsetof(DnnPerf, determinism) ==
                offsetof(cudnnConvolutionBwdFilterAlgoPerf_t, determinism));
  const std::pair<int, int> values[] = {
      {kDnnNotInitialized, CUDNN_STATUS_NOT_INITIALIZED},
      {kDnnBadParam, CUDNN_STATUS_BAD_PARAM},
      {kDnnNotSupported, CUDNN_STATUS_NOT_SUPPORTED},
      {kDnnInternalError, CUDNN_STATUS_INTERNAL_ERROR},
      {kDnnHostAllocationFailed, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED},
      {kDnnDeviceAllocationFailed, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED},
      {kDnnExecutionFailed, CUDNN_STATUS_EXECUTION_FAILED},
      {kDnnFloat, CUDNN_DATA_FLOAT},
      {kDnnDouble, CUDNN_DATA_DOUBLE},
      {kDnnHalf, CUDNN_DATA_HALF},
      {kDnnBFloat16, CUDNN_DATA_BFLOAT16},
      {kDnnChannelsFirst, CUDNN_TENSOR_NCHW},
      {kDnnDefaultMath, CUDNN_DEFAULT_MATH},
      {kDnnTensorOpMath, CUDNN_TENSOR_OP_MATH},
      {kDnnFmaMath, CUDNN_FMA_MATH},
      {kDnnCrossCorrelation, CUDNN_CROSS_CORRELATION},
      {kDnnAverageWithPads, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING},
      {kDnnAverageWithoutPads, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING},
      {kDnnMaxDeterministic, CUDNN_POOLING_MAX_DETERMINISTIC},
      {kDnnRelu, CUDNN_ACTIVATION_RELU},
      {kDnnIdentity, CUDNN_ACTIVATION_IDENTITY},
      {kDnnPropagateNan, CUDNN_PROPAGATE_NAN},
      {kDnnImplicitPrecompGemm, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM},
      {kDnnDeterministic, CUDNN_DETERMINISTIC}};
  for (const auto& [ours, theirs] : values) EXPECT_EQ(ours, theirs);
}
#endif

TEST(CublasLt, SaysWhatIsMissing) {
  const absl::Status none = CublasLt::Open("/nowhere/libcublasLt.so").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(none.message(), HasSubstr("install libcublas of CUDA 12 or 13"));
  EXPECT_THAT(CublasLt::Open("libm.so.6").status().message(), HasSubstr("it has no cublasLt"));
}

TEST(Cudnn, SaysWhatIsMissing) {
  const absl::Status none = Cudnn::Open("/nowhere/libcudnn.so").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(none.message(), HasSubstr("install libcudnn 9"));
  EXPECT_THAT(Cudnn::Open("libm.so.6").status().message(), HasSubstr("it has no cudnn"));
}

// The real ones, as far as they go without a GPU: descriptors are made, and one that cannot be is
// refused; a handle is not to be had.
TEST(CublasLt, OpensTheRealOne) {
  const auto lt = CublasLt::Open(KILN_TEST_CUBLASLT);
  if (!lt.ok()) GTEST_SKIP() << lt.status();
  LtDesc desc = nullptr;
  ASSERT_EQ((*lt)->cublasLtMatmulDescCreate(&desc, kLtCompute32F, kLtR32F), kLtSuccess);
  const uint32_t epilogue = kLtEpilogueRelu | kLtEpilogueBias;
  EXPECT_EQ((*lt)->cublasLtMatmulDescSetAttribute(desc, kLtDescEpilogue, &epilogue, 4), kLtSuccess);
  EXPECT_EQ((*lt)->cublasLtMatmulDescSetAttribute(desc, kLtDescEpilogue, &epilogue, 3),
            kLtInvalidValue);
  (*lt)->cublasLtMatmulDescDestroy(desc);
  LtLayout layout = nullptr;
  ASSERT_EQ((*lt)->cublasLtMatrixLayoutCreate(&layout, kLtR16BF, 64, 32, 64), kLtSuccess);
  const int32_t batch = 3;
  const int64_t step = 2048;
  EXPECT_EQ((*lt)->cublasLtMatrixLayoutSetAttribute(layout, kLtLayoutBatchCount, &batch, 4),
            kLtSuccess);
  EXPECT_EQ((*lt)->cublasLtMatrixLayoutSetAttribute(layout, kLtLayoutBatchStep, &step, 8),
            kLtSuccess);
  (*lt)->cublasLtMatrixLayoutDestroy(layout);
}

TEST(Cudnn, OpensTheRealOne) {
  const auto dnn = Cudnn::Open(KILN_TEST_CUDNN);
  if (!dnn.ok()) GTEST_SKIP() << dnn.status();
  WindowForm form;
  form.w = {8, 4, 3, 3};
  form.kernel = {3, 3};
  form.pads = form.strides = form.dilations = {1, 1};
  form.groups = 2;
  KILN_EXPECT_OK(TensorOf(**dnn, DType::kF32, {2, 8, 9, 9}).status());
  KILN_EXPECT_OK(FilterOf(**dnn, form).status());
  KILN_EXPECT_OK(ConvolutionOf(**dnn, form).status());
  KILN_EXPECT_OK(PoolingOf(**dnn, form, true).status());
  KILN_EXPECT_OK(ActivationOf(**dnn, true).status());
  form.type = DType::kBF16;
  KILN_EXPECT_OK(TensorOf(**dnn, DType::kBF16, {2, 8, 9, 9}).status());
  KILN_EXPECT_OK(FilterOf(**dnn, form).status());
  KILN_EXPECT_OK(ConvolutionOf(**dnn, form).status());
  form.strides = {0, 1};
  EXPECT_THAT(ConvolutionOf(**dnn, form).status().message(), HasSubstr("CUDNN_STATUS_BAD_PARAM"));
}

}  // namespace
}  // namespace kiln::cuda
