// SPDX-License-Identifier: Apache-2.0
// DLPack's capsules around what kiln/tensor.h makes and takes.
#include "absl/strings/str_cat.h"
#include "python/status.h"
#include "python/tensor.h"

namespace kiln::python {
namespace {

// Of dlpack.h 1.x, what leads to the deleter; kiln/tensor.h only names the types.
struct Managed {
  unsigned char tensor[48];
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
};
constexpr uint64_t kReadOnly = 1;
constexpr char kName[] = "dltensor", kVersioned[] = "dltensor_versioned";

// A capsule that nobody has consumed is the producer's to free.
void FreeUnconsumed(PyObject* capsule) {
  if (void* const made = PyCapsule_IsValid(capsule, kVersioned) != 0
                             ? PyCapsule_GetPointer(capsule, kVersioned)
                             : nullptr) {
    static_cast<ManagedVersioned*>(made)->deleter(static_cast<DLManagedTensorVersioned*>(made));
  } else if (void* const older = PyCapsule_IsValid(capsule, kName) != 0
                                     ? PyCapsule_GetPointer(capsule, kName)
                                     : nullptr) {
    static_cast<Managed*>(older)->deleter(static_cast<DLManagedTensor*>(older));
  }
}

nb::object Capsule(void* made, const char* name) {
  PyObject* const capsule = PyCapsule_New(made, name, FreeUnconsumed);
  if (capsule == nullptr) nb::raise_python_error();
  return nb::steal(capsule);
}

}  // namespace

nb::object ToCapsule(const PyTensor& tensor, bool versioned) {
  if (tensor.read_only)
    throw nb::buffer_error("kiln.Tensor: the memory is read-only, which DLPack does not take");
  if (versioned) return Capsule(Value(ToDLPack(tensor.tensor)), kVersioned);
  return Capsule(Value(ToUnversionedDLPack(tensor.tensor)), kName);
}

Given FromCapsule(nb::handle capsule, Subject what) {
  const bool versioned = PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0;
  const char* const name = versioned ? kVersioned : kName;
  if (!versioned && PyCapsule_IsValid(capsule.ptr(), kName) == 0)
    RaiseInvalid(absl::StrCat(what.text(), ": its __dlpack__ gives no capsule that is unused"));
  void* const managed = PyCapsule_GetPointer(capsule.ptr(), name);
  const absl::StatusOr<Tensor> tensor =
      versioned ? FromDLPack(static_cast<DLManagedTensorVersioned*>(managed))
                : FromDLPack(static_cast<DLManagedTensor*>(managed));
  if (!tensor.ok()) {
    Raise(absl::Status(tensor.status().code(),
                       absl::StrCat(what.text(), ": ", tensor.status().message())));
  }
  const bool read_only =
      versioned && (static_cast<ManagedVersioned*>(managed)->flags & kReadOnly) != 0;
  PyCapsule_SetName(capsule.ptr(), versioned ? "used_dltensor_versioned" : "used_dltensor");
  if (tensor->device() != Device())
    RaiseInvalid(absl::StrCat(what.text(), ": it is on a GPU; copy it to the CPU"));
  return {*tensor, read_only, Home::kNumpy};
}

}  // namespace kiln::python
