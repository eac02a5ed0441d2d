// SPDX-License-Identifier: Apache-2.0
// Parses protocol buffers where memory may be refused.
//
// A message that std::bad_alloc leaves while it is parsed must not be destroyed: it counts elements
// that were never made. So it is parsed apart, and what was made of it is lost where that happens;
// the exception goes on to who makes a Status of it (base/catch_exceptions.h).
//
//   program::Program program;
//   if (!ParseMessage(bytes, program)) return absl::DataLossError("a program cannot be read");
#ifndef KILN_BASE_PARSE_MESSAGE_H_
#define KILN_BASE_PARSE_MESSAGE_H_

#include <memory>
#include <string>
#include <utility>

namespace kiln {

// `parse` is called with an empty message, which takes the place of `message`. False: parse's
// answer; `message` is then as it was.
template <typename Message, typename Parse>
bool ParseMessageWith(const Parse& parse, Message& message) {
  auto parsed = std::make_unique<Message>();
  try {
    if (!parse(*parsed)) return false;
  } catch (...) {
    static_cast<void>(parsed.release());
    throw;
  }
  message = std::move(*parsed);
  return true;
}

template <typename Message>
bool ParseMessage(const std::string& bytes, Message& message) {
  return ParseMessageWith([&](Message& parsed) { return parsed.ParseFromString(bytes); }, message);
}

}  // namespace kiln

#endif  // KILN_BASE_PARSE_MESSAGE_H_
