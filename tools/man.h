// SPDX-License-Identifier: Apache-2.0
// Manual pages of a program, in the macros of man(7), made of its table of commands.
#ifndef KILN_TOOLS_MAN_H_
#define KILN_TOOLS_MAN_H_

#include <string>

#include "tools/command_table.h"

namespace kiln {

// The page of the program, or of a verb of it, which has what is below the verb too.
std::string ManualPage(const CommandRow& command, const CommandRow& program);

}  // namespace kiln

#endif  // KILN_TOOLS_MAN_H_
