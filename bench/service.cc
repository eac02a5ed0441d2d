// SPDX-License-Identifier: Apache-2.0
// What models cost inside a program that serves: memory of each further model, processor time when
// idle, throughput of several callers, and the time of a known shape while another is compiled.
//
//   build/release/bin/kiln-bench-service models MODEL.onnx 8      each further model of the file
//   build/release/bin/kiln-bench-service idle MODEL.onnx 1000     with this spin time, in us
//   build/release/bin/kiln-bench-service callers MODEL.onnx 4     against one caller
//   build/release/bin/kiln-bench-service shapes MODEL.onnx dim 1 2 3 ...  bytes after each
//
// Prints one JSON object. Inputs are zeros; open dims are 1.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
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

// KiB of the process: its own pages, and its part of those that others have too.
int64_t PssKib() {
  std::ifstream in("/proc/self/smaps_rollup");
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
  Json result;
  if (what == "models") result = Models(path, std::atoi(arguments[2].c_str()));
  if (what == "idle") result = Idle(path, std::atoll(arguments[2].c_str()));
  if (what == "callers") result = Callers(path, std::atoi(arguments[2].c_str()));
  if (what == "shapes") {
    std::vector<int64_t> extents;
    for (size_t i = 3; i < arguments.size(); ++i)
      extents.push_back(std::atoll(arguments[i].c_str()));
    result = Shapes(path, arguments[2], extents);
  }
  if (result.is_null()) Fail("\"" + what + "\": is none of models, idle, callers, shapes");
  std::cout << Json{{what, result}}.dump() << "\n";
}
