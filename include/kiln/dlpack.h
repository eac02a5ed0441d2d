// SPDX-License-Identifier: Apache-2.0
// Tensors to and from other libraries by DLPack, without a copy.
//
//   DLManagedTensorVersioned* out = *kiln::ToDLPack(tensor);  // its consumer calls out->deleter
//   absl::StatusOr<kiln::Tensor> in = kiln::FromDLPack(managed);  // from PyTorch, JAX, ...
//
// Include <dlpack/dlpack.h> of your own for the types: Kiln only names them. Both forms are those
// of DLPack 1.x; the older DLManagedTensor, of all versions before, has no flags. Thread-safe.
//
// A tensor that its producer marks as read-only may be an input; Context::BindOutput refuses it,
// and what is made of it by ToDLPack is marked again. Memory need not be aligned: an input whose
// elements are not aligned to their size, or not dense, is copied by each run that reads it.
#ifndef KILN_DLPACK_H_
#define KILN_DLPACK_H_

#include "kiln/status.h"
#include "kiln/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace kiln {

// A view of the tensor's memory with a share in its owner, for the consumer to give back with its
// deleter, once and on any thread. kInvalidArgument: of a read-only tensor there is no older form.
absl::StatusOr<DLManagedTensorVersioned*> ToDLPack(const Tensor& tensor);
absl::StatusOr<DLManagedTensor*> ToUnversionedDLPack(const Tensor& tensor);

// A view of what `managed` describes; its deleter is called when the last copy of the view goes, on
// whichever thread that is. On an error the deleter is not called: `managed` stays the caller's.
// kInvalidArgument: null, another major version, a type that Kiln has not (lanes among them), a
// shape or address that is malformed. kUnimplemented: on a device that Kiln has not.
absl::StatusOr<Tensor> FromDLPack(DLManagedTensorVersioned* managed);
absl::StatusOr<Tensor> FromDLPack(DLManagedTensor* managed);

}  // namespace kiln

#endif  // KILN_DLPACK_H_
