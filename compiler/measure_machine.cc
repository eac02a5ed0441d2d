// SPDX-License-Identifier: Apache-2.0
#include "compiler/measure_machine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/interleave.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/fill.h"
#include "exec/support/compute_device.h"
#include "fusion/legality.h"
#include "graph/text.h"
#include "schedule/analysis.h"
#include "schedule/device.h"

namespace kiln {
namespace {

constexpr double kSeconds = 0.05;  // for each kernel

double Now() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class MachineMeasurer {
 public:
  explicit MachineMeasurer(const CompileOptions& options) : options_(options) {
    options_.threads = 1;
    options_.graph_opt_level = 3;
  }

  absl::StatusOr<Machine> Run() {
    machine_ = ShippedMachine(TargetOf(options_));
    machine_.target = TargetOf(options_);
    ModelOf(machine_.target).probe(machine_);
    KILN_ASSIGN_OR_RETURN(machine_.launch_ns, Ns("input x : f32 [16]\ny = neg(x)\noutput y\n"));
    KILN_RETURN_IF_ERROR(Sets());
    KILN_RETURN_IF_ERROR(Arithmetic());
    KILN_RETURN_IF_ERROR(Places());
    // 2 * 512^3 operations.
    KILN_ASSIGN_OR_RETURN(const double product,
                          Ns("input x : f32 [512, 512]\ninput w : f32 [512, 512]\n"
                             "y = matmul(x, w)\noutput y\n"));
    machine_.gflops = 2.0 * 512 * 512 * 512 / product;
    return machine_;
  }

 private:
  absl::StatusOr<double> Ns(const std::string& body) {
    KILN_ASSIGN_OR_RETURN(const Graph graph, ParseGraph("graph probe\n" + body));
    return RunNs(graph, options_, kSeconds);
  }

  // Bandwidth by the bytes of the operands.
  absl::Status Sets() {
    machine_.sets.clear();
    for (int64_t bytes = 1 << 14; bytes <= (int64_t{1} << 28); bytes *= 4) {
      KILN_ASSIGN_OR_RETURN(const double ns, Ns(absl::StrCat("input x : f32 [", bytes / 8,
                                                             "]\ny = neg(x)\noutput y\n")));
      const double walked = std::max(ns - machine_.launch_ns, ns / 8);
      machine_.sets.push_back({bytes, static_cast<double>(bytes) / walked});
    }
    return absl::OkStatus();
  }

  // Chains of one operation over a set that fits the first cache.
  absl::Status Arithmetic() {
    struct Row {
      const char* ops;
      const char* type;
      int count;
      double Machine::*ns;
    };
    KILN_RETURN_IF_ERROR(Additions());
    constexpr Row kRows[] = {{"max", "f32", 12, &Machine::extreme_ns},
                             {"div", "f32", 12, &Machine::div_ns},
                             {"sqrt", "f32", 12, &Machine::sqrt_ns},
                             {"div", "i32", 4, &Machine::integer_div_ns}};
    for (const Row& row : kRows) {
      KILN_ASSIGN_OR_RETURN(const double few, Chain(row.ops, row.type, 2));
      KILN_ASSIGN_OR_RETURN(const double many, Chain(row.ops, row.type, 2 + row.count));
      machine_.*row.ns = std::max(1e-4, (many - few) / row.count / kChainElements);
    }
    return absl::OkStatus();
  }

  // Chains of additions and products side by side, which wait for nothing; and one as long as all
  // of them, for whose waits the distance that the processor looks ahead is solved.
  absl::Status Additions() {
    constexpr int kChains = 8, kLength = 8;
    KILN_ASSIGN_OR_RETURN(const double few, SideBySide(kChains, 1));
    KILN_ASSIGN_OR_RETURN(const double many, SideBySide(kChains, 1 + kLength));
    machine_.add_ns = std::max(1e-4, (many - few) / (kChains * kLength) / kChainElements);
    KILN_ASSIGN_OR_RETURN(const double start, Chain("add mul", "f32", 2));
    KILN_ASSIGN_OR_RETURN(const double chain, Chain("add mul", "f32", 2 + kChains * kLength));
    const double lanes = static_cast<double>(machine_.vector_bytes) / 4;
    const double vector_ns = (chain - start) / kChainElements * lanes;
    const double work_ns = kChains * kLength * machine_.add_ns * lanes;
    const double wait_ns = std::sqrt(std::max(1e-6, vector_ns * vector_ns - work_ns * work_ns));
    const double in_flight = kChains * kLength * machine_.latency_ns / wait_ns;
    constexpr double kVectors = 4;  // of a step
    machine_.window = std::clamp((in_flight - kVectors) * kChains * kLength, 32.0, 1024.0);
    return absl::OkStatus();
  }

  absl::StatusOr<double> SideBySide(int chains, int length) {
    std::string body = absl::StrCat("input x : f32 [", kChainElements, "]\n"), sum;
    for (int c = 0; c < chains; ++c) {
      absl::StrAppend(&body, "const k", c, " : f32 [] = 1.", c, "1\nc", c, "_0 = mul(x, k", c,
                      ")\n");
      for (int i = 0; i < length; ++i)
        absl::StrAppend(&body, "c", c, "_", i + 1, " = ", i % 2 == 0 ? "add" : "mul", "(c", c, "_",
                        i, ", x)\n");
      const std::string own = absl::StrCat("c", c, "_", length);
      if (c > 0) absl::StrAppend(&body, "t", c, " = add(", sum, ", ", own, ")\n");
      sum = c == 0 ? own : absl::StrCat("t", c);
    }
    return Ns(absl::StrCat(body, "output ", sum, "\n"));
  }

  absl::StatusOr<double> Chain(const std::string& ops, const std::string& type, int length) {
    std::string body = absl::StrCat("input v0 : ", type, " [", kChainElements,
                                    "]\ninput x : ", type, " [", kChainElements, "]\n");
    for (int i = 0; i < length; ++i) {
      const std::string op = ops == "add mul" ? (i % 2 == 0 ? "add" : "mul") : ops;
      absl::StrAppend(&body, "v", i + 1, " = ", op, "(v", i, op == "sqrt" ? ")\n" : ", x)\n");
    }
    return Ns(absl::StrCat(body, "output v", length, "\n"));
  }

  // What the machine so far says of a graph that is one kernel.
  absl::StatusOr<double> Priced(const std::string& body) {
    KILN_ASSIGN_OR_RETURN(const Graph graph, ParseGraph("graph probe\n" + body));
    KILN_ASSIGN_OR_RETURN(const Compiled compiled, CompileGraph(graph, options_));
    KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered,
                          LowerGroup(compiled.graph, compiled.grouping.groups.front()));
    return EstimatedPrice(lowered, machine_).ns;
  }

  // The rest of what kernels cost that take elements from elsewhere, or have short rows.
  absl::Status Places() {
    struct Row {
      const char* body;
      double count;
      double Machine::*ns;
    };
    constexpr Row kRows[] = {
        {"input x : f32 [2048, 64]\ny = reduce_sum(x) {axes = [1], keepdims = 1}\noutput y\n", 2048,
         &Machine::loop_ns},
        {"input x : f32 [64, 1024]\ninput i : i64 [64, 1024]\n"
         "y = gather_elements(x, i) {axis = 1}\noutput y\n",
         64 * 1024, &Machine::gather_ns}};
    for (const Row& row : kRows) {
      machine_.*row.ns = 0;
      KILN_ASSIGN_OR_RETURN(const double priced, Priced(row.body));
      KILN_ASSIGN_OR_RETURN(const double ns, Ns(row.body));
      machine_.*row.ns = std::max(1e-3, (ns - priced) / row.count);
    }
    KILN_RETURN_IF_ERROR(Transposes());
    return Masks();
  }

  // A matrix that the second-level cache holds, transposed and as it is.
  absl::Status Transposes() {
    const std::string x = "input x : f32 [256, 256]\n";
    KILN_ASSIGN_OR_RETURN(const double ns, Ns(x + "y = transpose(x) {perm = [1, 0]}\noutput y\n"));
    KILN_ASSIGN_OR_RETURN(const double plain, Ns(x + "y = neg(x)\noutput y\n"));
    machine_.transpose_ns = std::max(1e-3, (ns - plain) / (256 * 256));
    return absl::OkStatus();
  }

  // Rows that lack half a vector of a step, and whole ones.
  absl::Status Masks() {
    constexpr int kRowCount = 256;
    const auto rows = [&](int64_t columns) {
      return Ns(absl::StrCat("input x : f32 [", kRowCount, ", ", 2 * columns,
                             "]\ns = slice(x) {axes = [1], ", "starts = [0], ends = [", columns,
                             "]}\ny = neg(s)\noutput y\n"));
    };
    const int64_t lanes = machine_.vector_bytes / int64_t{sizeof(float)};
    KILN_ASSIGN_OR_RETURN(const double masked, rows(kMostVectors * lanes - lanes / 2));
    KILN_ASSIGN_OR_RETURN(const double whole, rows(kMostVectors * lanes));
    machine_.mask_ns = std::max(1e-3, (masked - whole) / kRowCount / kMostVectors);
    return absl::OkStatus();
  }

  static constexpr int kChainElements = 2048;

  CompileOptions options_;
  Machine machine_;
};

}  // namespace

absl::StatusOr<Machine> MeasureDevice(ComputeDevice& device) {
  KILN_ASSIGN_OR_RETURN(const DeviceSpeed speed, device.Measure());
  const DeviceFacts& facts = device.facts();
  Machine machine = ShippedMachine(device.target());
  machine.target = device.target();
  machine.gpu.multiprocessors = facts.multiprocessors;
  machine.gpu.clock_ghz = facts.clock_ghz;
  machine.gpu.registers = static_cast<double>(facts.registers);
  machine.gpu.shared_bytes = static_cast<double>(facts.shared_bytes);
  machine.gpu.threads = static_cast<double>(facts.threads);
  machine.launch_ns = speed.launch_ns;
  // What is twice as large as the cache is in memory, as what was measured.
  const int64_t beyond = std::min(2 * facts.cache_bytes, speed.memory_set_bytes);
  machine.sets = {{std::min(speed.cache_set_bytes, beyond - 1), speed.cache_gb_s},
                  {beyond, speed.memory_gb_s}};
  return machine;
}

absl::StatusOr<double> RunNs(const Graph& graph, const CompileOptions& options, double seconds) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  Context context = model.NewContext();
  std::vector<Tensor> held;
  const auto allocate = [&](const PortInfo& port) -> absl::StatusOr<Tensor> {
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Evaluate(port.shape, {}));
    held.push_back(Tensor::Allocate(port.type, shape));
    FillNearOne(held.back());
    return held.back();
  };
  for (const PortInfo& port : model.inputs()) {
    KILN_ASSIGN_OR_RETURN(const Tensor tensor, allocate(port));
    KILN_RETURN_IF_ERROR(context.Bind(port.name, tensor));
  }
  for (const PortInfo& port : model.outputs()) {
    KILN_ASSIGN_OR_RETURN(const Tensor tensor, allocate(port));
    KILN_RETURN_IF_ERROR(context.BindOutput(port.name, tensor));
  }
  KILN_RETURN_IF_ERROR(context.Run());
  if (context.report().vm_launches > 0) {
    return absl::FailedPreconditionError(
        "kernels: they run on the block VM; kiln-codegen is needed to measure compiled ones");
  }
  absl::Status failed;
  const auto run = [&](size_t, size_t) { return failed = context.Run(); };
  double least = INFINITY;
  const double end = Now() + seconds * 1e9;
  do {
    least = std::min(least, LeastNs({0}, 0, 3, run)[0]);
    KILN_RETURN_IF_ERROR(failed);
  } while (Now() < end);
  return least;
}

absl::StatusOr<Machine> MeasureMachine(const CompileOptions& options) {
  return MachineMeasurer(options).Run();
}

}  // namespace kiln
