// SPDX-License-Identifier: Apache-2.0
#include "exec/port_places.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/support/device.h"

namespace kiln {
namespace {

constexpr char kMark[] = "kiln/needs_host";

class Checker {
 public:
  Checker(const CheckedProgram& program, const PortPlaces& places)
      : program_(program), on_device_(program.buffers.size(), false) {
    Mark(program.inputs, places.inputs);
    Mark(program.outputs, places.outputs);
  }

  absl::Status CheckThunk(const CheckedThunk& thunk) const {
    for (const auto* refs : {&thunk.inputs, &thunk.outputs}) {
      for (const CheckedRef& ref : *refs) {
        if (!OnDevice(ref)) continue;
        const bool copies = thunk.kind == CheckedThunk::Kind::kCopy && !OnHost(thunk.device) &&
                            !(OnDevice(thunk.inputs[0]) && OnDevice(thunk.outputs[0]));
        if (!copies) return NeedsHost(program_.buffers[static_cast<size_t>(ref.buffer)].name);
      }
    }
    return absl::OkStatus();
  }
  absl::Status CheckFixed() const {
    for (const CheckedSubRange& range : program_.sub_ranges) {
      for (const int32_t b : {range.buffer, range.of}) {
        if (on_device_[static_cast<size_t>(b)])
          return NeedsHost(program_.buffers[static_cast<size_t>(b)].name);
      }
    }
    return absl::OkStatus();
  }

 private:
  void Mark(const std::vector<CheckedPort>& ports, const std::vector<bool>& places) {
    for (size_t i = 0; i < places.size() && i < ports.size(); ++i) {
      if (places[i] && ports[i].buffer >= 0)
        on_device_[static_cast<size_t>(ports[i].buffer)] = true;
    }
  }
  bool OnDevice(const CheckedRef& ref) const {
    return ref.buffer >= 0 && on_device_[static_cast<size_t>(ref.buffer)];
  }

  const CheckedProgram& program_;
  std::vector<bool> on_device_;  // per buffer, where a port says so
};

}  // namespace

absl::Status CheckPlaces(const CheckedProgram& program, const PortPlaces& places,
                         const std::vector<bool>& needed) {
  if (places.none()) return absl::OkStatus();
  if (OnHost(program.other)) return NeedsHost("all of it");
  const Checker checker(program, places);
  KILN_RETURN_IF_ERROR(checker.CheckFixed());
  for (size_t t = 0; t < program.thunks.size(); ++t)
    if (needed[t]) KILN_RETURN_IF_ERROR(checker.CheckThunk(program.thunks[t]));
  return absl::OkStatus();
}

absl::Status NeedsHost(absl::string_view port) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("\"", port, "\": the CPU works with it; it cannot stay on the device"));
  status.SetPayload(kMark, absl::Cord());
  return status;
}

bool IsNeedsHost(const absl::Status& status) { return status.GetPayload(kMark).has_value(); }

}  // namespace kiln
