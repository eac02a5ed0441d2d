// SPDX-License-Identifier: Apache-2.0
// Says what type files are, with magika's trained network on Kiln, at -O0 and at -O3, and what that
// cost.
//   magika_demo MODEL.onnx RULES_DIRECTORY FILE...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "examples/magika/file_type.h"
#include "kiln/model.h"

namespace kiln::magika {
namespace {

using Clock = std::chrono::steady_clock;
double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The bytes of a file, which may be a link.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return absl::NotFoundError(absl::StrCat("\"", path, "\": cannot be read"));
  return bytes;
}

// A model at one optimisation level, and its figures.
struct Level {
  int level = 0;
  std::unique_ptr<Context> context;
  std::shared_ptr<KernelService> kernels;
  double first_ms = 0;  // from the file to the first result: compiling, or fetching, and one run
  std::vector<double> ms;
};

absl::StatusOr<Level> Start(const std::string& path, int level, const Tensor& input) {
  CompileOptions options;
  options.graph_opt_level = level;
  options.kernels = std::make_shared<KernelService>(options);
  Level out;
  out.level = level;
  out.kernels = options.kernels;
  const Clock::time_point start = Clock::now();
  KILN_ASSIGN_OR_RETURN(Model model, Compile(path, options));
  out.context = std::make_unique<Context>(model.NewContext());
  KILN_RETURN_IF_ERROR(out.context->Bind("bytes", input));
  KILN_RETURN_IF_ERROR(out.context->Run());
  out.first_ms = MsSince(start);
  return out;
}

absl::Status Measure(std::vector<Level>& levels) {
  for (int i = 0; i < 20; ++i) {
    for (Level& level : levels) {
      const Clock::time_point start = Clock::now();
      KILN_RETURN_IF_ERROR(level.context->Run());
      level.ms.push_back(MsSince(start));
    }
  }
  for (Level& level : levels) std::sort(level.ms.begin(), level.ms.end());
  return absl::OkStatus();
}

void PrintTable(const std::vector<Level>& levels) {
  std::printf("\n%-6s %7s %7s %7s %7s  %-18s %11s %10s %10s\n", "level", "kernels", "built",
              "cached", "on VM", "launches", "arena KiB", "first ms", "steady ms");
  int built = 0;
  for (const Level& level : levels) {
    const KernelCounts counts = level.kernels->counts();
    const PlanReport& plan = level.context->report();
    built += counts.built;
    const std::string launches = std::to_string(plan.kernel_launches) + " kernel, " +
                                 std::to_string(plan.library_launches) + " lib";
    std::printf("-O%-4d %7d %7d %7d %7d  %-18s %11.0f %10.1f %10.2f\n", level.level, counts.kernels,
                counts.built, counts.cached, counts.vm, launches.c_str(),
                static_cast<double>(plan.arena) / 1024, level.first_ms, level.ms.front());
  }
  std::printf("\n-O3 is %.2f times as fast as -O0.\n", levels[0].ms.front() / levels[1].ms.front());
  std::printf(built == 0 ? "No kernel was built: all came from the cache.\n"
                         : "%d kernels were built and are in the cache now.\n",
              built);
}

absl::Status Run(const std::string& model, const std::string& directory,
                 const std::vector<std::string>& paths) {
  KILN_ASSIGN_OR_RETURN(const Rules rules, Rules::Read(directory));
  std::vector<Answer> answers;
  std::vector<size_t> asked;
  std::vector<int32_t> features;
  for (const std::string& path : paths) {
    KILN_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
    const Features extracted = Extract(bytes);
    if (!extracted.values.empty()) asked.push_back(answers.size());
    features.insert(features.end(), extracted.values.begin(), extracted.values.end());
    answers.push_back(extracted.answer);
  }
  std::vector<Level> levels;
  if (!asked.empty()) {
    const Tensor input =
        Tensor::View(features.data(), DType::kI32, {static_cast<int64_t>(asked.size()), kFeatures});
    for (const int level : {0, 3}) {
      KILN_ASSIGN_OR_RETURN(Level started, Start(model, level, input));
      levels.push_back(std::move(started));
    }
    KILN_RETURN_IF_ERROR(Measure(levels));
    KILN_ASSIGN_OR_RETURN(const Tensor output, levels.back().context->Output("target_label"));
    const float* const rows = static_cast<const float*>(output.data());
    for (size_t k = 0; k < asked.size(); ++k)
      answers[asked[k]] = rules.Decide(rows + k * static_cast<size_t>(rules.num_labels()));
  }
  for (size_t k = 0; k < paths.size(); ++k) {
    std::printf("%-48s %-12s %.4f\n", paths[k].c_str(), answers[k].label.c_str(), answers[k].score);
  }
  if (!levels.empty()) PrintTable(levels);
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln::magika

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: magika_demo MODEL.onnx RULES_DIRECTORY FILE...\n");
    return 2;
  }
  const absl::Status done =
      kiln::magika::Run(argv[1], argv[2], std::vector<std::string>(argv + 3, argv + argc));
  if (done.ok()) return 0;
  std::fprintf(stderr, "magika_demo: %s\n", std::string(done.message()).c_str());
  return 1;
}
