// SPDX-License-Identifier: Apache-2.0
// What the verbs of the command line share: flags, and the one object that --json prints.
#ifndef KILN_TOOLS_COMMON_H_
#define KILN_TOOLS_COMMON_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "compiler/machine_of.h"
#include "kiln/dim.h"
#include "nlohmann/json_fwd.hpp"

namespace kiln {

class Flags;  // tools/flags.h

// A verb: `add` declares its flags on `command`, and what it runs.
struct Verb {
  const char* name;
  const char* doc;
  void (*add)(Flags& command);
};
void AddRun(Flags& command);
void AddBench(Flags& command);
void AddCompile(Flags& command);
void AddExplain(Flags& command);
void AddInspect(Flags& command);
void AddVerify(Flags& command);
void AddTrain(Flags& command);
void AddOps(Flags& command);
void AddOpt(Flags& command);
void AddPlan(Flags& command);
void AddDevices(Flags& command);
void AddCache(Flags& command);
void AddDoctor(Flags& command);
void AddCompletion(Flags& command);
void AddMan(Flags& command);

struct CommonOptions {
  int level = 3;
  int jit = 2;
  std::string device = "cpu";
  bool require_device = false;
  int threads = 0;
  std::vector<std::string> shapes, dims, const_shapes;
  std::vector<std::string> disabled_passes, no_fuse;
  std::string rules = "priced", machine;
  std::string math = "strict";
  std::string compile_mode = "block";
  std::string choose = "heuristic", workspace_limit, device_library = "auto";
  std::string max_weights, external_data_links = "refuse";
  bool tune = false;
  bool batch_invariant = false, check_first_run = false;
  int record_level = 0;
  std::string cache_dir;
  bool no_cache = false, cache_readonly = false;
  bool json = false, quiet = false, verbose = false;
};

// Flags of verbs that read a model file: what it may be.
void AddReadingFlags(Flags& command, CommonOptions& options);
// Those, and flags of verbs that compile and run a model; the environment (KILN_GRAPH_OPT_LEVEL,
// KILN_JIT_LEVEL, KILN_THREADS) gives defaults.
void AddCommonFlags(Flags& command, CommonOptions& options);
// --const-shape, of verbs that compile for their inputs alone.
void AddConstShapeFlag(Flags& command, CommonOptions& options);
// How a model runs, of verbs that run one: --batch-invariant, --check-first-run, --record-level.
void AddRunningFlags(Flags& command, CommonOptions& options);
// --json, -q, -v only.
void AddOutputFlags(Flags& command, CommonOptions& options);

// The compiler's options, KILN_DUMP included. `targets`: what code is made for, where it is not for
// the device of the flags alone; --machine must describe one of them. kInvalidArgument and
// kFailedPrecondition (no such device) with what to do.
absl::StatusOr<CompileOptions> ToCompileOptions(const CommonOptions& options,
                                                const std::vector<Target>& targets = {});

// "; did you mean \"dead_code\"?", or "": of names of passes.
std::string DidYouMeanPass(absl::string_view name);

// What the reading flags say, the rest as it is. kInvalidArgument names the flag.
absl::StatusOr<CompileOptions> ToReadingOptions(const CommonOptions& options);

// "--dim batch=8" as a map, "--shape x=1x3x224x224" as a map.
// Values of --target: what code is made for.
std::vector<std::string> TargetNames();

absl::StatusOr<SymbolValues> ParseDims(const std::vector<std::string>& dims);
absl::StatusOr<std::map<std::string, std::vector<int64_t>>> ParseShapes(
    const std::vector<std::string>& shapes, const std::string& flag = "--shape");
// Those of --shape and --const-shape.
absl::StatusOr<std::map<std::string, std::vector<int64_t>>> ShapesGiven(
    const CommonOptions& options);

// {"schema": "kiln.<verb>/1", "kiln": version, "config": ..., "results": results}, on stdout.
void PrintJson(const std::string& verb, const CommonOptions& options, nlohmann::json results);

// PublishFile of these bytes (base/publish_file.h).
absl::Status WriteFileDurably(const std::string& path, const std::string& bytes);

// A line for people on stderr, unless -q.
void Note(const CommonOptions& options, const std::string& line);

}  // namespace kiln

#endif  // KILN_TOOLS_COMMON_H_
