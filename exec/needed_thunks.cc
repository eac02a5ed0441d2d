// SPDX-License-Identifier: Apache-2.0
#include "exec/needed_thunks.h"

#include <algorithm>
#include <numeric>

namespace kiln {
namespace {

// Per buffer, a number of the memory that it lies in: buffers of one memory, as a whole and its
// parts, are needed together.
std::vector<size_t> MemoryOfBuffers(const CheckedProgram& program) {
  std::vector<size_t> memory(program.buffers.size());
  std::iota(memory.begin(), memory.end(), size_t{0});
  const auto root = [&](size_t b) {
    while (memory[b] != b) b = memory[b] = memory[memory[b]];
    return b;
  };
  for (const CheckedSubRange& range : program.sub_ranges)
    memory[root(static_cast<size_t>(range.buffer))] = root(static_cast<size_t>(range.of));
  for (size_t b = 0; b < memory.size(); ++b) memory[b] = root(b);
  return memory;
}

}  // namespace

std::vector<bool> NeededThunks(const CheckedProgram& program, const std::vector<bool>& wanted) {
  std::vector<bool> needed(program.thunks.size(), true);
  if (std::find(wanted.begin(), wanted.end(), false) == wanted.end()) return needed;
  const std::vector<size_t> memory = MemoryOfBuffers(program);
  std::vector<bool> live(program.buffers.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) live[memory[static_cast<size_t>(program.outputs[i].buffer)]] = true;
  }
  for (size_t t = program.thunks.size(); t-- > 0;) {
    const CheckedThunk& thunk = program.thunks[t];
    needed[t] = std::any_of(thunk.outputs.begin(), thunk.outputs.end(), [&](const CheckedRef& ref) {
      return live[memory[static_cast<size_t>(ref.buffer)]];
    });
    if (!needed[t]) continue;
    for (const CheckedRef& ref : thunk.inputs) {
      if (ref.buffer >= 0) live[memory[static_cast<size_t>(ref.buffer)]] = true;
    }
  }
  return needed;
}

}  // namespace kiln
