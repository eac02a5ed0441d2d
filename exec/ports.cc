// SPDX-License-Identifier: Apache-2.0
#include "exec/ports.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/proto_add.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Whether extents that a model fixes are those of a Program, which may fix more.
bool Agree(const program::Port& port, const Shape& model) {
  if (port.shape_size() != static_cast<int>(model.size())) return false;
  for (int axis = 0; axis < port.shape_size(); ++axis) {
    const std::optional<int64_t> extent = model[static_cast<size_t>(axis)].constant();
    const absl::StatusOr<Dim> dim = Dim::Parse(port.shape(axis));
    if (!dim.ok() || (extent.has_value() && dim->constant() != extent)) return false;
  }
  return true;
}

}  // namespace

void SetPorts(const std::vector<PortInfo>& ports, StoredPorts* out) {
  for (const PortInfo& port : ports) {
    program::Port* const made = AddTo(out);
    made->set_name(port.name);
    made->set_dtype(static_cast<uint32_t>(port.type));
    made->set_optional(port.optional);
    made->set_any_rank(port.any_rank);
    for (const Dim& extent : port.shape) *AddTo(made->mutable_shape()) = extent.ToString();
  }
}

absl::StatusOr<DType> ToDType(uint32_t number) {
  if (number < static_cast<uint32_t>(kNumDTypes)) return static_cast<DType>(number);
  return absl::DataLossError(absl::StrCat("element type ", number, " is unknown"));
}

absl::StatusOr<std::vector<PortInfo>> GetPorts(const StoredPorts& ports) {
  std::vector<PortInfo> out;
  for (const program::Port& port : ports) {
    PortInfo made;
    made.name = port.name();
    made.optional = port.optional();
    made.any_rank = port.any_rank();
    KILN_ASSIGN_OR_RETURN(made.type, ToDType(port.dtype()));
    for (const std::string& text : port.shape()) {
      KILN_ASSIGN_OR_RETURN(Dim extent, Dim::Parse(text));
      made.shape.push_back(std::move(extent));
    }
    out.push_back(std::move(made));
  }
  return out;
}

absl::Status CheckPorts(const program::Program& program, const std::vector<PortInfo>& inputs,
                        const std::vector<PortInfo>& outputs) {
  const auto wrong = [](absl::string_view what, absl::string_view name) {
    return absl::DataLossError(
        absl::StrCat("a program's ", what, " \"", name, "\" is not that of the model"));
  };
  const auto named = [](const program::Port& port, const PortInfo& model) {
    return port.name() == model.name && port.dtype() == static_cast<uint32_t>(model.type);
  };
  if (program.inputs_size() != static_cast<int>(inputs.size()) ||
      program.outputs_size() != static_cast<int>(outputs.size()))
    return absl::DataLossError("a program has other inputs or outputs than the model");
  for (size_t k = 0; k < inputs.size(); ++k) {
    const program::Port& port = program.inputs(static_cast<int>(k));
    if (!named(port, inputs[k]) || port.optional() != inputs[k].optional ||
        !Agree(port, inputs[k].shape))
      return wrong("input", port.name());
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const program::Port& port = program.outputs(static_cast<int>(k));
    if (!named(port, outputs[k]) || (!outputs[k].any_rank && !Agree(port, outputs[k].shape)))
      return wrong("output", port.name());
  }
  return absl::OkStatus();
}

}  // namespace kiln
