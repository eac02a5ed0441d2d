// SPDX-License-Identifier: Apache-2.0
// Makes a pool's cap hold for its callers too: whoever works on a pool has a Turn while it does.
//
//   const Turn turn(pool, Turn::Share::kWhole);   // regions of all members; alone meanwhile
//   const Turn turn(pool, Turn::Share::kOne);     // no regions; `threads` such callers at once
//   const Turn turn(pool, Turn::Share::kReady);   // regions if turn.whole(): if nobody else works
//                                                 // on the pool, nor did lately, and it is Ready
//
// Regions need their exact number of members, so a caller that has regions has the pool to itself
// for as long as it works and the others wait; handing the pool over at every region would cost
// more than the regions. A caller passes one that waits for a moment, so that short turns do not
// cost a switch of threads each, but nobody waits longer than turns that began before and a
// millisecond.
#ifndef KILN_EXEC_SUPPORT_TURN_H_
#define KILN_EXEC_SUPPORT_TURN_H_

#include "exec/support/pool.h"
#include "exec/support/turnstile.h"

namespace kiln {

class Turn {
 public:
  enum class Share { kOne, kWhole, kReady };

  Turn(Pool& pool, Share share);
  ~Turn() { turnstile_.Leave(places_); }
  bool whole() const { return whole_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turnstile& turnstile_;
  const bool whole_;
  const int places_;
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_TURN_H_
