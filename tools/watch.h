// SPDX-License-Identifier: Apache-2.0
// --dump-io and --check-numerics: what the launches of one run read and wrote.
//
//   KILN_ASSIGN_OR_RETURN(auto watch, Watch::Create(flags));
//   if (watch != nullptr) watch->Attach(options);        // before the model is made
//   ...run once...
//   KILN_RETURN_IF_ERROR(watch->Finish());               // the index; errors of files
//   watch->fault();                                      // where the first NaN or Inf began
//
// DIR/index.txt has a line for each operand of each launch, in the order of the run:
//
//   00012 kernel "softmax" in0 f32 [1, 10] 00012.in0.npy
//
// and with --dump-io-text each array is there once more as text, one element a line. bf16 is
// written as the uint16 of its bits, as --output does.
#ifndef KILN_TOOLS_WATCH_H_
#define KILN_TOOLS_WATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/model.h"
#include "nlohmann/json_fwd.hpp"

namespace kiln {

class Flags;  // tools/flags.h

struct WatchFlags {
  std::string dump_io;
  bool text = false, check_numerics = false;
  bool any() const { return !dump_io.empty() || check_numerics; }
};

void AddWatchFlags(Flags& command, WatchFlags& flags);

class Watch {
 public:
  // Null: the flags ask for nothing. Errors of the directory.
  static absl::StatusOr<std::shared_ptr<Watch>> Create(const WatchFlags& flags);

  // The options' runs are watched, by this object, which must live as long. Their launches do not
  // work in place, so that inputs are what was read.
  void Attach(RunOptions& options);
  absl::Status Finish();
  // After the run: an error of this object's files, which ended it.
  const absl::Status& status() const { return status_; }

  // The first launch with a NaN or Inf in what it wrote, and none in what it read. It ends the run.
  struct Fault {
    int launch = 0;
    std::string kind, name, tensor;  // tensor: "f32 [1, 10]"
    size_t output = 0;
    int64_t nan = 0, inf = 0, elements = 0;
  };
  const std::optional<Fault>& fault() const { return fault_; }
  bool checks_numerics() const { return flags_.check_numerics; }
  // "numerics: ..." for people, and an object for --json.
  std::string NumericsText() const;
  nlohmann::json NumericsJson() const;

 private:
  explicit Watch(const WatchFlags& flags) : flags_(flags) {}
  absl::Status See(const ThunkView& launch);
  absl::Status Dump(const ThunkView& launch);
  absl::Status DumpOperand(const ThunkView& launch, const std::string& operand,
                           const Tensor& tensor);
  void FindFault(const ThunkView& launch);

  const WatchFlags flags_;
  int launches_ = 0;
  std::string index_;
  absl::Status status_;
  std::optional<Fault> fault_;
};

}  // namespace kiln

#endif  // KILN_TOOLS_WATCH_H_
