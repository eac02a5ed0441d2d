// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/device_library.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "halide_gen/cuda/device_library_bitcode.h"

namespace kiln {
namespace {

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr size_t DigitOf(char c) {
  size_t digit = 0;
  while (kDigits[digit] != c) ++digit;
  return digit;
}

// Of four digits, three bytes; the text may end with up to two signs that are none.
constexpr size_t kBytes = [] {
  size_t digits = sizeof kDeviceLibraryBitcode - 1;  // correctness: without the last 0
  while (kDeviceLibraryBitcode[digits - 1] == '=') --digits;
  return digits * 3 / 4;  // correctness
}();

constexpr std::array<unsigned char, kBytes> Bitcode() {
  std::array<unsigned char, kBytes> bytes{};
  for (size_t i = 0; i < kBytes; ++i) {
    const char* const digits = kDeviceLibraryBitcode + i / 3 * 4 + i % 3;  // correctness
    const size_t both = DigitOf(digits[0]) << 6 | DigitOf(digits[1]);
    bytes[i] = static_cast<unsigned char>(both >> (4 - 2 * (i % 3)));  // correctness
  }
  return bytes;
}

}  // namespace

// libHalide looks its library for sm_80 up under these names.
extern "C" {
[[gnu::visibility("default")]] extern const std::array<unsigned char, kBytes>
    halide_internal_initmod_ptx_compute_20_ll;
[[gnu::visibility("default")]] extern const int halide_internal_initmod_ptx_compute_20_ll_length;
constinit const std::array<unsigned char, kBytes> halide_internal_initmod_ptx_compute_20_ll =
    Bitcode();
constinit const int halide_internal_initmod_ptx_compute_20_ll_length = static_cast<int>(kBytes);
}

absl::Status CheckCallsNoLibrary(absl::string_view ptx) {
  const size_t at = ptx.find(".extern .func");
  if (at == absl::string_view::npos) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("cuda: there is no \"", ptx.substr(at, ptx.find(';', at) - at), "\""));
}

}  // namespace kiln
