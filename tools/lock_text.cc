// SPDX-License-Identifier: Apache-2.0
#include "tools/lock_text.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/dtype.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/compile_graph.h"
#include "compiler/segments.h"
#include "compiler/tuner.h"
#include "compiler/variants.h"
#include "exec/package/package.pb.h"
#include "exec/package/packaged_script.h"
#include "exec/plan_info.h"
#include "exec/program.pb.h"
#include "exec/runtime_state.h"
#include "exec/script.h"
#include "exec/support/device.h"
#include "exec/validate/validation.h"
#include "tools/diff_lines.h"
#include "tools/model_graphs.h"
#include "tools/plan_text.h"

namespace kiln {
namespace {

constexpr char kHead[] = "kiln lock ";
constexpr int kVersion = 1;
constexpr size_t kKernelDigits = 16, kProgramDigits = 12;
constexpr size_t kContext = 2;  // lines around what differs

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\"");
}

std::string KernelNumber(const program::KernelDef& def) {
  return ToHex(Sha256(def.text())).substr(0, kKernelDigits);
}

// The bytes of operands, each once.
absl::StatusOr<Dim> BytesOf(const program::Thunk& thunk) {
  Dim bytes;
  std::set<std::string> known;
  const auto add = [&](const auto& refs) -> absl::Status {
    for (const program::TensorRef& ref : refs) {
      if (ref.buffer() < 0 || !known.insert(ref.SerializeAsString()).second) continue;
      Dim size = static_cast<int64_t>(SizeOf(static_cast<DType>(ref.dtype())));
      for (const std::string& extent : ref.shape()) {
        KILN_ASSIGN_OR_RETURN(const Dim dim, Dim::Parse(extent));
        size = size * dim;
      }
      bytes = bytes + size;
    }
    return absl::OkStatus();
  };
  if (thunk.has_kernel()) {
    KILN_RETURN_IF_ERROR(add(thunk.kernel().inputs()));
    KILN_RETURN_IF_ERROR(add(thunk.kernel().outputs()));
  } else if (thunk.has_library()) {
    KILN_RETURN_IF_ERROR(add(thunk.library().inputs()));
    KILN_RETURN_IF_ERROR(add(thunk.library().outputs()));
  } else if (thunk.has_copy()) {
    KILN_RETURN_IF_ERROR(add(std::vector<program::TensorRef>{thunk.copy().from()}));
    KILN_RETURN_IF_ERROR(add(std::vector<program::TensorRef>{thunk.copy().to()}));
  } else if (thunk.has_host()) {
    KILN_RETURN_IF_ERROR(add(thunk.host().outputs()));
  }
  return bytes;
}

std::string LibraryText(const program::LibraryThunk& call, absl::string_view name) {
  std::string text = absl::StrCat(call.op(), " ", Quoted(name));
  std::vector<std::string> attributes;
  for (const program::Attribute& attribute : call.attributes()) {
    attributes.push_back(absl::StrCat(attribute.name(), "=", absl::StrJoin(attribute.ints(), ",")));
  }
  if (!attributes.empty()) absl::StrAppend(&text, " {", absl::StrJoin(attributes, " "), "}");
  for (const program::PostOp& post_op : call.post_ops())
    absl::StrAppend(&text, " ", post_op.name());
  return text;
}

// What a launch runs; "" for a view, which is none.
std::string LaunchText(const program::Program& program, const program::Thunk& thunk) {
  if (thunk.has_kernel()) {
    return absl::StrCat("kernel ", KernelNumber(program.kernels(thunk.kernel().kernel())), " ",
                        Quoted(thunk.name()));
  }
  if (thunk.has_library()) return LibraryText(thunk.library(), thunk.name());
  if (thunk.has_copy()) return absl::StrCat("copy ", Quoted(thunk.name()));
  if (thunk.has_host()) return absl::StrCat(thunk.host().op(), " ", Quoted(thunk.name()));
  return "";
}

void AppendKernels(const program::Program& program, std::string& text) {
  std::set<std::string> known;
  for (const program::KernelDef& def : program.kernels()) {
    const std::string number = KernelNumber(def);
    if (!known.insert(number).second) continue;
    absl::StrAppend(&text, "kernel ", number, " ", def.name(), "\n");
    for (const program::KernelChoice& choice : def.choices()) {
      const std::vector<int64_t> at_most(choice.at_most().begin(), choice.at_most().end());
      const bool any = std::all_of(at_most.begin(), at_most.end(), [](int64_t n) { return n < 0; });
      absl::StrAppend(&text, "  ", any ? "any extents" : "at most " + FormatClass(at_most), ": ",
                      choice.schedule().empty() ? "on the VM" : choice.schedule(), "\n");
    }
  }
}

// `part`: which of the programs of a model that is several; else "".
absl::StatusOr<std::string> VariantText(const Variant& variant, Target target,
                                        const std::string& part) {
  std::vector<std::string> guards;
  for (const Guard& guard : variant.guards) guards.push_back(guard.ToString());
  std::string text =
      absl::StrCat("variant ", target.name(), part.empty() ? "" : " " + Quoted(part),
                   guards.empty() ? "" : " where ", absl::StrJoin(guards, ", "), "\n");
  AppendKernels(variant.program, text);
  int launches = 0;
  Dim sum;
  for (const program::Region& region : variant.program.regions()) {
    for (const program::Thunk& thunk : region.thunks()) {
      const std::string what = LaunchText(variant.program, thunk);
      if (what.empty()) continue;
      KILN_ASSIGN_OR_RETURN(const Dim bytes, BytesOf(thunk));
      absl::StrAppend(&text, "launch ", what, ": ", bytes.ToString(), " bytes\n");
      sum = sum + bytes;
      ++launches;
    }
  }
  absl::StrAppend(&text, "total ", launches, " launches, ", sum.ToString(), " bytes; program ",
                  ToHex(Sha256(variant.program.SerializeAsString())).substr(0, kProgramDigits),
                  "\n");
  return text;
}

std::string StepText(const ScriptStep& step) {
  std::string text;
  switch (step.kind) {
    case ScriptStep::Kind::kCall:
      return "call " + step.name;
    case ScriptStep::Kind::kHost:
      text = step.op;
      break;
    case ScriptStep::Kind::kIf:
      text = "if";
      break;
    case ScriptStep::Kind::kLoop:
      text = "loop";
      break;
  }
  absl::StrAppend(&text, " ", Quoted(step.name));
  for (const auto& [name, ints] : step.attributes)
    absl::StrAppend(&text, " ", name, "=", absl::StrJoin(ints, ","));
  return text;
}

// What runs the parts of a model that is several programs. `add` gets its steps, after those of
// branches and bodies. The digest covers what each step reads and gives.
absl::Status AddScripts(const Graph& graph,
                        const std::function<absl::Status(absl::StatusOr<std::string>)>& add) {
  const auto part = [&](const Graph& callee) -> absl::StatusOr<std::shared_ptr<VariantProvider>> {
    if (HasDynamicNodes(callee)) KILN_RETURN_IF_ERROR(AddScripts(callee, add));
    return nullptr;
  };
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const Script> script, BuildScript(graph, part));
  packaged::Script stored;
  KILN_RETURN_IF_ERROR(StoreScript(*script, stored));
  std::string text = absl::StrCat("script ", Quoted(graph.name), "\n");
  for (const ScriptStep& step : script->steps)
    absl::StrAppend(&text, "step ", StepText(step), "\n");
  return add(absl::StrCat(text, "total ", script->steps.size(), " steps; script ",
                          ToHex(Sha256(stored.SerializeAsString())).substr(0, kProgramDigits),
                          "\n"));
}

// Of a model that is one program, for inputs of these shapes.
absl::StatusOr<std::string> PlanBlock(const Graph& graph, CompileOptions options,
                                      const std::vector<InputInfo>& inputs) {
  NamedShapes shapes;
  std::vector<std::string> named;
  for (const InputInfo& input : inputs) {
    shapes.emplace_back(input.name, input.tensor.shape());
    named.push_back(absl::StrCat(Quoted(input.name), " ", ToString(ToShape(input.tensor.shape()))));
  }
  std::string text =
      absl::StrCat("plan ", TargetOf(options).name(), " ", absl::StrJoin(named, ", "), "\n");
  std::string told;
  // Offsets are those of any device of its kind.
  if (const char* const emulated = RuntimeOf(TargetOf(options).device).emulated;
      emulated != nullptr && DeviceOf(options.runtime) == nullptr) {
    KILN_ASSIGN_OR_RETURN(options.runtime, Runtime::Create({.device = emulated}));
  }
  options.threads = 1;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  options.dump = nullptr;
  options.on_plan = [&](const PlanInfo& plan) { told = plan.text; };
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  KILN_RETURN_IF_ERROR(model.Prepare(shapes));
  if (told.empty()) return text + "made when it runs, for values of inputs decide it\n";
  KILN_ASSIGN_OR_RETURN(const PlanText plan, ParsePlanText(told));
  return absl::StrCat(text, "arena ", plan.arena, " bytes, lower bound ", plan.lower_bound,
                      ", sum ", plan.sum, "; constants ", plan.constants, " bytes\n");
}

std::string PortText(const char* what, const PortInfo& port) {
  return absl::StrCat(what, " ", Quoted(port.name), " ", Name(port.type), " ",
                      port.any_rank ? "of any rank" : ToString(port.shape),
                      port.optional ? " optional" : "", "\n");
}

std::string HeadText(const ModelSource& source, const CommonOptions& common) {
  std::string text =
      absl::StrCat(kHead, kVersion, "\noptions: level ", common.level, ", jit ", common.jit,
                   ", math ", common.math, ", rules ", common.rules, ", choose ", common.choose,
                   common.batch_invariant ? ", batch invariant" : "", "\n");
  std::vector<std::string> more = common.const_shapes;
  for (std::string& shape : more) shape = "const shape " + Quoted(shape);
  for (const std::string& pass : common.disabled_passes) more.push_back("no pass " + Quoted(pass));
  for (const std::string& node : common.no_fuse) more.push_back("no fusion of " + Quoted(node));
  if (!common.workspace_limit.empty())
    more.push_back("workspace " + Quoted(common.workspace_limit));
  std::sort(more.begin(), more.end());
  for (const std::string& line : more) absl::StrAppend(&text, line, "\n");
  for (const PortInfo& port : source.inputs()) text += PortText("input", port);
  for (const PortInfo& port : source.outputs()) text += PortText("output", port);
  return text;
}

absl::string_view FirstLine(absl::string_view block) { return block.substr(0, block.find('\n')); }

// "variant x86-64-v3", "plan x86-64-v3"
absl::string_view KindAndTarget(absl::string_view block) {
  const absl::string_view line = FirstLine(block);
  return line.substr(0, line.find(' ', line.find(' ') + 1));
}

// The block that `block` was, most likely; "": there is none.
std::string Nearest(const LockText& locked, const LockText& made, const std::string& block) {
  std::string nearest;
  for (const std::string& other : locked.blocks) {
    if (FirstLine(other) == FirstLine(block)) return other;
    const bool goes_on =
        std::find(made.blocks.begin(), made.blocks.end(), other) != made.blocks.end();
    if (nearest.empty() && !goes_on && KindAndTarget(other) == KindAndTarget(block))
      nearest = other;
  }
  return nearest;
}

}  // namespace

std::string LockText::ToString() const {
  std::string text = head;
  for (const std::string& block : blocks) absl::StrAppend(&text, "\n", block);
  return text;
}

absl::StatusOr<LockText> LockText::Parse(absl::string_view text) {
  const std::string first = absl::StrCat(kHead, kVersion);
  if (FirstLine(text) != first) {
    return absl::InvalidArgumentError(
        absl::StrCat("begins with \"", absl::Utf8SafeCEscape(FirstLine(text).substr(0, 80)),
                     "\", expected \"", first, "\"; kiln lock writes it"));
  }
  LockText lock;
  for (absl::string_view block : absl::StrSplit(text, "\n\n", absl::SkipEmpty())) {
    while (absl::ConsumeSuffix(&block, "\n")) {
    }
    const std::string lines = absl::StrCat(block, "\n");
    lock.head.empty() ? (void)(lock.head = lines) : lock.blocks.push_back(lines);
  }
  return lock;
}

absl::StatusOr<LockText> LockOf(const ModelFlags& flags, const CommonOptions& common, bool package,
                                Store* store) {
  CommonOptions quiet = common;
  quiet.quiet = true;
  KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(common, TargetsNamed(flags)));
  options.dump = nullptr;
  if (options.schedule_choice == ScheduleChoice::kProfile)
    options.schedule_choice = ScheduleChoice::kHeuristic;
  KILN_ASSIGN_OR_RETURN(const ModelSource source,
                        ModelSource::Read(flags.model, ImportOptionsOf(options)));
  LockText lock;
  lock.head = HeadText(source, common);
  const auto add = [&](absl::StatusOr<std::string> block) -> absl::Status {
    KILN_RETURN_IF_ERROR(block.status());
    if (std::find(lock.blocks.begin(), lock.blocks.end(), *block) == lock.blocks.end())
      lock.blocks.push_back(*std::move(block));
    return absl::OkStatus();
  };
  const auto see = [&](const GraphForInputs& made) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const std::vector<Graph> parts, Segments(made.graph));
    if (HasDynamicNodes(made.graph)) KILN_RETURN_IF_ERROR(AddScripts(made.graph, add));
    for (const Target target : TargetsOf(flags, options)) {
      CompileOptions own = options;
      own.target = target;
      own = WithTuner(std::move(own), store);
      for (const Graph& part : parts) {
        KILN_ASSIGN_OR_RETURN(const Compiled any, CompileGraph(part, own));
        KILN_RETURN_IF_ERROR(
            add(VariantText(any.variant, target, parts.size() > 1 ? part.name : "")));
      }
      for (const std::vector<InputInfo>& inputs : made.inputs) {
        if (HasDynamicNodes(made.graph)) break;
        KILN_ASSIGN_OR_RETURN(const Variant variant, CompileFor(made.graph, own, inputs));
        KILN_RETURN_IF_ERROR(add(VariantText(variant, target, "")));
        KILN_RETURN_IF_ERROR(add(PlanBlock(made.graph, own, inputs)));
      }
    }
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(ForEachGraph(flags, quiet, source, options, package, see));
  return lock;
}

std::string NotLocked(const LockText& locked, const LockText& made) {
  std::string text;
  if (locked.head != made.head) text = WithContext(DiffLines(locked.head, made.head), kContext);
  for (const std::string& block : made.blocks) {
    if (std::find(locked.blocks.begin(), locked.blocks.end(), block) != locked.blocks.end())
      continue;
    // A plan counts where the lock has one for these inputs.
    const std::string was = Nearest(locked, made, block);
    if (absl::StartsWith(block, "plan ") && FirstLine(was) != FirstLine(block)) continue;
    const std::string diff = WithContext(DiffLines(was, block), kContext);
    absl::StrAppend(&text, "@ ", was.empty() ? "not in the lock: " : "", FirstLine(block), "\n",
                    diff);
  }
  return text;
}

}  // namespace kiln
