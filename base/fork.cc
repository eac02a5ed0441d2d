// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <mutex>
#include <new>

namespace kiln {

namespace {

constexpr timespec kBetween = {0, 50'000};  // two looks at what another thread does

// Mutexes of ours that this thread has.
int& HeldHere() {
  thread_local int held = 0;
  return held;
}

}  // namespace

// The listeners of this process, and what happens to them at a fork.
struct ForkListeners {
  std::mutex mutex;  // held from before a fork until after it
  ForkListener* first = nullptr;
  std::atomic<uint32_t> generation{0};
  std::atomic<bool> forking{false};  // a thread is about to fork

  static ForkListeners& Get() {
    // Never destroyed: objects with static storage may outlive it otherwise.
    static ForkListeners& all = *[] {
      auto* const made = new ForkListeners;
      pthread_atfork([] { Get().Prepare(); }, [] { Get().InParent(); }, [] { Get().InChild(); });
      return made;
    }();
    return all;
  }

  // Whether all are prepared. If not, and unless `partly`, none is.
  bool TryPrepare(bool partly) {
    bool all = true;
    for (ForkListener* l = first; l != nullptr; l = l->next_) {
      l->prepared_ = (all || partly) && l->TryPrepare();
      all = all && l->prepared_;
    }
    if (all || partly) return all;
    UndoAll();
    return false;
  }

  void UndoAll() {
    for (ForkListener* l = first; l != nullptr; l = l->next_) {
      if (l->prepared_) l->Undo();
      l->prepared_ = false;
    }
  }

  // Who holds a mutex of ours may need another, or the list: between two tries all are free.
  void Prepare() {
    constexpr int kTries = 20'000;  // a second or two in all
    for (int i = 0; i < kTries; ++i) {
      mutex.lock();
      forking = true;
      if (TryPrepare(/*partly=*/false)) return;
      mutex.unlock();
      nanosleep(&kBetween, nullptr);
    }
    mutex.lock();
    TryPrepare(/*partly=*/true);
  }

  void InParent() {
    UndoAll();
    forking = false;
    mutex.unlock();
  }

  void InChild() {
    generation.fetch_add(1, std::memory_order_relaxed);
    for (ForkListener* l = first; l != nullptr; l = l->next_) {
      l->InChild(l->prepared_);
      l->prepared_ = false;
    }
    forking = false;
    mutex.unlock();
  }
};

void ForkGate::Enter() {
  if (HeldHere()++ > 0) return;
  const ForkListeners& all = ForkListeners::Get();
  while (all.forking.load(std::memory_order_relaxed)) nanosleep(&kBetween, nullptr);
}

void ForkGate::Leave() { --HeldHere(); }

uint32_t ForkGeneration() {
  return ForkListeners::Get().generation.load(std::memory_order_relaxed);
}

void ForkListener::Listen() {
  ForkListeners& all = ForkListeners::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  listens_ = true;
  next_ = all.first;
  if (next_ != nullptr) next_->previous_ = this;
  all.first = this;
}

void ForkListener::Unlisten() {
  if (!listens_) return;
  ForkListeners& all = ForkListeners::Get();
  const std::lock_guard<std::mutex> lock(all.mutex);
  listens_ = false;
  (previous_ != nullptr ? previous_->next_ : all.first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace kiln
