// SPDX-License-Identifier: Apache-2.0
// A stream that goes to a terminal, with what is written to it made printable (base/printable.h).
//
//   const TerminalText out(std::cout, STDOUT_FILENO);   // until it goes
#ifndef KILN_TOOLS_TERMINAL_TEXT_H_
#define KILN_TOOLS_TERMINAL_TEXT_H_

#include <ostream>
#include <streambuf>

namespace kiln {

class TerminalText : private std::streambuf {
 public:
  // Nothing changes for a descriptor that is no terminal: there bytes are what they are.
  TerminalText(std::ostream& stream, int descriptor);
  ~TerminalText() override;
  TerminalText(const TerminalText&) = delete;
  TerminalText& operator=(const TerminalText&) = delete;

 private:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

  std::ostream& stream_;
  std::streambuf* below_ = nullptr;  // null: no terminal
};

}  // namespace kiln

#endif  // KILN_TOOLS_TERMINAL_TEXT_H_
