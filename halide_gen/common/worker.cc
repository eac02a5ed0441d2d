// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/helper_main.h"
#include "halide_gen/common/build_id.h"
#include "halide_gen/common/compile.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/inherit.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = CodegenAnswer::Outcome;

constexpr uint64_t kMostMemory = uint64_t{4} << 30;  // compile time

// What the child does.
std::string CompileInChild(const CodegenRequest& request, const std::string& dir) {
  const itimerval budget{{}, {request.cpu_ms / 1000, request.cpu_ms % 1000 * 1000}};
  setitimer(ITIMER_PROF, &budget, nullptr);  // SIGPROF ends the child; zero sets nothing
  const int log = open((dir + "/stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log >= 0) dup2(log, 2);
  return Encode(Compile(request, dir));
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
    return Failure(Outcome::kTimedOut,
                   absl::StrCat("codegen: needs more than ", request.cpu_ms,
                                " ms of processor time; allow more of it"),
                   /*of_schedule=*/true);
  }
  if (signal == SIGXCPU || signal == SIGKILL) {
    return Failure(Outcome::kTransient,
                   "codegen: ran out of time or memory; try again with a longer time limit");
  }
  const bool passes = !IsFaultSignal(signal) || absl::StrContains(said, "out of memory") ||
                      absl::StrContains(said, "bad_alloc");
  return Failure(passes ? Outcome::kTransient : Outcome::kDeterministic,
                 absl::StrCat("codegen: ended by signal SIG", sigabbrev_np(signal),
                              said.empty() ? "" : "; ", said),
                 /*of_schedule=*/!passes);
}

CodegenAnswer ServeIn(const CodegenRequest& request, const std::string& dir) {
  const ChildAnswer answer =
      AnswerInChild({.cpu_seconds = request.timeout_ms / 1000 + 2, .memory_bytes = kMostMemory},
                    static_cast<int>(std::min<uint32_t>(request.timeout_ms, INT32_MAX)),
                    [&] { return CompileInChild(request, dir); });
  const auto transient = [](absl::string_view why) {
    return Failure(Outcome::kTransient, absl::StrCat("codegen: ", why));
  };
  if (!answer.not_started.ok()) return transient(answer.not_started.message());
  if (answer.host_gone) return transient("nobody waits for it");
  if (answer.late) {
    return Failure(Outcome::kTimedOut, absl::StrCat("codegen: not done within ", request.timeout_ms,
                                                    " ms; try again with a longer time limit"));
  }
  if (!answer.bytes.has_value()) return Died(answer.wait_status, request, dir);
  const auto decoded = DecodeAnswer(*answer.bytes);
  return decoded.ok() ? *decoded : transient(decoded.status().message());
}

// Schedules of the kernel that know nothing of its extents, and promise what `request` asks for:
// the cheapest one of each template that offers any.
std::vector<std::string> PlainerSchedules(const CodegenRequest& request) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(request.kernel);
  const std::optional<Target> target = Target::Parse(request.target);
  if (!kernel.ok() || !target || !AcceptsKernel(*kernel, *target)) return {};
  const absl::StatusOr<Schedule> asked = Schedule::Parse(request.schedule, target->device);
  if (!asked.ok()) return {};
  const SizeClass any{std::vector<int64_t>(kernel->dims.size(), kUnbounded)};
  std::vector<std::string> plainer;
  std::set<std::string> names;
  for (const Candidate& other : CandidatesFor(*kernel, any, ShippedMachine(*target))) {
    const bool promised =
        std::all_of(asked->in_place.begin(), asked->in_place.end(), [&](const auto& pair) {
          const auto& pairs = other.schedule.in_place;
          return std::find(pairs.begin(), pairs.end(), pair) != pairs.end();
        });
    if (promised && !(other.schedule == *asked) && names.insert(other.schedule.name()).second)
      plainer.push_back(other.schedule.ToString());
  }
  return plainer;
}

// A kernel that Halide refuses, or takes too long for, with one schedule is compiled with a plainer
// one. The error is that of the schedule asked for.
CodegenAnswer ServeSomehow(CodegenRequest request, const std::string& dir) {
  CodegenAnswer answer = ServeIn(request, dir);
  answer.schedule = request.schedule;
  if (!answer.of_schedule) return answer;
  for (const std::string& schedule : PlainerSchedules(request)) {
    request.schedule = schedule;
    CodegenAnswer other = ServeIn(request, dir);
    other.schedule = schedule;
    if (other.outcome == Outcome::kOk) return other;
  }
  return answer;
}

// Before the first fork, so that children find Halide initialised.
void WarmUpOnce() {
  static const bool kWarm = (WarmUp(), InheritPages("libHalide"), true);
  static_cast<void>(kWarm);
}

}  // namespace

CodegenHello Hello() { return {kCodegenBuildId, kCodegenCompiler}; }

CodegenAnswer Serve(const CodegenRequest& request) {
  WarmUpOnce();
  const Clock::time_point start = Clock::now();
  const auto dir = ScratchDir::Make();
  CodegenAnswer answer = dir.ok() ? ServeSomehow(request, dir->path())
                                  : Failure(Outcome::kTransient, dir.status().message());
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  answer.wall_ms = static_cast<uint32_t>(took.count());
  return answer;
}

int ServeAll(const std::vector<std::string>& without) {
  const auto serve = [&](const std::string& frame) {
    auto request = DecodeRequest(frame);
    if (request.ok()) request->without = without;
    return Encode(request.ok() ? Serve(*request)
                               : Failure(Outcome::kTransient, request.status().message()));
  };
  return ServeRequests(Encode(Hello()), serve, WarmUpOnce);
}

void ScrubEnvironment() {
  const char* scratch = secure_getenv("TMPDIR");
  const std::optional<std::string> kept =
      scratch != nullptr ? std::optional<std::string>(scratch) : std::nullopt;
  clearenv();
  setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
  setenv("LC_ALL", "C", 1);
  if (kept) setenv("TMPDIR", kept->c_str(), 1);
}

}  // namespace kiln
