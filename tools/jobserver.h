// SPDX-License-Identifier: Apache-2.0
// A client of GNU make's jobserver: `make -j8` lends its jobs as tokens, bytes in a pipe that all
// that it runs share. Who runs in a recipe has one job, and takes a token for each further one.
//
//   absl::StatusOr<std::unique_ptr<Jobserver>> server = Jobserver::Open(MAKEFLAGS);
//   ...
//   const Jobserver::Token token = (*server)->Acquire();  // on any number of threads; waits
//   Build(kernel);                                        // and gives the token back
//
// SIGINT, SIGTERM and SIGHUP end the process as ever, but the tokens go back first.
#ifndef KILN_TOOLS_JOBSERVER_H_
#define KILN_TOOLS_JOBSERVER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/descriptor.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace kiln {

class Jobserver {
 public:
  // What MAKEFLAGS say: --jobserver-auth=fifo:PATH or =R,W, two descriptors, or the older
  // --jobserver-fds=R,W; the last of them counts. Null: there is none. kFailedPrecondition: make
  // has not passed it on, as to a recipe without "+"; the one job of the recipe is left.
  static absl::StatusOr<std::unique_ptr<Jobserver>> Open(absl::string_view makeflags);
  // All tokens must be back.
  ~Jobserver();
  Jobserver(const Jobserver&) = delete;
  Jobserver& operator=(const Jobserver&) = delete;

  // The right to run one job. Gives it back when it goes.
  class Token {
   public:
    Token(Token&& other) noexcept
        : server_(std::exchange(other.server_, nullptr)), byte_(other.byte_) {}
    ~Token() {
      if (server_ != nullptr) server_->Release(byte_);
    }

   private:
    friend class Jobserver;
    Token(Jobserver* server, std::optional<char> byte) : server_(server), byte_(byte) {}
    Jobserver* server_;
    std::optional<char> byte_;  // nothing: the recipe's own job
  };
  // Waits until a job may run. Thread-safe.
  Token Acquire();

 private:
  Jobserver(Descriptor read, Descriptor write);
  void Release(std::optional<char> byte);
  // A token out of the pipe, unless another client was faster.
  std::optional<char> TryRead();
  void GiveBack(char byte);
  void WatchSignals();

  // Readable while the recipe's own job is free; and while the watching of signals is to end.
  const Descriptor own_job_, stop_;
  const Descriptor read_, write_;
  Descriptor signals_;
  Mutex mutex_;
  std::string held_ ABSL_GUARDED_BY(mutex_);  // of the pipe's tokens
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  Thread watching_;
};

}  // namespace kiln

#endif  // KILN_TOOLS_JOBSERVER_H_
