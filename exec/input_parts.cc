// SPDX-License-Identifier: Apache-2.0
#include "exec/input_parts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Whether `part` can follow `first`, part 0.
absl::Status CheckPart(const PortInfo& port, size_t k, const Tensor& part, const Tensor& first) {
  const auto subject = [&] { return absl::StrCat("input \"", port.name, "\": part ", k); };
  if (part.dtype() != port.type) {
    return Invalid(subject(), " is ", Name(part.dtype()), ", expected ", Name(port.type),
                   "; convert it");
  }
  if (part.device() != Device()) return Invalid(subject(), " is on a GPU; copy it to the CPU");
  if (part.shape().size() != port.shape.size() || part.strides().size() != part.shape().size()) {
    return Invalid(subject(), " has rank ", part.shape().size(), ", expected ", port.shape.size(),
                   "; give parts of the input's rank");
  }
  for (size_t i = 1; i < part.shape().size(); ++i) {
    if (part.shape()[i] != first.shape()[i]) {
      return Invalid(subject(), ": dim ", i, " is ", part.shape()[i], ", that of part 0 is ",
                     first.shape()[i], "; parts may differ in dim 0 only");
    }
  }
  const int64_t bytes = CheckedBytes(part.dtype(), part.shape());
  if (bytes < 0) return Invalid(subject(), ": its shape is negative, or too large");
  if (part.data() == nullptr && bytes > 0)
    return Invalid(subject(), ": no memory; give a tensor with data");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<InputParts> InputParts::Of(const PortInfo& port, size_t input,
                                          const std::vector<Tensor>& parts) {
  if (parts.empty())
    return Invalid("input \"", port.name, "\": no parts; give at least one tensor");
  if (port.shape.empty())
    return Invalid("input \"", port.name, "\": has rank 0, so no parts; call Bind");
  InputParts made;
  made.input_ = input;
  for (size_t k = 0; k < parts.size(); ++k) {
    KILN_RETURN_IF_ERROR(CheckPart(port, k, parts[k], parts[0]));
    if (k == 0) made.shape_ = parts[0].shape();
    if (k > 0 && __builtin_add_overflow(made.shape_[0], parts[k].shape()[0], &made.shape_[0]))
      return Invalid("input \"", port.name, "\": the parts have too many rows together");
    made.parts_.push_back({parts[k],
                           StridedCopy(parts[k].shape(), parts[k].strides(),
                                       DenseStrides(parts[k].shape()), SizeOf(port.type)),
                           made.bytes_});
    made.bytes_ = CheckedBytes(port.type, made.shape_);
    if (made.bytes_ < 0)
      return Invalid("input \"", port.name, "\": the parts are too large together");
  }
  return made;
}

void InputParts::CopyTo(void* whole) const {
  for (const Part& part : parts_)
    part.copy.Run(part.tensor.data(), static_cast<char*>(whole) + part.offset);
}

}  // namespace kiln
