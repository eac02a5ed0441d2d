// SPDX-License-Identifier: Apache-2.0
#include "tools/command_table.h"

namespace kiln {

std::vector<const CommandRow*> AllCommands(const CommandRow& top) {
  std::vector<const CommandRow*> all = {&top};
  for (const CommandRow& command : top.commands) {
    const std::vector<const CommandRow*> below = AllCommands(command);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace kiln
