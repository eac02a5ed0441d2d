// SPDX-License-Identifier: Apache-2.0
#include "kiln/tensor.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c_api/handles.h"

namespace kiln::c_api {
namespace {

absl::Status CheckShape(kiln_dtype type, size_t rank, const int64_t* shape) {
  KILN_RETURN_IF_ERROR(CheckType(type, "tensor"));
  return rank > 0 ? CheckPointer(shape, "shape") : absl::OkStatus();
}

// Calls the caller's function when the last copy of a tensor goes; nothing while `call` is null.
struct Release {
  kiln_release_fn call = nullptr;
  void* user = nullptr;

  ~Release() {
    if (call != nullptr) call(user);
  }
};

}  // namespace
}  // namespace kiln::c_api

using kiln::c_api::Call;
using kiln::c_api::CheckPointer;

extern "C" {

size_t kiln_dtype_size(kiln_dtype type) {
  const bool known = static_cast<unsigned>(type) < static_cast<unsigned>(kiln::kNumDTypes);
  return known ? SizeOf(static_cast<kiln::DType>(type)) : 0;
}

kiln_status* kiln_tensor_view(void* data, kiln_dtype type, size_t rank, const int64_t* shape,
                              const int64_t* strides, kiln_release_fn release, void* user,
                              kiln_tensor** out) {
  return Call("tensor", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_RETURN_IF_ERROR(kiln::c_api::CheckShape(type, rank, shape));
    std::vector<int64_t> extents(shape, shape + rank), steps;
    if (strides != nullptr) steps.assign(strides, strides + rank);
    std::shared_ptr<kiln::c_api::Release> held;
    std::shared_ptr<void> owner;  // null where there is nothing to release
    if (release != nullptr) {
      held = std::make_shared<kiln::c_api::Release>();
      owner = {held, data};
    }
    auto made = std::make_unique<kiln_tensor>();
    made->tensor = kiln::Tensor::View(data, static_cast<kiln::DType>(type), std::move(extents),
                                      std::move(steps), std::move(owner));
    if (held != nullptr) {  // nothing fails from here on
      held->call = release;
      held->user = user;
    }
    *out = made.release();
    return absl::OkStatus();
  });
}

kiln_status* kiln_tensor_allocate(kiln_dtype type, size_t rank, const int64_t* shape,
                                  kiln_tensor** out) {
  return Call("tensor", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_RETURN_IF_ERROR(kiln::c_api::CheckShape(type, rank, shape));
    auto made = std::make_unique<kiln_tensor>();
    made->tensor = kiln::Tensor::Allocate(static_cast<kiln::DType>(type),
                                          std::vector<int64_t>(shape, shape + rank));
    *out = made.release();
    return absl::OkStatus();
  });
}

void* kiln_tensor_data(const kiln_tensor* tensor) { return tensor->tensor.data(); }

kiln_dtype kiln_tensor_dtype(const kiln_tensor* tensor) {
  return static_cast<kiln_dtype>(tensor->tensor.dtype());
}

size_t kiln_tensor_rank(const kiln_tensor* tensor) { return tensor->tensor.shape().size(); }

const int64_t* kiln_tensor_shape(const kiln_tensor* tensor) {
  return tensor->tensor.shape().data();
}

const int64_t* kiln_tensor_strides(const kiln_tensor* tensor) {
  return tensor->tensor.strides().data();
}

void kiln_tensor_free(kiln_tensor* tensor) { delete tensor; }

kiln_status* kiln_tensor_from_dlpack(DLManagedTensorVersioned* managed, kiln_tensor** out) {
  return Call("tensor", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    auto made = std::make_unique<kiln_tensor>();
    KILN_ASSIGN_OR_RETURN(made->tensor, kiln::FromDLPack(managed));
    *out = made.release();
    return absl::OkStatus();
  });
}

kiln_status* kiln_tensor_to_dlpack(const kiln_tensor* tensor, DLManagedTensorVersioned** out) {
  return Call("tensor", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(tensor, "tensor"));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(*out, kiln::ToDLPack(tensor->tensor));
    return absl::OkStatus();
  });
}

}  // extern "C"
