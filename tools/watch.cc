// SPDX-License-Identifier: Apache-2.0
#include "tools/watch.h"

#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "graph/tensors.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/flags.h"
#include "tools/report.h"

namespace kiln {
namespace {

// Whether there is an operand at all: optional inputs may be absent.
bool IsThere(const Tensor& tensor) { return tensor.data() != nullptr; }

struct NotFinite {
  int64_t nan = 0, inf = 0;
};

NotFinite CountIn(const Tensor& view) {
  NotFinite found;
  if (!IsThere(view) || !IsFloat(view.dtype())) return found;
  const Tensor dense = Dense(view);
  for (int64_t i = 0; i < dense.num_elements(); ++i) {
    const double value = ReadFloat(dense, i);
    found.nan += std::isnan(value) ? 1 : 0;
    found.inf += std::isinf(value) ? 1 : 0;
  }
  return found;
}

std::string ElementsText(const Tensor& view) {
  const Tensor dense = Dense(view);
  std::string text;
  for (int64_t i = 0; i < dense.num_elements(); ++i) {
    if (IsFloat(dense.dtype())) {
      absl::StrAppendFormat(&text, "%.17g\n", ReadFloat(dense, i));
    } else {
      absl::StrAppend(&text, ReadInt(dense, i), "\n");
    }
  }
  return text;
}

}  // namespace

void AddWatchFlags(Flags& command, WatchFlags& flags) {
  const Flag dump = command
                        .Option("--dump-io", flags.dump_io,
                                "Directory for what each launch of one run reads and writes: "
                                "numbered .npy files, index.txt")
                        .Directory();
  command.Switch("--dump-io-text", flags.text, "Each of them as text too (.txt)").Needs(dump);
  command.Switch("--check-numerics", flags.check_numerics,
                 "Name the first launch that writes NaN or Inf and reads none; exit 1");
}

absl::StatusOr<std::shared_ptr<Watch>> Watch::Create(const WatchFlags& flags) {
  if (!flags.any()) return std::shared_ptr<Watch>();
  if (!flags.dump_io.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.dump_io, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("--dump-io \"", flags.dump_io, "\": cannot be made, ", error.message()));
    }
  }
  return std::shared_ptr<Watch>(new Watch(flags));
}

void Watch::Attach(RunOptions& options) {
  options.temporaries = Temporaries::kSeparate;
  options.on_thunk = [this](const ThunkView& launch) { return See(launch); };
}

absl::Status Watch::See(const ThunkView& launch) {
  ++launches_;
  if (!flags_.dump_io.empty()) {
    status_ = Dump(launch);
    KILN_RETURN_IF_ERROR(status_);
  }
  if (flags_.check_numerics) FindFault(launch);
  return fault_ ? absl::AbortedError(NumericsText()) : absl::OkStatus();
}

absl::Status Watch::Dump(const ThunkView& launch) {
  for (size_t i = 0; i < launch.inputs.size(); ++i)
    KILN_RETURN_IF_ERROR(DumpOperand(launch, absl::StrCat("in", i), launch.inputs[i]));
  for (size_t i = 0; i < launch.outputs.size(); ++i)
    KILN_RETURN_IF_ERROR(DumpOperand(launch, absl::StrCat("out", i), launch.outputs[i]));
  return absl::OkStatus();
}

absl::Status Watch::DumpOperand(const ThunkView& launch, const std::string& operand,
                                const Tensor& tensor) {
  if (!IsThere(tensor) && tensor.num_elements() > 0) return absl::OkStatus();
  const std::string number = absl::StrFormat("%05d", launches_ - 1);
  const std::string file = absl::StrCat(number, ".", operand);
  const std::filesystem::path path = std::filesystem::path(flags_.dump_io) / file;
  KILN_RETURN_IF_ERROR(WriteNpy(path.string() + ".npy", tensor));
  if (flags_.text)
    KILN_RETURN_IF_ERROR(WriteFileDurably(path.string() + ".txt", ElementsText(tensor)));
  absl::StrAppend(&index_, number, " ", launch.kind, " \"", absl::CEscape(launch.name), "\" ",
                  operand, " ", Describe(tensor), " ", file, ".npy\n");
  return absl::OkStatus();
}

void Watch::FindFault(const ThunkView& launch) {
  for (size_t i = 0; i < launch.outputs.size(); ++i) {
    const NotFinite written = CountIn(launch.outputs[i]);
    if (written.nan + written.inf == 0) continue;
    for (const Tensor& input : launch.inputs) {
      const NotFinite read = CountIn(input);
      if (read.nan + read.inf > 0) return;
    }
    fault_ = {launches_ - 1,
              launch.kind,
              launch.name,
              Describe(launch.outputs[i]),
              i,
              written.nan,
              written.inf,
              launch.outputs[i].num_elements()};
    return;
  }
}

absl::Status Watch::Finish() {
  if (flags_.dump_io.empty()) return status_;
  KILN_RETURN_IF_ERROR(status_);
  return WriteFileDurably((std::filesystem::path(flags_.dump_io) / "index.txt").string(), index_);
}

std::string Watch::NumericsText() const {
  if (!fault_)
    return absl::StrCat("numerics: in ", launches_,
                        " launches, none writes NaN or Inf that reads none");
  return absl::StrCat("numerics: launch ", fault_->launch, ", ", fault_->kind, " \"", fault_->name,
                      "\": output ", fault_->output, ", ", fault_->tensor, ", has ", fault_->nan,
                      " NaN and ", fault_->inf, " Inf in ", fault_->elements,
                      " elements; its inputs have none");
}

nlohmann::json Watch::NumericsJson() const {
  if (!fault_) return {{"ok", true}, {"launches", launches_}};
  return {{"ok", false},          {"launch", fault_->launch},    {"kind", fault_->kind},
          {"name", fault_->name}, {"output", fault_->output},    {"nan", fault_->nan},
          {"inf", fault_->inf},   {"elements", fault_->elements}};
}

}  // namespace kiln
