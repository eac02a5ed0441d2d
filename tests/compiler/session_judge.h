// SPDX-License-Identifier: Apache-2.0
// Whether a run of a random session gave what the session's references give for the same inputs,
// bit by bit, or refused what they refuse. A run during an update may have read either value.
//
//   SessionJudge judge(session);
//   const size_t first = session.done;
//   ... run ...
//   EXPECT_EQ(judge.Compare(status, outputs, inputs, wanted, first, session.begun), "");
//
// Thread-safe, as the models of the references are.
#ifndef KILN_TESTS_COMPILER_SESSION_JUDGE_H_
#define KILN_TESTS_COMPILER_SESSION_JUDGE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/compiler/random_session.h"

namespace kiln {

class SessionJudge {
 public:
  explicit SessionJudge(RandomSession& session) : s_(session) {}

  // All outputs for these dense inputs after so many updates, in memory of their own.
  absl::StatusOr<std::vector<Tensor>> Outputs(size_t version, const std::vector<Tensor>& inputs);
  // How a run for some of the outputs ends: a model may take inputs for these and refuse them for
  // others.
  absl::Status RunFor(size_t version, const std::vector<Tensor>& inputs,
                      const std::vector<bool>& wanted);

  // "" where a version from `first` to `last` ends with this status and gives these outputs, of
  // which those that are not wanted are not looked at.
  std::string Compare(const absl::Status& status, const std::vector<Tensor>& got,
                      const std::vector<Tensor>& inputs, const std::vector<bool>& wanted,
                      size_t first, size_t last);
  // Whether it failed for want of memory in a session that has a budget.
  bool LacksBudget(const absl::Status& status) const {
    return s_.has_budget && absl::IsResourceExhausted(status);
  }

 private:
  RandomSession& s_;
};

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_SESSION_JUDGE_H_
