// SPDX-License-Identifier: Apache-2.0
#include "tools/terminal_text.h"

#include <unistd.h>

#include <string>

#include "base/printable.h"

namespace kiln {

TerminalText::TerminalText(std::ostream& stream, int descriptor) : stream_(stream) {
  if (isatty(descriptor) != 0) below_ = stream_.rdbuf(this);
}

TerminalText::~TerminalText() {
  if (below_ != nullptr) stream_.rdbuf(below_);
}

TerminalText::int_type TerminalText::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize TerminalText::xsputn(const char* text, std::streamsize size) {
  const std::string shown = Printable({text, static_cast<size_t>(size)});
  const auto length = static_cast<std::streamsize>(shown.size());
  return below_->sputn(shown.data(), length) == length ? size : 0;
}

int TerminalText::sync() { return below_->pubsync(); }

}  // namespace kiln
