// SPDX-License-Identifier: Apache-2.0
// A Decision is a yes, or a no with a reason that a user can read.
//
// Schedulers answer "can you run this Kernel?" and fusion answers "may these two be one group?"
// with it, so that every refusal can be printed. Example: `Decision::No("reduces over two dims that
// are not neighbours")`.
#ifndef KILN_BASE_DECISION_H_
#define KILN_BASE_DECISION_H_

#include <string>
#include <utility>

namespace kiln {

class Decision {
 public:
  static Decision Yes() { return Decision(true, ""); }
  static Decision No(std::string reason) { return Decision(false, std::move(reason)); }

  explicit operator bool() const { return yes_; }
  // Why not; empty for a yes.
  const std::string& reason() const { return reason_; }

  // The first no of the two, else yes.
  Decision And(const Decision& other) const { return yes_ ? other : *this; }

 private:
  Decision(bool yes, std::string reason) : yes_(yes), reason_(std::move(reason)) {}

  bool yes_;
  std::string reason_;
};

}  // namespace kiln

#endif  // KILN_BASE_DECISION_H_
