// SPDX-License-Identifier: Apache-2.0
#include "base/real_path.h"

#include <filesystem>
#include <system_error>

namespace kiln {

std::string RealPath(absl::string_view path) {
  const std::string given(path);
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(given, error);
  return error ? given : real.string();
}

}  // namespace kiln
