// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_entry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "exec/support/kernel_code.h"
#include "kernel/operands.h"
#include "kernel/text.h"
#include "schedule/choose.h"

namespace kiln {
namespace {

// The widest size class for which this very schedule is chosen: what the code is right
// for, whatever extents the first model that asked for it has. `asked`, with every bound lifted
// that the schedule does not need, where it is chosen for none of the kernel's own classes.
std::vector<int64_t> WidestClass(const KernelIdentity& identity, std::vector<int64_t> asked) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(identity.text);
  if (!kernel.ok() || !AcceptsKernel(*kernel, identity.target)) return asked;
  const auto makes_these = [&](const SizeClass& sizes) {
    const Machine& machine = ShippedMachine(identity.target);
    return ChooseSchedule(*kernel, sizes, machine).ToString() == identity.schedule;
  };
  SizeClass widest{asked};
  widest.at_most.resize(kernel->dims.size(), -1);
  std::replace(widest.at_most.begin(), widest.at_most.end(), int64_t{-1}, kUnbounded);
  const SizeClass any{std::vector<int64_t>(kernel->dims.size(), kUnbounded)};
  for (const SizeClass& sizes : SizeClassesFor(*kernel, any)) {
    if (makes_these(sizes)) widest = sizes;
  }
  for (int64_t& bound : widest.at_most) {
    const int64_t before = std::exchange(bound, kUnbounded);
    if (before != kUnbounded && !makes_these(widest)) bound = before;
  }
  std::replace(widest.at_most.begin(), widest.at_most.end(), kUnbounded, int64_t{-1});
  return widest.at_most;
}

// Of a schedule that was compiled.
std::string InfoOf(const std::string& schedule, Target target) {
  const absl::StatusOr<Schedule> parsed = Schedule::Parse(schedule, target.device);
  return parsed.ok() ? parsed->Info().ToString() : "";
}

}  // namespace

Entry EntryOf(const KernelIdentity& identity, const std::vector<int64_t>& asked,
              const Preimage& preimage, const CodegenAnswer& answer) {
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta",
            FormatMeta({{"at_most", FormatClass(WidestClass(identity, asked))},
                        {"device", std::string(Name(identity.target.device))},
                        {"isa", answer.isa},
                        {"launch", InfoOf(answer.schedule, identity.target)},
                        {"schedule", answer.schedule},
                        {"scratch", absl::StrCat(answer.scratch_bytes)},
                        {"target", std::string(identity.target.name())},
                        {"wall_ms", absl::StrCat(answer.wall_ms)}}),
            true);
  // A reader that does not know machine code makes do with what it is made of.
  const DeviceRuntime& runtime = RuntimeOf(identity.target.device);
  for (const auto& [tag, bytes] : answer.sections) {
    const bool recipe = runtime.recipe != nullptr && tag == runtime.recipe;
    entry.Add(tag, bytes, recipe || tag == runtime.section);
  }
  return entry;
}

bool IsNeverLaunched(const std::string& text, const std::vector<int64_t>& at_most) {
  if (std::find(at_most.begin(), at_most.end(), 0) == at_most.end()) return false;
  const absl::StatusOr<Kernel> kernel = ParseKernel(text);
  if (!kernel.ok()) return false;
  std::vector<int64_t> most = at_most;
  most.resize(kernel->dims.size(), -1);
  const auto empty = [&](const auto& operand) {
    return std::any_of(operand.dims.begin(), operand.dims.end(),
                       [&](int32_t dim) { return most[static_cast<size_t>(dim)] == 0; });
  };
  return ReducesNothing(*kernel, most) ||
         std::any_of(kernel->inputs.begin(), kernel->inputs.end(), empty) ||
         std::all_of(kernel->outputs.begin(), kernel->outputs.end(), empty);
}

void SetMeta(Entry& entry, const std::map<std::string, std::string>& values) {
  for (Section& section : entry.sections) {
    if (section.tag != "meta") continue;
    std::map<std::string, std::string> meta = ParseMeta(section.bytes);
    for (const auto& [name, value] : values) meta[name] = value;
    section.bytes = FormatMeta(meta);
  }
}

void SetExampleIfNeeded(Entry& entry, const std::vector<int64_t>& example) {
  const ValidationRequest request = ValidationOf(entry, example);
  const absl::StatusOr<Kernel> kernel = ParseKernel(request.kernel);
  const absl::StatusOr<LaunchInfo> launch = LaunchInfo::Parse(request.launch);
  if (kernel.ok() && launch.ok() && NeedsExample(*kernel, *launch, request.at_most))
    SetMeta(entry, {{"example", FormatClass(example)}});
}

std::map<std::string, std::string> MetaOfValidation(const Validation& validation,
                                                    const std::string& model) {
  return {{"validation", validation.transcript}, {"validated_on", model}};
}

Preimage RecordOf(const Entry& entry, const std::string& model) {
  return Preimage()
      .Add("schema", "1")
      .Add("artefact", "validation")
      .Add("validator", absl::StrCat(kValidationVersion))
      .Add("entry", ToHex(entry.key))
      .Add("code", ToHex(Sha256(CodeOf(entry)->image.code)))
      .Add("cpu", model);
}

Entry MakeRecord(const Entry& entry, const Validation& validation, const std::string& model) {
  const Preimage about = RecordOf(entry, model);
  Entry record;
  record.key = about.Key();
  record.Add("preimage", about.bytes(), true);
  record.Add("meta", FormatMeta(MetaOfValidation(validation, model)), true);
  return record;
}

}  // namespace kiln
