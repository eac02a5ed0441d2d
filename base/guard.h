// SPDX-License-Identifier: Apache-2.0
// Guards are the assumptions under which a Program is right. A variant runs only if all of its
// guards hold.
//
// The set is closed. Text forms (Parse reads what ToString writes):
//   n == 4            kEqual          an extent has this value
//   n != 1            kNotEqual       only where a broadcast or squeeze asked
//   n % 8 == 0        kDivisible
//   n == m            kSame           two expressions are equal
//   n*m < 2147483648  kLess
//   n >= 0            kAtLeast        sign of a slice bound, and the like
//   present x         kPresent        an optional input is given
//   absent x          kAbsent         it is not
//   value x == 0a0b.. kValue          the bytes of an integer input, hexadecimal
// kEqual of a remainder, `n % 8 == 0`, is read back as kDivisible: the same assumption.
#ifndef KILN_BASE_GUARD_H_
#define KILN_BASE_GUARD_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/dim.h"

namespace kiln {

struct Guard {
  enum class Kind : uint8_t {
    kEqual,
    kNotEqual,
    kDivisible,
    kSame,
    kLess,
    kAtLeast,
    kPresent,
    kAbsent,
    kValue
  };
  Kind kind = Kind::kEqual;
  Dim left;
  Dim right;           // kSame
  int64_t number = 0;  // kEqual, kNotEqual, kDivisible, kLess, kAtLeast
  std::string input;   // kPresent, kAbsent, kValue
  std::string bytes;   // kValue

  static Guard Equal(Dim d, int64_t c) { return {Kind::kEqual, std::move(d), {}, c, "", ""}; }
  static Guard NotEqual(Dim d, int64_t c) { return {Kind::kNotEqual, std::move(d), {}, c, "", ""}; }
  static Guard Divisible(Dim d, int64_t c) {
    return {Kind::kDivisible, std::move(d), {}, c, "", ""};
  }
  static Guard Same(Dim a, Dim b);  // kEqual if one of them is a number
  static Guard Less(Dim d, int64_t c) { return {Kind::kLess, std::move(d), {}, c, "", ""}; }
  static Guard AtLeast(Dim d, int64_t c) { return {Kind::kAtLeast, std::move(d), {}, c, "", ""}; }
  static Guard Present(std::string x) { return {Kind::kPresent, {}, {}, 0, std::move(x), ""}; }
  static Guard Absent(std::string x) { return {Kind::kAbsent, {}, {}, 0, std::move(x), ""}; }
  static Guard Value(std::string x, std::string bytes) {
    return {Kind::kValue, {}, {}, 0, std::move(x), std::move(bytes)};
  }

  std::string ToString() const;
  static absl::StatusOr<Guard> Parse(absl::string_view text);
  // For the kinds over extents: whether it holds. kPresent, kAbsent and kValue are
  // kFailedPrecondition here (they need the inputs).
  absl::StatusOr<bool> Holds(const SymbolValues& values) const;
  // Names of all symbols in it.
  std::set<std::string> Symbols() const;
  // True if it holds for all values, false if for none, nothing if it depends.
  std::optional<bool> Static() const;
  friend bool operator==(const Guard&, const Guard&) = default;
};

}  // namespace kiln

#endif  // KILN_BASE_GUARD_H_
