// SPDX-License-Identifier: Apache-2.0
// What models cost inside a program that serves: memory of each further model, processor time when
// idle, throughput of several callers, and the time of a known shape while another is compiled.
//
//   build/release/bin/kiln-bench-service models MODEL.onnx 8      each further model of the file
//   build/release/bin/kiln-bench-service idle MODEL.onnx 1000     with this spin time, in us
//   build/release/bin/kiln-bench-service callers MODEL.onnx 4     against one caller
//   build/release/bin/kiln-bench-service shapes MODEL.onnx dim 1 2 3 ...  bytes after each
//   build/release/bin/kiln-bench-service processes MODEL.onnx 8   each further process with it
//   build/release/bin/kiln-bench-service beside MODEL.onnx OTHER.onnx   while that is compiled
//
// Prints one JSON object. Inputs are zeros; open dims are 1.
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "kiln/compile.h"
#include "kiln/runtime.h"
#include "nlohmann/json.hpp"
#include "tests/base/threads_of_process.h"

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "kiln-bench-service: " << what << "\n";
  std::exit(1);
}

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// KiB of a process: its own pages, and its part of those that others have too.
int64_t PssKib(const std::string& process = "self") {
  std::ifstream in("/proc/" + process + "/smaps_rollup");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("Pss:", 0) == 0) return std::atoll(line.c_str() + 4);
  return 0;
}

// KiB that malloc has given out.
int64_t HeapKib() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd) / 1024;
}

kiln::NamedTensors Inputs(const kiln::Model& model,
                          const std::map<std::string, int64_t>& dims = {}) {
  kiln::NamedTensors inputs;
  for (const kiln::PortInfo& port : model.inputs()) {
    std::vector<int64_t> shape;
    for (const kiln::Dim& dim : port.shape) {
      const auto named = dims.find(dim.ToString());
      shape.push_back(named != dims.end() ? named->second : dim.constant().value_or(1));
    }
    kiln::Tensor tensor = kiln::Tensor::Allocate(port.type, shape);
    std::memset(tensor.data(), 0, static_cast<size_t>(tensor.size_bytes()));
    inputs.emplace_back(port.name, std::move(tensor));
  }
  return inputs;
}

kiln::Model Open(const std::string& path, const kiln::CompileOptions& options) {
  auto model = kiln::Compile(path, options);
  if (!model.ok()) Fail(std::string(model.status().message()));
  return *std::move(model);
}

void Run(kiln::Model& model, const kiln::NamedTensors& inputs) {
  const auto outputs = model.Run(inputs);
  if (!outputs.ok()) Fail(std::string(outputs.status().message()));
}

Json Report(const kiln::Model& model) {
  const kiln::MemoryReport r = model.memory();
  return {{"constants", r.constants},   {"arenas", r.arenas},        {"copies", r.copies},
          {"outputs", r.outputs},       {"states", r.states},        {"plans", r.plans},
          {"plan_bytes", r.plan_bytes}, {"idle_bytes", r.idle_bytes}};
}

Json Models(const std::string& path, int count) {
  kiln::CompileOptions options;
  std::vector<kiln::Model> models;
  std::vector<int64_t> pss, heap;
  for (int i = 0; i < count; ++i) {
    models.push_back(Open(path, options));
    Run(models.back(), Inputs(models.back()));
    pss.push_back(PssKib());
    heap.push_back(HeapKib());
  }
  Json result = {{"pss_kib", pss}, {"heap_kib", heap}, {"memory", Report(models.back())}};
  if (count > 1)
    result["each_further_kib"] = static_cast<double>(pss.back() - pss.front()) / (count - 1);
  return result;
}

// A process that has run the model, and stays until its input ends.
void Hold(const std::string& path) {
  kiln::Model model = Open(path, {});
  for (int i = 0; i < 2; ++i) Run(model, Inputs(model));
  std::cout << "ready" << std::endl;
  while (std::cin.get() != EOF) continue;
}

// The sum of all processes' pages after each that has started: pages that several have count once.
Json Processes(const std::string& path, int count) {
  struct Child {
    pid_t pid;
    int input;
  };
  std::vector<Child> children;
  std::vector<int64_t> sums;
  for (int i = 0; i < count; ++i) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) Fail("no pipe");
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execl("/proc/self/exe", "kiln-bench-service", "hold", path.c_str(), "0", nullptr);
      _exit(1);
    }
    close(in[0]);
    close(out[1]);
    char ready = 0;
    if (read(out[0], &ready, 1) != 1) Fail("a process of \"hold\" ended");
    close(out[0]);
    children.push_back({pid, in[1]});
    usleep(500'000);  // what is kept for later is written
    int64_t sum = 0;
    for (const Child& child : children) sum += PssKib(std::to_string(child.pid));
    sums.push_back(sum);
  }
  for (const Child& child : children) {
    close(child.input);
    waitpid(child.pid, nullptr, 0);
  }
  Json result = {{"pss_kib", sums}};
  if (count > 1)
    result["each_further_kib"] = static_cast<double>(sums.back() - sums.front()) / (count - 1);
  return result;
}

// Times of runs, in ms, until `stop`.
std::vector<double> TimesUntil(kiln::Model& model, const std::function<bool()>& stop) {
  kiln::Context context = model.NewContext();
  for (auto& [name, tensor] : Inputs(model))
    if (!context.Bind(name, tensor).ok()) Fail("bind");
  std::vector<double> times;
  while (!stop()) {
    const auto start = Clock::now();
    if (!context.Run().ok()) Fail("run");
    times.push_back(1e3 * Seconds(Clock::now() - start));
  }
  std::sort(times.begin(), times.end());
  return times;
}

Json Quantiles(const std::vector<double>& times) {
  if (times.empty()) return nullptr;
  const auto at = [&](double q) {
    return times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))];
  };
  return {{"runs", times.size()}, {"p50_ms", at(0.5)}, {"p99_ms", at(0.99)}, {"max_ms", at(1)}};
}

// Runs of a model while another one is compiled from an empty cache in the same runtime, over and
// over for some seconds.
Json Beside(const std::string& path, const std::string& other) {
  kiln::CompileOptions options;
  options.threads = 1;
  kiln::Model model = Open(path, options);
  const auto seconds = [](int count) {
    return [end = Clock::now() + std::chrono::seconds(count)] { return Clock::now() >= end; };
  };
  TimesUntil(model, seconds(1));
  const std::vector<double> alone = TimesUntil(model, seconds(4));
  std::atomic<bool> done{false};
  int compiled = 0;
  const auto start = Clock::now();
  std::thread compiling([&] {
    setpriority(PRIO_PROCESS, 0, 19);  // of this thread, and of the helpers that it starts
    for (; Clock::now() - start < std::chrono::seconds(4); ++compiled) {
      const std::filesystem::path cache =
          std::filesystem::temp_directory_path() / ("kiln-beside-" + std::to_string(getpid()));
      kiln::CompileOptions cold;
      cold.cache.directory = cache.string();
      cold.threads = 1;
      Open(other, cold);
      std::filesystem::remove_all(cache);
    }
    done = true;
  });
  const std::vector<double> beside = TimesUntil(model, [&] { return done.load(); });
  compiling.join();
  return {{"alone", Quantiles(alone)}, {"beside", Quantiles(beside)}, {"compiled", compiled}};
}

Json Idle(const std::string& path, int64_t spin_us) {
  kiln::RuntimeOptions shared;
  shared.spin_time = std::chrono::microseconds(spin_us);
  kiln::CompileOptions options;
  options.runtime = *kiln::Runtime::Create(shared);
  kiln::Model model = Open(path, options);
  const kiln::NamedTensors inputs = Inputs(model);
  for (int i = 0; i < 5; ++i) Run(model, inputs);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // what is kept for later is written
  Run(model, inputs);
  const std::clock_t start = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  const int runnable = kiln::RunnableThreads();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {
      {"threads", model.threads()}, {"spin_us", spin_us}, {"cpu_ms", ms}, {"runnable", runnable}};
}

// Runs a second in `callers` threads.
double Throughput(kiln::Model& model, int callers) {
  const kiln::NamedTensors inputs = Inputs(model);
  std::atomic<int64_t> runs{0};
  const auto start = Clock::now();
  const auto end = start + std::chrono::seconds(3);
  std::vector<std::thread> threads;
  for (int c = 0; c < callers; ++c) {
    threads.emplace_back([&] {
      for (; Clock::now() < end; ++runs) Run(model, inputs);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(runs) / Seconds(Clock::now() - start);
}

Json Callers(const std::string& path, int callers) {
  kiln::Model model = Open(path, {});
  Throughput(model, callers);
  Json ratios = Json::array();
  for (int round = 0; round < 3; ++round) {
    const double one = Throughput(model, 1);
    ratios.push_back(Throughput(model, callers) / one);
  }
  return {{"callers", callers}, {"against_one", ratios}};
}

Json Shapes(const std::string& path, const std::string& dim, const std::vector<int64_t>& extents) {
  kiln::Model model = Open(path, {});
  Json rows = Json::array();
  for (const int64_t extent : extents) {
    Run(model, Inputs(model, {{dim, extent}}));
    rows.push_back({{"extent", extent}, {"pss_kib", PssKib()}, {"memory", Report(model)}});
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 3) Fail("give a measurement, a model and a number; see bench/service.cc");
  const std::string &what = arguments[0], &path = arguments[1];
  if (what == "hold") return Hold(path), 0;
  Json result;
  if (what == "processes") result = Processes(path, std::atoi(arguments[2].c_str()));
  if (what == "beside") result = Beside(path, arguments[2]);
  if (what == "models") result = Models(path, std::atoi(arguments[2].c_str()));
  if (what == "idle") result = Idle(path, std::atoll(arguments[2].c_str()));
  if (what == "callers") result = Callers(path, std::atoi(arguments[2].c_str()));
  if (what == "shapes") {
    std::vector<int64_t> extents;
    for (size_t i = 3; i < arguments.size(); ++i)
      extents.push_back(std::atoll(arguments[i].c_str()));
    result = Shapes(path, arguments[2], extents);
  }
  if (result.is_null())
    Fail("\"" + what + "\": is none of models, idle, callers, shapes, processes, beside");
  std::cout << Json{{what, result}}.dump() << "\n";
}
