// SPDX-License-Identifier: Apache-2.0
// The part of cuDNN's interface that Kiln calls: types, values, and one list of functions.
//
// They are the functions that cuDNN has had since version 7 and still has in 9, not the graphs of
// its back end: a call is five small descriptors and one function, its algorithms say which are
// deterministic and what workspace they take, and descriptors can be made and tried without a GPU.
// Nothing here needs NVIDIA's cudnn.h or links libcudnn: cudnn.h, beside this, opens the library
// at run time (cuda_library_api_test compares with the header where there is one).
//
//   KILN_CUDNN_FUNCTIONS(F)   expands F(result, name, parameters) for each function
#ifndef KILN_EXEC_CUDA_CUDNN_API_H_
#define KILN_EXEC_CUDA_CUDNN_API_H_

#include <cstddef>

#include "exec/cuda/driver_api.h"

namespace kiln::cuda {

// Classes of a thousand; within one are reasons.
enum DnnStatus : int {
  kDnnSuccess = 0,
  kDnnNotInitialized = 1001,
  kDnnBadParam = 2000,
  kDnnNotSupported = 3000,
  kDnnInternalError = 4000,
  kDnnHostAllocationFailed = 4003,
  kDnnDeviceAllocationFailed = 4004,
  kDnnExecutionFailed = 5000,
};

enum DnnType : int { kDnnFloat = 0, kDnnDouble = 1, kDnnHalf = 2, kDnnBFloat16 = 9 };
enum DnnFormat : int { kDnnChannelsFirst = 0 };
enum DnnMath : int { kDnnDefaultMath = 0, kDnnTensorOpMath = 1, kDnnFmaMath = 3 };  // FMA: no TF32
enum DnnConvolutionMode : int { kDnnCrossCorrelation = 1 };
enum DnnPoolingMode : int {
  kDnnAverageWithPads = 1,
  kDnnAverageWithoutPads = 2,
  kDnnMaxDeterministic = 3,
};
enum DnnActivationMode : int { kDnnRelu = 1, kDnnIdentity = 5 };
enum DnnNan : int { kDnnPropagateNan = 1 };
enum DnnAlgo : int { kDnnImplicitPrecompGemm = 1 };
enum DnnDeterminism : int { kDnnDeterministic = 1 };

using DnnHandle = struct DnnHandleOf*;
using DnnTensor = struct DnnTensorOf*;
using DnnFilter = struct DnnFilterOf*;
using DnnConvolution = struct DnnConvolutionOf*;
using DnnPooling = struct DnnPoolingOf*;
using DnnActivation = struct DnnActivationOf*;

// cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t and
// cudnnConvolutionBwdFilterAlgoPerf_t.
struct DnnPerf {
  DnnAlgo algo;
  DnnStatus status;
  float time;
  size_t memory;
  DnnDeterminism determinism;
  DnnMath math;
  int reserved[3];
};

// clang-format off
#define KILN_CUDNN_FUNCTIONS(F)                                                                    \
  F(size_t, cudnnGetVersion, ())                                                                   \
  F(const char*, cudnnGetErrorString, (DnnStatus status))                                          \
  F(DnnStatus, cudnnCreate, (DnnHandle* handle))                                                   \
  F(DnnStatus, cudnnDestroy, (DnnHandle handle))                                                   \
  F(DnnStatus, cudnnSetStream, (DnnHandle handle, Stream stream))                                  \
  F(DnnStatus, cudnnCreateTensorDescriptor, (DnnTensor* tensor))                                   \
  F(DnnStatus, cudnnSetTensorNdDescriptor, (DnnTensor tensor, DnnType type, int rank,              \
                                            const int* dims, const int* strides))                  \
  F(DnnStatus, cudnnDestroyTensorDescriptor, (DnnTensor tensor))                                   \
  F(DnnStatus, cudnnCreateFilterDescriptor, (DnnFilter* filter))                                   \
  F(DnnStatus, cudnnSetFilterNdDescriptor, (DnnFilter filter, DnnType type, DnnFormat format,      \
                                            int rank, const int* dims))                            \
  F(DnnStatus, cudnnDestroyFilterDescriptor, (DnnFilter filter))                                   \
  F(DnnStatus, cudnnCreateConvolutionDescriptor, (DnnConvolution* convolution))                    \
  F(DnnStatus, cudnnSetConvolutionNdDescriptor, (DnnConvolution convolution, int axes,             \
                                                 const int* pads, const int* strides,              \
                                                 const int* dilations, DnnConvolutionMode mode,    \
                                                 DnnType compute))                                 \
  F(DnnStatus, cudnnSetConvolutionGroupCount, (DnnConvolution convolution, int groups))            \
  F(DnnStatus, cudnnSetConvolutionMathType, (DnnConvolution convolution, DnnMath math))            \
  F(DnnStatus, cudnnDestroyConvolutionDescriptor, (DnnConvolution convolution))                    \
  F(DnnStatus, cudnnCreatePoolingDescriptor, (DnnPooling* pooling))                                \
  F(DnnStatus, cudnnSetPoolingNdDescriptor, (DnnPooling pooling, DnnPoolingMode mode, DnnNan nan,  \
                                             int axes, const int* window, const int* pads,         \
                                             const int* strides))                                  \
  F(DnnStatus, cudnnDestroyPoolingDescriptor, (DnnPooling pooling))                                \
  F(DnnStatus, cudnnCreateActivationDescriptor, (DnnActivation* activation))                       \
  F(DnnStatus, cudnnSetActivationDescriptor, (DnnActivation activation, DnnActivationMode mode,    \
                                              DnnNan nan, double coefficient))                     \
  F(DnnStatus, cudnnDestroyActivationDescriptor, (DnnActivation activation))                       \
  F(DnnStatus, cudnnGetConvolutionForwardAlgorithm_v7, (DnnHandle handle, DnnTensor x,             \
                                                        DnnFilter w, DnnConvolution convolution,   \
                                                        DnnTensor y, int asked, int* count,        \
                                                        DnnPerf* found))                           \
  F(DnnStatus, cudnnGetConvolutionBackwardDataAlgorithm_v7, (DnnHandle handle, DnnFilter w,        \
                                                             DnnTensor dy,                         \
                                                             DnnConvolution convolution,           \
                                                             DnnTensor dx, int asked, int* count,  \
                                                             DnnPerf* found))                      \
  F(DnnStatus, cudnnGetConvolutionBackwardFilterAlgorithm_v7, (DnnHandle handle, DnnTensor x,      \
                                                               DnnTensor dy,                       \
                                                               DnnConvolution convolution,         \
                                                               DnnFilter dw, int asked,            \
                                                               int* count, DnnPerf* found))        \
  F(DnnStatus, cudnnConvolutionForward, (DnnHandle handle, const void* alpha, DnnTensor x_desc,    \
                                         const void* x, DnnFilter w_desc, const void* w,           \
                                         DnnConvolution convolution, DnnAlgo algo,                 \
                                         void* workspace, size_t workspace_bytes,                  \
                                         const void* beta, DnnTensor y_desc, void* y))             \
  F(DnnStatus, cudnnConvolutionBiasActivationForward,                                              \
    (DnnHandle handle, const void* alpha1, DnnTensor x_desc, const void* x, DnnFilter w_desc,      \
     const void* w, DnnConvolution convolution, DnnAlgo algo, void* workspace,                     \
     size_t workspace_bytes, const void* alpha2, DnnTensor z_desc, const void* z,                  \
     DnnTensor bias_desc, const void* bias, DnnActivation activation, DnnTensor y_desc, void* y))  \
  F(DnnStatus, cudnnConvolutionBackwardData, (DnnHandle handle, const void* alpha,                 \
                                              DnnFilter w_desc, const void* w, DnnTensor dy_desc,  \
                                              const void* dy, DnnConvolution convolution,          \
                                              DnnAlgo algo, void* workspace,                       \
                                              size_t workspace_bytes, const void* beta,            \
                                              DnnTensor dx_desc, void* dx))                        \
  F(DnnStatus, cudnnConvolutionBackwardFilter, (DnnHandle handle, const void* alpha,               \
                                                DnnTensor x_desc, const void* x,                   \
                                                DnnTensor dy_desc, const void* dy,                 \
                                                DnnConvolution convolution, DnnAlgo algo,          \
                                                void* workspace, size_t workspace_bytes,           \
                                                const void* beta, DnnFilter dw_desc, void* dw))    \
  F(DnnStatus, cudnnAddTensor, (DnnHandle handle, const void* alpha, DnnTensor a_desc,             \
                                const void* a, const void* beta, DnnTensor y_desc, void* y))       \
  F(DnnStatus, cudnnActivationForward, (DnnHandle handle, DnnActivation activation,                \
                                        const void* alpha, DnnTensor x_desc, const void* x,        \
                                        const void* beta, DnnTensor y_desc, void* y))              \
  F(DnnStatus, cudnnPoolingForward, (DnnHandle handle, DnnPooling pooling, const void* alpha,      \
                                     DnnTensor x_desc, const void* x, const void* beta,            \
                                     DnnTensor y_desc, void* y))                                   \
  F(DnnStatus, cudnnPoolingBackward, (DnnHandle handle, DnnPooling pooling, const void* alpha,     \
                                      DnnTensor y_desc, const void* y, DnnTensor dy_desc,          \
                                      const void* dy, DnnTensor x_desc, const void* x,             \
                                      const void* beta, DnnTensor dx_desc, void* dx))
// clang-format on

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_CUDNN_API_H_
