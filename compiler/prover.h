// SPDX-License-Identifier: Apache-2.0
// The compiler's side of kiln-prove: proofs (proof.h) made in processes of their own, while the
// kernels in question are in use already.
//
//   Prover prover("", 2);
//   prover.Add(request, [](const absl::StatusOr<std::string>& proof) { ... });   // returns at once
//   prover.Finish();                                                             // all are called
//
// Processes start with the first proof, run at low priority and end with the Prover. A kernel that
// crashes or hangs costs a forked child of kiln-prove.
#ifndef KILN_COMPILER_PROVER_H_
#define KILN_COMPILER_PROVER_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kiln/compiler/child_process.h"
#include "kiln/compiler/proof.h"

namespace kiln {

class Prover {
 public:
  using Done = std::function<void(const absl::StatusOr<std::string>& proof)>;

  // `executable` as for FindProgram (empty: looked for, KILN_PROVE). Starts nothing yet.
  Prover(std::string executable, int processes);
  // Finishes what was added.
  ~Prover();

  // Proves one kernel. Errors as ProveKernel, also for code that crashes or never ends
  // (kDataLoss); kNotFound: no kiln-prove; kUnavailable: it cannot tell, try again later.
  // Thread-safe.
  absl::StatusOr<std::string> Prove(const ProofRequest& request);

  // The same on another thread, which calls `done`. Thread-safe.
  void Add(ProofRequest request, Done done);

  // Waits until nothing that was added is left.
  void Finish();

 private:
  struct Job {
    ProofRequest request;
    Done done;
  };
  absl::StatusOr<std::unique_ptr<ChildProcess>> Acquire();
  void Work();

  const std::string executable_;
  const int processes_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<ChildProcess>> idle_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;  // added and not done
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // threads without a job
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

// What kiln-prove answers, as bytes and back.
std::string EncodeProof(const absl::StatusOr<std::string>& proof);
absl::StatusOr<std::string> DecodeProof(absl::string_view bytes);
// What it says first.
std::string ProverHello();

}  // namespace kiln

#endif  // KILN_COMPILER_PROVER_H_
