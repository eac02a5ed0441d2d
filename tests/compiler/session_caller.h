// SPDX-License-Identifier: Apache-2.0
// One caller of a model in a random session: a walk of steps in a context of its own.
//
// A step binds inputs of one of the sets anew, wherever they lie (placed_tensors.h), and chooses
// outputs and their memory; it may trim, prepare, set states or an arena, or stop a run on its way;
// then it runs. Every result is judged (session_judge.h).
//
//   SessionCaller caller(session, model, 7);
//   EXPECT_EQ(caller.Walk(14), "");
//
// Callers of one session may walk at once, each on its thread.
#ifndef KILN_TESTS_COMPILER_SESSION_CALLER_H_
#define KILN_TESTS_COMPILER_SESSION_CALLER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kiln/model.h"
#include "tests/compiler/draw.h"
#include "tests/compiler/random_session.h"
#include "tests/compiler/session_judge.h"

namespace kiln {

class SessionCaller {
 public:
  SessionCaller(RandomSession& session, Model model, uint64_t seed);

  // "" or the first thing that is wrong, and the steps up to it.
  std::string Walk(int steps);

 private:
  using Tensors = std::vector<Tensor>;

  void Step();
  void Disturb();  // what changes no result: trims, shapes that are prepared, other runs
  void RunModel();
  void ChooseOutputs();
  void ChooseArena();
  void BindInputs(const Tensors& set);
  void BindOutputs(const Tensors& like);
  void SetStates(const Tensors& set);
  // Runs in the arena or, where the plan needs a larger one, without.
  absl::Status RunInArena(const RunControl& control, bool profile);
  void RunStopped();
  void RunAndJudge(bool refused);
  void KeepStates(const Tensors& got);

  bool IsStateInput(size_t input) const;
  bool IsStateOutput(size_t output) const;
  std::vector<std::string> NamesWanted() const;

  template <typename... T>
  void Note(const T&... text) {
    trace_.push_back(absl::StrCat(text...));
  }
  template <typename... T>
  void Wrong(const T&... text) {
    if (wrong_.empty()) wrong_ = absl::StrCat(text...);
  }
  void Check(const absl::Status& status, const char* what);

  RandomSession& s_;
  Model model_;
  Draw draw_;
  SessionJudge judge_;
  Context context_;
  Tensors now_;    // the values of all inputs, states among them; dense
  Tensors bound_;  // as they are bound; empty where there is no one piece of memory
  std::vector<bool> wanted_, output_bound_;
  Tensor arena_;       // its last kGuard bytes are not the context's
  bool lost_ = false;  // the states have no value that is known
  std::string wrong_;
  std::vector<std::string> trace_;
};

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_SESSION_CALLER_H_
