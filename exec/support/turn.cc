// SPDX-License-Identifier: Apache-2.0
#include "exec/support/turn.h"

namespace kiln {
namespace {

// Takes places of `pool`; whether all.
bool Enter(Pool& pool, Turn::Share share) {
  const int all = pool.threads();
  Turnstile& turnstile = pool.turnstile();
  if (share == Turn::Share::kReady && turnstile.TryEnter(all)) {
    if (pool.Ready()) return true;
    turnstile.Leave(all - 1);
    return false;
  }
  turnstile.Enter(share == Turn::Share::kWhole ? all : 1);
  return share == Turn::Share::kWhole;
}

}  // namespace

Turn::Turn(Pool& pool, Share share)
    : turnstile_(pool.turnstile()),
      whole_(Enter(pool, share)),
      places_(whole_ ? pool.threads() : 1) {}

}  // namespace kiln
