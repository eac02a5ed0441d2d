// SPDX-License-Identifier: Apache-2.0
#include "graph/open_extents.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace kiln {
namespace {
constexpr absl::string_view kOpenExtents = "kiln/open_extents";
}  // namespace

absl::Status OpenExtentsError(std::string message) {
  absl::Status status = absl::UnimplementedError(message);
  status.SetPayload(kOpenExtents, absl::Cord());
  return status;
}

bool IsOfOpenExtents(const absl::Status& status) {
  return status.GetPayload(kOpenExtents).has_value();
}

}  // namespace kiln
