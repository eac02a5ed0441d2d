// SPDX-License-Identifier: Apache-2.0
#include "exec/plan_draft.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/needed_thunks.h"
#include "exec/resolve.h"
#include "exec/support/device.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;

class Sizer {
 public:
  Sizer(PlanDraft& draft, const SymbolValues& symbols) : draft_(draft), symbols_(symbols) {}

  absl::Status SizeBuffers(const std::vector<bool>& present, const std::vector<bool>& wanted) {
    for (size_t b = 0; b < draft_.program.buffers.size(); ++b) {
      const CheckedBuffer& buffer = draft_.program.buffers[b];
      PlacementProblem::Buffer sized;
      sized.device = buffer.device;
      sized.on_device = !OnHost(buffer.device);
      bool absent = false;
      switch (buffer.kind) {
        case program::Buffer::INPUT:
          sized.space = Space::kInput;
          absent = !present[static_cast<size_t>(buffer.index)];
          break;
        case program::Buffer::OUTPUT:
          if (wanted[static_cast<size_t>(buffer.index)]) sized.space = Space::kOutput;
          break;
        case program::Buffer::CONSTANT:
          sized.space = Space::kConstant;
          break;
        default:
          break;
      }
      draft_.absent.push_back(absent);
      if (!absent) {
        const absl::StatusOr<int64_t> bytes = buffer.bytes.Evaluate(symbols_);
        const std::string subject = absl::StrCat("buffer ", b, " \"", buffer.name, "\"");
        if (!bytes.ok()) return Annotate(bytes.status(), subject);
        if (*bytes < 0) return Invalid(subject, ": ", *bytes, " bytes");
        sized.bytes = *bytes;
      }
      draft_.problem.buffers.push_back(sized);
    }
    for (const CheckedPort& port : draft_.program.outputs) {
      KILN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, Evaluate(port.shape, symbols_));
      if (CheckedBytes(port.type, shape) < 0) {
        return Invalid("output \"", port.name, "\": shape [", absl::StrJoin(shape, ", "),
                       "] is not possible");
      }
      draft_.output_shapes.push_back(std::move(shape));
    }
    for (const CheckedSubRange& range : draft_.program.sub_ranges) {
      KILN_ASSIGN_OR_RETURN(const int64_t offset, range.offset.Evaluate(symbols_));
      draft_.problem.fixed.push_back({range.buffer, range.of, offset});
    }
    return absl::OkStatus();
  }

  absl::Status ResolveOperands(size_t t) {
    const CheckedThunk& thunk = draft_.program.thunks[t];
    Operands& operands = draft_.operands[t];
    PlacementProblem::Step& step = draft_.problem.steps[t];
    const bool library = thunk.kind == CheckedThunk::Kind::kLibrary;
    KILN_ASSIGN_OR_RETURN(operands.outputs, ResolveAll(thunk.outputs, false, Access::kWrite));
    // Views are about memory, whatever shapes their ends have.
    const bool unread = thunk.kind != CheckedThunk::Kind::kView && AllEmpty(operands.outputs);
    KILN_ASSIGN_OR_RETURN(
        operands.inputs, ResolveAll(thunk.inputs, library, unread ? Access::kNone : Access::kRead));
    KILN_ASSIGN_OR_RETURN(operands.dims, Evaluate(thunk.dims, symbols_));
    for (const ResolvedRef& ref : operands.inputs) {
      if (ref.buffer >= 0) step.reads.push_back(AccessOf(ref));
    }
    for (const ResolvedRef& ref : operands.outputs) step.writes.push_back(AccessOf(ref));
    return absl::OkStatus();
  }

 private:
  enum class Access { kWrite, kRead, kNone };

  absl::StatusOr<std::vector<ResolvedRef>> ResolveAll(const std::vector<CheckedRef>& refs,
                                                      bool may_be_absent, Access access) {
    std::vector<ResolvedRef> made;
    for (const CheckedRef& ref : refs) {
      if (ref.buffer < 0 || draft_.absent[static_cast<size_t>(ref.buffer)]) {
        if (!may_be_absent) return Invalid("uses input buffer ", ref.buffer, ", which is absent");
        made.emplace_back();
        continue;
      }
      const int64_t bytes = draft_.problem.buffers[static_cast<size_t>(ref.buffer)].bytes;
      KILN_ASSIGN_OR_RETURN(made.emplace_back(),
                            access == Access::kNone   ? ResolveUnread(ref, symbols_)
                            : access == Access::kRead ? Resolve(ref, symbols_, bytes)
                                                      : ResolveWritten(ref, symbols_, bytes));
    }
    return made;
  }

  PlanDraft& draft_;
  const SymbolValues& symbols_;
};

}  // namespace

absl::StatusOr<PlanDraft> SizeProgram(const CheckedProgram& program, const SymbolValues& symbols,
                                      const std::vector<bool>& present,
                                      const std::vector<bool>& wanted) {
  if (present.size() != program.inputs.size() || wanted.size() != program.outputs.size())
    return Invalid("program: one flag per input and output is needed");
  const size_t thunks = program.thunks.size();
  PlanDraft draft(program);
  draft.needed = NeededThunks(program, wanted);
  draft.operands.resize(thunks);
  draft.lanes.assign(thunks, 1);
  draft.launches.resize(thunks);
  draft.problem.steps.resize(thunks);
  Sizer sizer(draft, symbols);
  KILN_RETURN_IF_ERROR(sizer.SizeBuffers(present, wanted));
  for (size_t t = 0; t < thunks; ++t)
    if (draft.needed[t]) KILN_RETURN_IF_ERROR(OfThunk(program, t, sizer.ResolveOperands(t)));
  return draft;
}

absl::Status OfThunk(const CheckedProgram& program, size_t t, const absl::Status& status) {
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("thunk ", t, " \"", program.thunks[t].name, "\""));
}

bool AllEmpty(const std::vector<ResolvedRef>& refs) {
  return std::all_of(refs.begin(), refs.end(),
                     [](const ResolvedRef& ref) { return ref.elements == 0; });
}

}  // namespace kiln
