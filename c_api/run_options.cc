// SPDX-License-Identifier: Apache-2.0
// Arguments of C as those of C++, and ports the other way.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c_api/handles.h"

namespace kiln::c_api {
namespace {

// What `on_thunk` sees of operands.
struct Operands {
  explicit Operands(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) handles.push_back({tensor});
    for (const kiln_tensor& handle : handles) pointers.push_back(&handle);
  }
  std::vector<kiln_tensor> handles;
  std::vector<const kiln_tensor*> pointers;
};

ThunkFn ThunkFnOf(const kiln_run_options& given) {
  if (given.on_thunk == nullptr) return nullptr;
  return [call = given.on_thunk, user = given.user](const ThunkView& thunk) -> absl::Status {
    const Operands inputs(thunk.inputs), outputs(thunk.outputs);
    const kiln_thunk seen = {sizeof(kiln_thunk),      thunk.kind,
                             thunk.name.c_str(),      inputs.pointers.size(),
                             outputs.pointers.size(), inputs.pointers.data(),
                             outputs.pointers.data()};
    if (call(user, &seen) == 0) return absl::OkStatus();
    return absl::CancelledError(absl::StrCat("on_thunk ended the run after \"", thunk.name, "\""));
  };
}

}  // namespace

Ports::Ports(const std::vector<PortInfo>& ports) {
  for (const PortInfo& info : ports) {
    Port& port = ports_.emplace_back(Port{info.name, info.type, info.optional, info.any_rank});
    for (const Dim& dim : info.shape) {
      port.shape.push_back(dim.constant().value_or(-1));
      port.texts.push_back(dim.ToString());
    }
    for (const std::string& text : port.texts) port.dims.push_back(text.c_str());
  }
}

absl::Status Ports::Get(size_t index, absl::string_view what, kiln_port* out) const {
  if (index >= ports_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", index, ": there are ", ports_.size()));
  }
  KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
  const Port& port = ports_[index];
  Write(kiln_port{0, port.name.c_str(), static_cast<kiln_dtype>(port.type), port.optional,
                  port.any_rank, port.shape.size(), port.shape.data(), port.dims.data()},
        out);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Names(const char* const* names, size_t count,
                                               absl::string_view what) {
  std::vector<std::string> made;
  if (count > 0) KILN_RETURN_IF_ERROR(CheckPointer(names, what));
  for (size_t k = 0; k < count; ++k) {
    KILN_RETURN_IF_ERROR(CheckPointer(names[k], absl::StrCat(what, "[", k, "]")));
    made.emplace_back(names[k]);
  }
  return made;
}

absl::StatusOr<NamedShapes> Shapes(const kiln_shape* shapes, size_t count) {
  NamedShapes made;
  if (count > 0) KILN_RETURN_IF_ERROR(CheckPointer(shapes, "shapes"));
  for (size_t k = 0; k < count; ++k) {
    const kiln_shape& shape = shapes[k];
    KILN_RETURN_IF_ERROR(CheckPointer(shape.input, "input of a shape"));
    if (shape.rank > 0) KILN_RETURN_IF_ERROR(CheckPointer(shape.extents, "extents of a shape"));
    made.emplace_back(shape.input, std::vector<int64_t>(shape.extents, shape.extents + shape.rank));
  }
  return made;
}

absl::StatusOr<RunOptions> RunOptionsOf(const kiln_run_options* options) {
  const kiln_run_options given = Read(options, kiln_run_options_default());
  RunOptions made;
  made.threads = given.threads;
  if (given.runtime != nullptr) made.runtime = given.runtime->runtime;
  made.workspace_limit = given.workspace_limit;
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> states,
                        Names(given.states, 2 * given.num_states, "states"));
  for (size_t k = 0; k < states.size(); k += 2) made.states.push_back({states[k], states[k + 1]});
  KILN_RETURN_IF_ERROR(CheckEnum(given.temporaries, KILN_TEMPORARIES_ALLOCATED, "temporaries"));
  made.temporaries = static_cast<Temporaries>(given.temporaries);
  KILN_RETURN_IF_ERROR(CheckEnum(given.output_memory, KILN_OUTPUT_BOUND, "output_memory"));
  made.output_memory = static_cast<OutputMemory>(given.output_memory);
  made.check_first_run = given.check_first_run != 0;
  made.batch_invariant = given.batch_invariant != 0;
  made.record_level = given.record_level;
  if (given.shared_arena != nullptr) made.shared_arena = given.shared_arena->arena;
  made.on_thunk = ThunkFnOf(given);
  if (given.on_start != nullptr)
    made.on_start = [call = given.on_start, user = given.user] { call(user); };
  if (given.on_finish != nullptr) {
    made.on_finish = [call = given.on_finish, user = given.user](const absl::Status& status) {
      kiln_status* const told = ToC(status);
      call(user, told);
      kiln_status_free(told);
    };
  }
  return made;
}

RunControl ControlOf(const kiln_run_control* control) {
  const kiln_run_control given = Read(control, kiln_run_control_default());
  RunControl made;
  if (given.cancel != nullptr) made.cancel = given.cancel->flag;
  if (given.timeout_us != 0) {
    const int64_t most = std::chrono::microseconds(std::chrono::years(1)).count();
    made.deadline = RunControl::Clock::now() +
                    std::chrono::microseconds(std::clamp(given.timeout_us, -most, most));
  }
  made.stream = given.stream;
  return made;
}

}  // namespace kiln::c_api
