// SPDX-License-Identifier: Apache-2.0
// Training steps of the networks that bench/training/files.py writes.
//
//   kiln-bench-training gradients FOLDER NAME f64 OUT.safetensors   loss and gradients; f64: by the
//                                                interpreter, f32: compiled
//   kiln-bench-training curve FOLDER NAME f32 300   the loss before each of 300 steps
//   kiln-bench-training graph FOLDER NAME        the step as .graph text, for `kiln explain`
//   kiln-bench-training profile FOLDER NAME LEVEL THREADS    ms of each launch, the longest first
//   kiln-bench-training serve LEVEL THREADS      answers requests (tools/requests.h); a load has
//                                                {"folder", "name"}
//
// Kernels are cached as for all programs (KILN_CACHE_DIR). All but `graph` print JSON.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/safetensors.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "nlohmann/json.hpp"
#include "tests/training/network.h"
#include "tools/requests.h"

namespace kiln::training {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

absl::StatusOr<DType> FloatType(const std::string& word) {
  if (word == "f32") return DType::kF32;
  if (word == "f64") return DType::kF64;
  return absl::InvalidArgumentError(absl::StrCat("type \"", word, "\": not f32, f64"));
}

CompileOptions Options(const std::string& level, const std::string& threads) {
  CompileOptions options;
  options.graph_opt_level = std::stoi(level);
  options.jit_level = options.graph_opt_level == 0 ? 0 : 2;
  options.threads = std::stoi(threads);
  return options;
}

// A step that is ready to run.
struct Run {
  Network network;
  NetworkStep step;
  Model model;
  std::unique_ptr<Context> context;
  std::vector<Tensor> bound;
};

absl::StatusOr<Run> Load(const std::string& folder, const std::string& name, DType type,
                         CompileOptions options) {
  Run run;
  KILN_ASSIGN_OR_RETURN(run.network, ReadNetwork(folder, name, type));
  KILN_ASSIGN_OR_RETURN(run.step, TrainingStep(run.network));
  options.states = run.step.states;
  KILN_ASSIGN_OR_RETURN(run.model, Compile(run.step.graph, options));
  run.context = std::make_unique<Context>(run.model.NewContext());
  KILN_RETURN_IF_ERROR(BeginTraining(run.network, run.step, *run.context, run.bound));
  return run;
}

absl::StatusOr<double> Step(Run& run) {
  KILN_RETURN_IF_ERROR(run.context->Run());
  KILN_ASSIGN_OR_RETURN(const Tensor loss, run.context->Output("loss"));
  return ReadFloat(loss, 0);
}

absl::StatusOr<json> WriteGradients(const std::string& folder, const std::string& name, DType type,
                                    const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const Network network, ReadNetwork(folder, name, type));
  KILN_ASSIGN_OR_RETURN(const Graph graph, GradientGraph(network));
  std::vector<Tensor> inputs, outputs;
  for (size_t k = 0; k < network.ports.size(); ++k) inputs.push_back(SeededValue(network, k));
  if (type == DType::kF64) {
    KILN_ASSIGN_OR_RETURN(outputs, Interpret(graph, inputs));
  } else {
    KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, Options("3", "1")));
    NamedTensors named;
    for (size_t k = 0; k < inputs.size(); ++k) named.emplace_back(network.ports[k].name, inputs[k]);
    KILN_ASSIGN_OR_RETURN(outputs, model.Run(named));
  }
  std::map<std::string, Tensor> tensors;
  for (size_t k = 0; k < outputs.size(); ++k) tensors[graph.outputs()[k].name] = outputs[k];
  KILN_RETURN_IF_ERROR(WriteSafetensors(RealFileSystem(), path, tensors));
  return json{{"tensors", outputs.size()}};
}

absl::StatusOr<json> Curve(const std::string& folder, const std::string& name, DType type,
                           int steps) {
  KILN_ASSIGN_OR_RETURN(Run run, Load(folder, name, type, Options("3", "1")));
  json losses = json::array();
  for (int step = 0; step < steps; ++step) {
    KILN_ASSIGN_OR_RETURN(const double loss, Step(run));
    losses.push_back(loss);
  }
  return json{{"losses", losses}};
}

absl::StatusOr<json> Profile(const std::string& folder, const std::string& name,
                             const std::string& level, const std::string& threads) {
  KILN_ASSIGN_OR_RETURN(Run run, Load(folder, name, DType::kF32, Options(level, threads)));
  for (int warm = 0; warm < 2; ++warm) KILN_RETURN_IF_ERROR(Step(run).status());
  KILN_ASSIGN_OR_RETURN(std::vector<ThunkTime> times, run.context->Profile());
  std::stable_sort(times.begin(), times.end(),
                   [](const ThunkTime& a, const ThunkTime& b) { return a.ms > b.ms; });
  const PlanReport report = run.context->report();
  json launches = json::array();
  double all = 0;
  for (const ThunkTime& time : times) {
    all += time.ms;
    launches.push_back({{"ms", time.ms},
                        {"kind", time.kind},
                        {"name", time.name},
                        {"bytes", time.bytes},
                        {"vm", time.vm}});
  }
  return json{{"ms", all},
              {"arena", report.arena},
              {"kernels", report.kernel_launches},
              {"library", report.library_launches},
              {"other", report.other_launches},
              {"launches", launches}};
}

void ServeSteps(const CompileOptions& options) {
  Run run;
  const auto load = [&](const json& request) -> absl::StatusOr<json> {
    const Clock::time_point start = Clock::now();
    run = {};
    KILN_ASSIGN_OR_RETURN(
        run, Load(request.value("folder", ""), request.value("name", ""), DType::kF32, options));
    KILN_ASSIGN_OR_RETURN(const double loss, Step(run));
    const std::chrono::duration<double, std::milli> ms = Clock::now() - start;
    return json{{"load_ms", ms.count()}, {"loss", loss}};
  };
  AnswerRequests({load, [&] { return Step(run).status(); }});
}

absl::StatusOr<std::string> Do(const std::vector<std::string>& words) {
  const auto is = [&](const char* verb, size_t count) {
    return words.size() == count && words[0] == verb;
  };
  if (is("graph", 3)) {
    KILN_ASSIGN_OR_RETURN(const Network network, ReadNetwork(words[1], words[2]));
    KILN_ASSIGN_OR_RETURN(const NetworkStep step, TrainingStep(network));
    return Print(step.graph);
  }
  absl::StatusOr<json> answer = absl::InvalidArgumentError("see bench/training/main.cc");
  if (is("gradients", 5)) {
    KILN_ASSIGN_OR_RETURN(const DType type, FloatType(words[3]));
    answer = WriteGradients(words[1], words[2], type, words[4]);
  } else if (is("curve", 5)) {
    KILN_ASSIGN_OR_RETURN(const DType type, FloatType(words[3]));
    answer = Curve(words[1], words[2], type, std::stoi(words[4]));
  } else if (is("profile", 5)) {
    answer = Profile(words[1], words[2], words[3], words[4]);
  }
  if (!answer.ok()) return answer.status();
  return answer->dump() + "\n";
}

}  // namespace
}  // namespace kiln::training

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "serve") {
    kiln::training::ServeSteps(kiln::training::Options(words[1], words[2]));
    return 0;
  }
  const absl::StatusOr<std::string> text = kiln::training::Do(words);
  if (!text.ok()) {
    std::cerr << "kiln-bench-training: " << text.status().message() << "\n";
    return 1;
  }
  std::cout << *text;
}
