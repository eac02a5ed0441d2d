// SPDX-License-Identifier: Apache-2.0
// What a device allows in one kernel.
#include "absl/strings/str_cat.h"
#include "schedule/device.h"

namespace kiln {

Decision GroupCaps::Allows(size_t with_buffers, size_t with_numbers) const {
  if (with_buffers > buffers) {
    return Decision::No(absl::StrCat("one kernel would have ", with_buffers,
                                     " inputs and outputs, the limit is ", buffers));
  }
  if (with_numbers > numbers) {
    return Decision::No(absl::StrCat("one kernel would have ", with_numbers,
                                     " inputs of one element, the limit is ", numbers));
  }
  return Decision::Yes();
}

}  // namespace kiln
