// SPDX-License-Identifier: Apache-2.0
// Messages of Protocol Buffers as trees that know what their fields hold, and random changes to
// them.
//
//   FuzzMessage message = ParseFuzzMessage(PackageMessage(), section.bytes);
//   std::string what = Mutate(message, random);    // "Ref.shape: \"n\" -> \"9223372036854775807\""
//   section.bytes = Serialize(message);
//
// A change takes a field out, doubles it, swaps it with another of its kind, gives it a value that
// is expensive to overflows, an expression, a name or a text of another field, or adds one that was
// absent. The result is always well formed.
#ifndef KILN_TESTS_FUZZ_PACKAGES_FUZZ_MESSAGE_H_
#define KILN_TESTS_FUZZ_PACKAGES_FUZZ_MESSAGE_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln {

enum class FuzzKind : uint8_t { kInt, kInts, kDoubles, kText, kKernel, kBytes, kMessage };

struct FuzzMessageType;
struct FuzzFieldType {
  int number;
  const char* name;
  FuzzKind kind;
  const FuzzMessageType* message = nullptr;
};
struct FuzzMessageType {
  const char* name;
  std::vector<FuzzFieldType> fields;
};

// exec/program.proto, exec/package/package.proto, compiler/stored.proto.
const FuzzMessageType& PackageMessage();
const FuzzMessageType& StoredModelMessage();

struct FuzzMessage;
struct FuzzField {
  const FuzzFieldType* type = nullptr;
  uint64_t number = 0;               // kInt
  std::vector<uint64_t> numbers;     // kInts, and the bits of kDoubles
  std::string bytes;                 // kText, kKernel, kBytes
  std::vector<FuzzMessage> message;  // kMessage: one
};
struct FuzzMessage {
  const FuzzMessageType* type = nullptr;
  std::vector<FuzzField> fields;
};

// Of bytes that were written by the project; aborts on others.
FuzzMessage ParseFuzzMessage(const FuzzMessageType& type, absl::string_view bytes);
std::string Serialize(const FuzzMessage& message);

// Changes one field at random, or with `everywhere` all texts that read alike; says which, and how.
std::string Mutate(FuzzMessage& message, std::mt19937_64& random, bool everywhere = true);

// {0, -1, 1, 2^31, 2^61, 2^63-1, ...}
uint64_t ExpensiveNumber(std::mt19937_64& random);

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_PACKAGES_FUZZ_MESSAGE_H_
