// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/worker.h"
#include "kiln/base/frames.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kiln/halide_gen/build_id.h"
#include "kiln/halide_gen/compile.h"
#include "kiln/halide_gen/files.h"
#include "kiln/halide_gen/inherit.h"
#include "kiln/kernel/params.h"
#include "kiln/kernel/text.h"
#include "kiln/schedule/scheduler.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = CodegenAnswer::Outcome;

// Address sanitizers reserve more than any limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr rlim_t kMostMemory = RLIM_INFINITY;
#else
constexpr rlim_t kMostMemory = rlim_t{4} << 30;
#endif

// What the child does: nothing of it returns.
[[noreturn]] void CompileInChild(const CodegenRequest& request, const std::string& dir, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlim_t seconds = request.timeout_ms / 1000 + 2;
  const rlimit time{seconds, seconds}, memory{kMostMemory, kMostMemory}, no_core{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  const itimerval budget{{}, {request.cpu_ms / 1000, request.cpu_ms % 1000 * 1000}};
  setitimer(ITIMER_PROF, &budget, nullptr);  // SIGPROF ends the child; zero sets nothing
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &no_core);
  const int log = open((dir + "/stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, 0);
  dup2(nothing, 1);
  dup2(log >= 0 ? log : nothing, 2);
  const std::string answer = Encode(Compile(request, dir));
  _exit(WriteFrame(out, answer).ok() ? 0 : 1);
}

// The answer for a child that ended without one.
CodegenAnswer Died(int status, const CodegenRequest& request, const std::string& dir) {
  const auto log = ReadBytes(dir + "/stderr");
  std::string said = log.ok() ? *log : "";
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (said.size() > 400) said = said.substr(said.size() - 400);
  if (!WIFSIGNALED(status))
    return Failure(Outcome::kTransient, absl::StrCat("codegen: stopped; ", said));
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF) {
    return Failure(Outcome::kTransient,
                   absl::StrCat("codegen: needs more than ", request.cpu_ms,
                                " ms of processor time; allow more of it"),
                   /*of_schedule=*/true);
  }
  if (signal == SIGXCPU || signal == SIGKILL) {
    return Failure(Outcome::kTransient,
                   "codegen: ran out of time or memory; try again with a longer time limit");
  }
  const bool memory =
      absl::StrContains(said, "out of memory") || absl::StrContains(said, "bad_alloc");
  return Failure(memory ? Outcome::kTransient : Outcome::kDeterministic,
                 absl::StrCat("codegen: ended by signal SIG", sigabbrev_np(signal),
                              said.empty() ? "" : "; ", said),
                 /*of_schedule=*/!memory);
}

CodegenAnswer ServeIn(const CodegenRequest& request, const std::string& dir) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Failure(Outcome::kTransient, absl::StrCat("codegen: no pipe, ", strerror(errno)));
  }
  const pid_t child = fork();
  if (child == 0) CompileInChild(request, dir, ends[1]);
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return Failure(Outcome::kTransient,
                   absl::StrCat("codegen: no child process, ", strerror(errno)));
  }
  const auto payload =
      ReadFrame(ends[0], static_cast<int>(std::min<uint32_t>(request.timeout_ms, INT32_MAX)));
  close(ends[0]);
  if (payload.ok()) {  // it has nothing left to do but to end
    const auto answer = DecodeAnswer(*payload);
    return answer.ok() ? *answer : Failure(Outcome::kTransient, answer.status().message());
  }
  const bool late = absl::IsDeadlineExceeded(payload.status());
  if (late) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) {
    return Failure(Outcome::kTransient,
                   absl::StrCat("codegen: not done within ", request.timeout_ms,
                                " ms; try again with a longer time limit"));
  }
  return Died(status, request, dir);
}

// Schedules of the kernel that know nothing of its extents, and promise what `request` asks for:
// that of its own scheduler, and that of the last, which takes every kernel.
std::vector<std::string> PlainerParams(const CodegenRequest& request) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(request.kernel);
  const absl::StatusOr<Params> asked = Params::Parse(request.params);
  const std::optional<IsaLevel> isa = ParseIsaLevel(request.target);
  if (!kernel.ok() || !asked.ok() || !isa) return {};
  const SizeClass any{std::vector<int64_t>(kernel->dims.size(), kUnbounded)};
  std::vector<std::string> plainer;
  for (const Scheduler* scheduler : {FindScheduler(*kernel), &CpuSchedulers().back()}) {
    const Params params = scheduler->choose(*kernel, any, ProfileFor(*isa));
    const bool promised =
        std::all_of(asked->in_place.begin(), asked->in_place.end(), [&](const auto& pair) {
          return std::count(params.in_place.begin(), params.in_place.end(), pair) > 0;
        });
    if (promised && !(params == *asked)) plainer.push_back(params.ToString());
  }
  return plainer;
}

// A kernel that Halide refuses, or takes too long for, with one schedule is compiled with a plainer
// one. The error is that of the schedule asked for.
CodegenAnswer ServeSomehow(CodegenRequest request, const std::string& dir) {
  CodegenAnswer answer = ServeIn(request, dir);
  answer.params = request.params;
  if (!answer.of_schedule) return answer;
  for (const std::string& params : PlainerParams(request)) {
    request.params = params;
    CodegenAnswer other = ServeIn(request, dir);
    other.params = params;
    if (other.outcome == Outcome::kOk) return other;
  }
  return answer;
}

}  // namespace

CodegenHello Hello() { return {kCodegenBuildId, kCodegenCompiler}; }

CodegenAnswer Serve(const CodegenRequest& request) {
  static const bool kWarm = (WarmUp(), InheritPages("libHalide"), true);
  static_cast<void>(kWarm);
  const Clock::time_point start = Clock::now();
  while (waitpid(-1, nullptr, WNOHANG) > 0) {  // children that answered
  }
  const auto dir = ScratchDir::Make();
  CodegenAnswer answer = dir.ok() ? ServeSomehow(request, dir->path())
                                  : Failure(Outcome::kTransient, dir.status().message());
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  answer.wall_ms = static_cast<uint32_t>(took.count());
  return answer;
}

int ServeAll(int in, int out) {
  signal(SIGPIPE, SIG_IGN);
  if (!WriteFrame(out, Encode(Hello())).ok()) return 1;
  while (true) {
    const auto payload = ReadFrame(in, -1);
    if (absl::IsNotFound(payload.status())) return 0;
    const auto request = payload.ok() ? DecodeRequest(*payload) : payload.status();
    if (!request.ok()) {
      std::fprintf(stderr, "kiln-codegen: %s\n", std::string(request.status().message()).c_str());
      return 1;
    }
    if (!WriteFrame(out, Encode(Serve(*request))).ok()) return 1;
  }
}

void ScrubEnvironment() {
  const char* scratch = getenv("TMPDIR");
  const std::optional<std::string> kept =
      scratch != nullptr ? std::optional<std::string>(scratch) : std::nullopt;
  clearenv();
  setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
  setenv("LC_ALL", "C", 1);
  if (kept) setenv("TMPDIR", kept->c_str(), 1);
}

}  // namespace kiln
