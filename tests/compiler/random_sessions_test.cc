// SPDX-License-Identifier: Apache-2.0
// Random programs in random sessions (random_session.h): several callers at once, each with a
// context of its own, while constants are updated; and again after a restart that finds only the
// cache. Every run has the bits that it has alone.
//
//   KILN_SESSIONS   how many that compile nothing; a fifth as many compile before the first run,
//                   a tenth while they run; a third of each on the emulated GPU
//   KILN_SEED       the first seed
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/random_session.h"
#include "tests/compiler/session_caller.h"

namespace kiln {
namespace {

constexpr int kSteps = 14;

// From the file, or the first time also from memory or from the graph.
absl::StatusOr<Model> CompileSession(RandomSession& s, const std::string& path, bool first) {
  const int64_t from = first ? s.draw.Below(4) : 0;
  if (from == 2) {
    ModelBytes bytes{s.program.text.data(), s.program.text.size()};
    bytes.name = absl::StrCat("session", s.program.ending);
    return Compile(bytes, s.options);
  }
  if (from == 3 && s.program.graph) return Compile(*s.program.graph, s.options);
  return Compile(path, s.options);
}

void Update(RandomSession& s, Model& model) {
  for (const auto& [name, value] : s.updates) {
    std::this_thread::sleep_for(std::chrono::microseconds(s.draw.Below(4000)));
    ++s.begun;
    KILN_EXPECT_OK(model.Update(name, value));
    ++s.done;
  }
}

// All callers at once, on one model or two that are equal; what is wrong, or "".
absl::StatusOr<std::string> RunCallers(RandomSession& s, const std::string& path, bool first) {
  s.begun = s.done = 0;
  std::vector<Model> models(s.updates.empty() && s.draw.OneIn(2) ? 2 : 1);
  for (Model& model : models) {
    KILN_ASSIGN_OR_RETURN(model, CompileSession(s, path, first));
  }
  std::vector<std::string> wrong(1 + static_cast<size_t>(s.draw.Below(3)));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    const auto seed = static_cast<uint64_t>(s.draw.Below(int64_t{1} << 40));
    threads.emplace_back([&s, &wrong, &models, t, seed] {
      wrong[t] = SessionCaller(s, models[t % models.size()], seed).Walk(kSteps);
    });
  }
  Update(s, models[0]);
  if (s.options.runtime != nullptr && s.draw.OneIn(3)) s.options.runtime->Maintain();
  for (std::thread& thread : threads) thread.join();
  for (const std::string& one : wrong)
    if (!one.empty()) return one;
  return "";
}

struct Where {
  CompileMode mode;
  const char* device;
};

class RandomSessions : public testing::TestWithParam<Where> {
 protected:
  // Of one session, and of it once more after a restart where it has a cache.
  void RunSession(uint64_t seed) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<RandomSession> s,
        MakeRandomSession(seed, GetParam().mode, folder_.File("cache"), GetParam().device));
    if (s == nullptr) return;
    const std::string path = folder_.File(absl::StrCat(seed, s->program.ending));
    std::ofstream(path, std::ios::binary) << s->program.text;
    for (const bool first : {true, false}) {
      if (!first && !s->options.cache.enabled) break;
      const absl::Status restarted = first ? absl::OkStatus() : Restart(*s);
      KILN_ASSERT_OK(restarted);
      KILN_ASSERT_OK_AND_ASSIGN(const std::string wrong, RunCallers(*s, path, first));
      ASSERT_EQ(wrong, "") << (first ? "" : "after a restart, ") << ToString(*s);
    }
    judged_ += s->judged;
    stopped_ += s->stopped;
  }

  const TempDir folder_;
  int64_t judged_ = 0, stopped_ = 0;
};

TEST_P(RandomSessions, EveryRunHasTheBitsItHasAlone) {
  const uint64_t all = FromEnvironment("KILN_SESSIONS", 30);
  const Where& where = GetParam();
  const uint64_t compiled = where.mode == CompileMode::kNever   ? 1
                            : where.mode == CompileMode::kBlock ? 5
                                                                : 10;
  const uint64_t share = *where.device != '\0' ? 3 * compiled : compiled;
  const uint64_t count = std::max<uint64_t>(all / share, 1);
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SESSIONS=1 KILN_SEED=", seed));
    RunSession(seed);
  }
  RecordProperty("judged", std::to_string(judged_));
  RecordProperty("stopped", std::to_string(stopped_));
}

std::string NameOf(const testing::TestParamInfo<Where>& info) {
  const CompileMode mode = info.param.mode;
  return absl::StrCat(mode == CompileMode::kNever   ? "OnTheVm"
                      : mode == CompileMode::kBlock ? "Compiled"
                                                    : "CompiledWhileRunning",
                      *info.param.device != '\0' ? "OfADevice" : "");
}

INSTANTIATE_TEST_SUITE_P(Modes, RandomSessions,
                         testing::Values(Where{CompileMode::kNever, ""},
                                         Where{CompileMode::kBlock, ""},
                                         Where{CompileMode::kBackground, ""},
                                         Where{CompileMode::kNever, "cuda-emulated"},
                                         Where{CompileMode::kBlock, "cuda-emulated"},
                                         Where{CompileMode::kBackground, "cuda-emulated"}),
                         NameOf);

}  // namespace
}  // namespace kiln
