// SPDX-License-Identifier: Apache-2.0
// Kiln within a server: helpers that are killed, forks at any moment, and what is left behind.
#include <dirent.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <locale>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/compare.h"
#include "base/log.h"
#include "base/thread.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "graph/text.h"
#include "tests/base/environment.h"
#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

struct Helper {
  pid_t pid;
  std::string text;  // name, state and parent
};

// Helper processes below this one; `below`: at any depth, with those that each works in.
std::vector<Helper> Helpers(pid_t of = getpid(), bool below = true) {
  std::vector<Helper> found;
  DIR* const tasks = opendir(absl::StrCat("/proc/", of, "/task").c_str());
  if (tasks == nullptr) return found;
  while (const dirent* const entry = readdir(tasks)) {
    std::ifstream children(absl::StrCat("/proc/", of, "/task/", entry->d_name, "/children"));
    for (pid_t child = 0; children >> child;) {
      std::string pid, name, state;
      std::ifstream(absl::StrCat("/proc/", child, "/stat")) >> pid >> name >> state;
      if (absl::StartsWith(name, "(kiln-"))
        found.push_back({child, absl::StrCat(pid, " ", name, " ", state, " of ", of)});
      const std::vector<Helper> deeper = below ? Helpers(child) : std::vector<Helper>();
      found.insert(found.end(), deeper.begin(), deeper.end());
    }
  }
  closedir(tasks);
  return found;
}

std::string Text(const std::vector<Helper>& helpers) {
  return absl::StrJoin(helpers, ", ", [](std::string* out, const Helper& h) { *out += h.text; });
}

// Those that are there after that time.
std::string LeftAfter(int ms) {
  while (!Helpers().empty() && (ms -= 20) > 0) usleep(20'000);
  return Text(Helpers());
}

class HostTest : public testing::Test {
 public:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  CompileOptions Options(const std::string& cache) const {
    CompileOptions options;
    options.cache.directory = dir_.File(cache);
    options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
    options.threads = 1;
    return options;
  }

  // A kernel of its own for each number below 1,024: tanh for its ones, sin for its zeros.
  static absl::StatusOr<Graph> GraphOf(int number) {
    return ParseGraph(absl::StrCat("graph g\ninput x : f32 [n]\n", Chain(number, "x")));
  }
  static std::string Chain(int number, const std::string& input) {
    std::string text, last = input;
    for (int bit = 0; bit < 10; ++bit) {
      const std::string name = absl::StrCat(input, "_", bit);
      absl::StrAppend(&text, name, " = ", (number >> bit & 1) != 0 ? "tanh" : "sin", "(", last,
                      ")\n");
      last = name;
    }
    return absl::StrCat(text, "output ", last, "\n");
  }
  static Tensor Input() {
    Tensor x = Tensor::Allocate(DType::kF32, {50});
    for (int i = 0; i < 50; ++i) static_cast<float*>(x.data())[i] = static_cast<float>(i) / 16;
    return x;
  }
  static absl::StatusOr<Tensor> Answer(int number, const CompileOptions& options) {
    absl::StatusOr<Graph> graph = GraphOf(number);
    if (!graph.ok()) return graph.status();
    absl::StatusOr<Model> model = Compile(*std::move(graph), options);
    if (!model.ok()) return model.status();
    auto results = model->Run({{"x", Input()}});
    if (!results.ok()) return results.status();
    return std::move((*results)[0]);
  }
  static Tensor OnVm(int number) {
    CompileOptions options;
    options.cache.enabled = false;
    options.compile_mode = CompileMode::kNever;
    absl::StatusOr<Tensor> answer = Answer(number, options);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : Tensor();
  }
  static bool IsRight(int number, const CompileOptions& options) {
    const absl::StatusOr<Tensor> answer = Answer(number, options);
    return answer.ok() && CompareBits(*answer, OnVm(number)).ok;
  }

  const TempDir dir_;
};

TEST_F(HostTest, HelpersThatAreKilledAtRandomChangeNoAnswer) {
  const int builds = static_cast<int>(FromEnvironment("KILN_KILLED_BUILDS", 40));
  std::atomic<bool> stop{false};
  std::atomic<int> killed{0};
  absl::StatusOr<Thread> killer = Thread::Start([&] {
    std::minstd_rand random(11);
    while (!stop) {
      usleep(random() % 400'000);
      const std::vector<Helper> helpers = Helpers();
      if (helpers.empty()) continue;
      kill(helpers[random() % helpers.size()].pid, SIGKILL);
      ++killed;
    }
  });
  ASSERT_TRUE(killer.ok());
  CompileOptions options = Options("killed");
  options.cache.enabled = false;
  options.build_jobs = 2;  // with one thread and no number, each build would start a helper anew
  auto service = std::make_shared<KernelService>(options);
  options.kernels = service;
  // After one that was killed before its greeting no helper is started for a while.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto more = [&] {
    return service->counts().built == 0 && std::chrono::steady_clock::now() < limit;
  };
  for (int k = 1; k <= builds || more(); ++k) EXPECT_TRUE(IsRight(k, options)) << "build " << k;
  stop = true;
  killer->Join();
  const KernelCounts counts = service->counts();
  std::cout << killed << " killed, " << counts.built << " of " << counts.kernels << " built\n";
  EXPECT_GT(killed, 3);
  EXPECT_GT(counts.built, 0);
  options.kernels.reset();  // which builds again what failed
  service.reset();
  EXPECT_EQ(LeftAfter(3000), "");
}

// A server that compiles in the background and forks its workers meanwhile.
TEST_F(HostTest, ForkedChildrenBuildForThemselves) {
  CompileOptions options = Options("forked");
  options.compile_mode = CompileMode::kBackground;
  options.kernels = std::make_shared<KernelService>(options);
  std::vector<Model> models;
  for (int k = 1; k <= 4; ++k) {
    KILN_ASSERT_OK_AND_ASSIGN(Graph graph, GraphOf(k));
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(std::move(graph), options));
    models.push_back(std::move(model));
  }
  const auto all_right = [&] {
    for (int k = 1; k <= 4; ++k) {
      const auto results = models[static_cast<size_t>(k - 1)].Run({{"x", Input()}});
      if (!results.ok() || !CompareBits((*results)[0], OnVm(k)).ok) return false;
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(120);
      if (!all_right()) _exit(1);
      options.kernels->WaitForBuilds();
      const KernelCounts counts = options.kernels->counts();
      if (counts.vm != 0 || counts.built + counts.cached != counts.kernels) _exit(2);
      if (!all_right()) _exit(3);
      CompileOptions own = Options(absl::StrCat("child", child));
      if (!IsRight(100 + child, own)) _exit(4);
      models.clear();
      options.kernels.reset();
      _exit(LeftAfter(3000).empty() ? 0 : 5);
    }
    children.push_back(pid);
  }
  EXPECT_TRUE(all_right());
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  options.kernels->WaitForBuilds();
  EXPECT_TRUE(all_right());
  EXPECT_EQ(options.kernels->counts().vm, 0);
  EXPECT_EQ(LeftAfter(3000), "");
}

// What the environment says to another oneDNN of the host.
TEST_F(HostTest, VariablesOfOneDnnAreNotForOurs) {
  const std::string said = dir_.File("said");
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    for (const char* const name : {"DNNL_VERBOSE", "ONEDNN_VERBOSE"}) setenv(name, "2", 1);
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    if (std::freopen(said.c_str(), "w", stdout) == nullptr) _exit(1);
    const absl::StatusOr<Graph> graph = ParseGraph(
        "graph g\ninput x : f32 [100, 100]\ninput w : f32 [100, 100]\ny = matmul(x, w)\n"
        "output y\n");
    const absl::StatusOr<Model> model = Compile(*graph, Options("variables"));
    if (!model.ok()) _exit(2);
    const Tensor x = Tensor::Allocate(DType::kF32, {100, 100});
    std::memset(x.data(), 0, static_cast<size_t>(x.size_bytes()));
    if (!Model(*model).Run({{"x", x}, {"w", x}}).ok()) _exit(3);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::ifstream file(said);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "");
}

// As in_child.h, within this time.
int InChild(const std::function<int()>& work) { return kiln::InChild(work, 120); }

TEST_F(HostTest, AnUmaskOfTheHostIsNotThatOfTheCache) {
  const std::string home = dir_.File("home");
  ASSERT_EQ(mkdir(home.c_str(), 0700), 0);
  ASSERT_EQ(geteuid() == 0 ? chown(home.c_str(), 65'534, 65'534) : 0, 0);
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  for (const mode_t mask : {mode_t{0777}, mode_t{0}}) {
    EXPECT_EQ(InChild([&] {
                // Root may read what nobody may.
                if (geteuid() == 0 && setresuid(65'534, 65'534, 65'534) != 0) return 1;
                umask(mask);
                CompileOptions options = Options(absl::StrCat("home/cache", mask));
                for (int run = 0; run < 2; ++run) {
                  options.kernels = std::make_shared<KernelService>(options);
                  if (!IsRight(5, options)) return 2;
                  const KernelCounts counts = options.kernels->counts();
                  if (counts.vm != 0) return 3;
                  if ((run == 0 ? counts.built : counts.cached) != counts.kernels) return 4 + run;
                  options.kernels.reset();
                }
                return 0;
              }),
              0)
        << mask;
  }
}

TEST_F(HostTest, ARelativeCacheStaysWhereItWas) {
  EXPECT_EQ(InChild([&] {
              if (chdir(dir_.path().c_str()) != 0) return 1;
              CompileOptions options = Options("");
              options.cache.directory = "relative";
              options.kernels = std::make_shared<KernelService>(options);
              if (mkdir("elsewhere", 0700) != 0 || chdir("elsewhere") != 0) return 2;
              if (!IsRight(6, options)) return 3;
              options.kernels.reset();
              if (access("relative", F_OK) == 0) return 4;
              return access("../relative/v1", F_OK) == 0 ? 0 : 5;
            }),
            0);
}

// Cold: the files of the cache and those of helpers; warm: the memory files that code is loaded
// from.
TEST_F(HostTest, ALimitOfFilesIsNoSignal) {
  const auto run = [&](int number, rlim_t most, const char* cache) {
    return InChild([&] {
      if (!LimitFiles(most)) return 1;
      CompileOptions options = Options(cache);
      options.kernels = std::make_shared<KernelService>(options);
      if (!IsRight(number, options)) return 2;
      options.kernels->FinishValidations();
      const KernelCounts counts = options.kernels->counts();
      return counts.vm == 0 ? 0 : 10;
    });
  };
  for (const rlim_t most : {0, 100, 4096, 12'000}) {
    const int exit = run(8, most, "cold");
    EXPECT_TRUE(exit == 0 || exit == 10) << most << ": " << exit;
  }
  EXPECT_EQ(run(8, RLIM_INFINITY, "cold"), 0) << "the limit is remembered as a fault of the kernel";
  for (const rlim_t most : {0, 4096, 8192}) {
    const int exit = run(8, most, "cold");
    EXPECT_TRUE(exit == 0 || exit == 10) << most << ": " << exit;
  }
}

TEST_F(HostTest, ACallIsNotCancelled) {
  struct Shared {
    const HostTest* test;
    std::atomic<int> calls{0};
  } shared{this};
  for (int k = 0; k < 12; ++k) {
    pthread_t host;
    const auto call = [](void* data) -> void* {
      auto& state = *static_cast<Shared*>(data);
      for (int number = 16;; ++number) {
        CompileOptions options = state.test->Options("cancelled");
        options.compile_mode = number % 2 != 0 ? CompileMode::kNever : CompileMode::kBackground;
        if (IsRight(number % 4 + 16, options)) ++state.calls;
        pthread_testcancel();
      }
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&host, nullptr, call, &shared), 0);
    usleep(static_cast<useconds_t>(1000 + 7000 * k));
    pthread_cancel(host);
    void* result = nullptr;
    pthread_join(host, &result);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }
  EXPECT_GT(shared.calls, 0);
  EXPECT_TRUE(IsRight(17, Options("cancelled")));
}

// Its axes are an input: it is read once more when they are known.
TEST_F(HostTest, AModelStaysWhereItWas) {
  const std::string model =
      OnnxModel(17, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"y"})},
                              {OnnxValue("x", kFloat, {2, 3}), OnnxValue("axes", kInt64, {1})},
                              {OnnxValue("y", kFloat, {"a", "b"})}));
  std::ofstream(dir_.File("m.onnx"), std::ios::binary) << model;
  EXPECT_EQ(InChild([&] {
              if (chdir(dir_.path().c_str()) != 0) return 1;
              const absl::StatusOr<ModelSource> source = ModelSource::Read("m.onnx");
              if (!source.ok() || !source->needs_inputs()) return 2;
              if (chdir("/") != 0) return 3;
              Tensor axes = Tensor::Allocate(DType::kI64, {1});
              static_cast<int64_t*>(axes.data())[0] = 1;
              return source->For({{"axes", axes}}).ok() ? 0 : 4;
            }),
            0);
}

// Numbers with commas and dots of another country, in what we write and read.
TEST_F(HostTest, TheLocaleOfTheHostIsInNoText) {
  class Commas : public std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  constexpr char kText[] =
      "graph g\ninput x : f32 [n, 2000]\nconst c : f32 [1] = [1234.5]\nz = mul(x, c)\n"
      "y = reduce_sum(z) {axes = [1], keepdims = 1}\noutput y\n";
  const auto run = [&](bool cached) {
    CompileOptions options = Options("locale");
    options.kernels = std::make_shared<KernelService>(options);
    const absl::StatusOr<Graph> graph = ParseGraph(kText);
    if (!graph.ok() || Print(*graph).find("1234.5") == std::string::npos) return 1;
    absl::StatusOr<Model> model = Compile(*graph, options);
    if (!model.ok()) return 2;
    const KernelCounts counts = options.kernels->counts();
    if (counts.vm != 0 || counts.kernels == 0) return 3;
    return (cached ? counts.cached : counts.built) == counts.kernels ? 0 : 4;
  };
  EXPECT_EQ(InChild([&] {
              std::locale::global(std::locale(std::locale(), new Commas));
              setlocale(LC_ALL, "de_DE.UTF-8");  // where there is one
              return run(false);
            }),
            0);
  EXPECT_EQ(run(true), 0) << "the same keys";
}

TEST_F(HostTest, CallersMayHaveSmallStacks) {
  pthread_attr_t small;
  ASSERT_EQ(pthread_attr_init(&small), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&small, 128 << 10), 0);
  struct Call {
    const HostTest* test;
    bool right;

    // One kernel of a hundred nodes.
    bool IsLongRight() const {
      std::string text = "graph g\ninput x : f32 [n]\n", last = "x";
      for (int k = 0; k < 100; ++k) {
        const std::string name = absl::StrCat("v", k);
        absl::StrAppend(&text, name, " = ", k % 2 == 0 ? "tanh" : "sin", "(", last, ")\n");
        last = name;
      }
      const absl::StatusOr<Graph> graph = ParseGraph(absl::StrCat(text, "output ", last, "\n"));
      CompileOptions options = test->Options("stacks");
      options.threads = 0;
      return graph.ok() && Compile(*graph, options).ok();
    }
  } call = {this, false};
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &small,
                [](void* argument) -> void* {
                  Call& call = *static_cast<Call*>(argument);
                  call.right =
                      call.test->IsRight(7, call.test->Options("stacks")) && call.IsLongRight();
                  return nullptr;
                },
                &call),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
  EXPECT_TRUE(call.right);
}

// Of kernels that are built, validated or published none holds a descriptor for long.
TEST_F(HostTest, AHundredKernelsNeedFewDescriptors) {
  EXPECT_EQ(InChild([&] {
              const rlimit few = {64, 64};
              if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
              CompileOptions options = Options("descriptors");
              options.kernels = std::make_shared<KernelService>(options);
              std::string text = "graph g\n";
              for (int k = 0; k < 100; ++k)
                absl::StrAppend(&text, "input x", k, " : f32 [n", k, "]\n");
              for (int k = 0; k < 100; ++k) absl::StrAppend(&text, Chain(k, absl::StrCat("x", k)));
              const absl::StatusOr<Graph> graph = ParseGraph(text);
              if (!graph.ok()) return 2;
              if (!Compile(*graph, options).ok()) return 3;
              const KernelCounts counts = options.kernels->counts();
              if (counts.kernels < 100) return 4;
              if (counts.built != counts.kernels) return 5;
              return 0;
            }),
            0);
}

TEST_F(HostTest, IdleHelpersEnd) {
  CompileOptions options = Options("idle");
  options.build_jobs = 1;  // with one thread and no number, no thread could end them later
  options.kernels = std::make_shared<KernelService>(options);
  ASSERT_TRUE(IsRight(1, options));
  EXPECT_FALSE(Helpers().empty());
  EXPECT_EQ(LeftAfter(3500), "") << "though the service lives";
}

TEST_F(HostTest, BuildJobsIsTheMostAtOnce) {
  CompileOptions options = Options("jobs");
  options.build_jobs = 1;
  options.kernels = std::make_shared<KernelService>(options);
  std::atomic<bool> stop{false};
  std::vector<Helper> most;
  absl::StatusOr<Thread> watcher = Thread::Start([&] {
    while (!stop) {
      std::vector<Helper> helpers = Helpers(getpid(), /*below=*/false);
      if (helpers.size() > most.size()) most = std::move(helpers);
    }
  });
  ASSERT_TRUE(watcher.ok());
  std::atomic<int> right{0};
  ForEachInParallel(
      6, [&](size_t k) { right += IsRight(static_cast<int>(k), options) ? 1 : 0; }, 6);
  stop = true;
  watcher->Join();
  EXPECT_EQ(right, 6);
  EXPECT_LE(most.size(), 2u) << Text(most);
}

}  // namespace
}  // namespace kiln
