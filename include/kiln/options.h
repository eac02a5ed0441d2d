// SPDX-License-Identifier: Apache-2.0
// What a user can choose about compiling a model.
#ifndef KILN_OPTIONS_H_
#define KILN_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kiln/dim.h"
#include "kiln/model.h"
#include "kiln/runtime.h"
#include "kiln/target.h"

namespace kiln {

// Inside Kiln; options only pass them on.
class KernelService;  // compiler/kernel_service.h
class Schedule;
class Tuner;      // compiler/tuner.h
struct CustomOp;  // graph/custom_op.h
struct Kernel;
struct Machine;  // schedule/machine.h
struct SizeClass;
enum class FusionRules : int;  // fusion/group.h

// When kernels are compiled.
enum class CompileMode : int {
  kBlock,       // before the first run
  kBackground,  // while the model runs on the VM
  kNever,       // not at all: everything stays on the VM
};

enum class MathMode : int { kStrict, kFast };

// How schedules and implementations of library operators are chosen (compiler/tuner.h).
enum class ScheduleChoice : int {
  kHeuristic,     // by what was measured on this machine, where something was; else by price
  kProfile,       // what was not measured yet is measured, and remembered in the cache
  kReproducible,  // by price alone, whatever was measured
};

// Whether models for a GPU have calls of NVIDIA's libraries, cuBLASLt and cuDNN, for matmul, conv
// and pools. Kernels have the same bits everywhere; those calls are right within a tolerance, and
// the libraries must be there where the model runs.
enum class DeviceLibrary : int {
  kFound,   // of those found for the runtime's device when the model is compiled; else kernels
  kAlways,  // whatever is here, as for a package that other machines run
  kNever,   // kernels alone
};

// External data of a model that is reached through symbolic links, or has several names (hard
// links).
enum class ExternalDataLinks : int {
  kRefuse,  // a model from anywhere reads nothing outside of its folder
  // For folders that somebody trusted has made, as the caches of hubs are: a snapshot's files are
  // links to blobs. The model can still name only what is in its folder, and only regular files are
  // opened.
  kFollow,
};

// One stage of compilation as text, for those who want to look: "graph", "groups", "kernel",
// "ir", "stmt", "asm", "plan".
using DumpFn =
    std::function<void(const std::string& stage, const std::string& name, const std::string& text)>;

// And how the model runs: RunOptions.
struct CompileOptions : RunOptions {
  int graph_opt_level = 3;  // 0..3: see kiln opt --list-passes
  int jit_level = 2;        // 0 no fusion, 1 element-wise groups, 2 and reductions
  MathMode math = MathMode::kStrict;
  CompileMode compile_mode = CompileMode::kBlock;
  CacheOptions cache;
  std::string codegen;  // path of kiln-codegen; empty: looked for, docs/server.md
  // Path of kiln-validate, which runs compiled kernels on probes and compares every bit with the VM
  // before they are used; empty: looked for, docs/server.md.
  std::string validator;
  std::string prover;  // the older name of `validator`, for programs that set it; else empty
  std::optional<Target> target;  // what the code is made for; nothing: this machine
  int build_jobs = 0;  // kernels built at once, up to 1024; 0: as many as base/processors.h counts
  uint32_t kernel_timeout_ms = 30'000;  // for building one kernel
  // Of processor time for that; a kernel that needs more stays on the VM. Groups are kept so small
  // that a fast machine needs less than a second; a slow one may take longer. 0: no limit.
  uint32_t kernel_cpu_ms = 4'000;
  // Bytes that all constant tensors of a model file may have together, external data included; one
  // that has more is refused, whatever the cache has of it. Weights are mapped where they lie, and
  // take memory where passes or library operators make others of them.
  int64_t max_weight_bytes = int64_t{4} << 30;
  // The model file itself may always be a link; external data are looked for in the folder of the
  // path given, not of what it leads to.
  ExternalDataLinks external_data_links = ExternalDataLinks::kRefuse;
  // Names of constants that Model::Update may replace: they are not folded into others or packed,
  // and read as inputs are, which costs speed. kInvalidArgument: the model has none of that name.
  std::vector<std::string> updatable;
  // Inputs that always have these shapes: their symbols are numbers before all passes. Other shapes
  // are errors, as of an input that is declared so.
  NamedShapes const_shapes;
  DeviceLibrary device_library = DeviceLibrary::kFound;
  std::vector<std::string> disabled_passes;
  FusionRules fusion_rules{};        // kPriced
  std::vector<std::string> no_fuse;  // names of nodes, after passes, that join no kernel
  std::vector<std::shared_ptr<const CustomOp>> custom_ops;  // of models that are read
  // Names of producers and consumers, after passes, that are fused even if it does not pay.
  std::vector<std::pair<std::string, std::string>> forced_fusion;
  std::shared_ptr<const Machine> machine;  // what kernels cost; null: that of the target level
  ScheduleChoice schedule_choice = ScheduleChoice::kHeuristic;
  // Values of the model's symbols for which profile measures; others are 16, 256 and 4096.
  SymbolValues tune_at;
  // What was measured; set by Compile as `schedule_choice` says. Null: nothing is looked up.
  std::shared_ptr<Tuner> tuner;
  // Other schedules than those by price, for measurements; where it is empty, or gives nothing, the
  // price decides. Nothing is looked up for a model with it, and nothing kept.
  std::function<std::optional<Schedule>(const Kernel& kernel, const SizeClass& sizes)> choose;
  DumpFn dump;
  bool dump_code = false;  // "ir", "stmt" and "asm" too: every kernel is compiled once more
  // Models that share a service share loaded kernels, workers and counts; null: one of its own. Its
  // own settings (threads of building, cache, mode, codegen) were fixed when it was made.
  std::shared_ptr<KernelService> kernels;
};

}  // namespace kiln

#endif  // KILN_OPTIONS_H_
