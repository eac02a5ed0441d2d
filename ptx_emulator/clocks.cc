// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/clocks.h"

#include <algorithm>

namespace kiln::ptx {
namespace {

bool Knows(const Clock& clock, const StreamAccess& access) {
  const auto found = clock.find(access.stream);
  return found != clock.end() && found->second >= access.step;
}

}  // namespace

const StreamAccess* AccessLog::Note(const StreamAccess& access, const Clock& clock) {
  const StreamAccess* raced = nullptr;
  for (const StreamAccess& other : accesses_) {
    const bool common = other.begin < access.end && access.begin < other.end;
    if (common && (other.write || access.write) && !Knows(clock, other)) {
      raced_ = other;
      raced = &raced_;
    }
  }
  // What is known and covered is told by the new access just as well.
  const auto covered = [&](const StreamAccess& other) {
    return Knows(clock, other) && access.begin <= other.begin && other.end <= access.end &&
           (access.write || !other.write);
  };
  accesses_.erase(std::remove_if(accesses_.begin(), accesses_.end(), covered), accesses_.end());
  accesses_.push_back(access);
  return raced;
}

void AccessLog::Forget(const Clock& known) {
  const auto over = [&](const StreamAccess& access) { return Knows(known, access); };
  accesses_.erase(std::remove_if(accesses_.begin(), accesses_.end(), over), accesses_.end());
}

}  // namespace kiln::ptx
