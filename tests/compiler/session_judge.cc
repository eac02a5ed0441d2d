// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/session_judge.h"

#include "absl/strings/str_cat.h"
#include "base/compare.h"

namespace kiln {
namespace {

std::string Difference(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                       const std::vector<bool>& wanted) {
  for (size_t k = 0; k < want.size(); ++k) {
    if (!wanted[k]) continue;
    const Comparison comparison = CompareBits(got[k], want[k]);
    if (!comparison.ok) return absl::StrCat("output ", k, ": ", comparison.what);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> SessionJudge::Outputs(size_t version,
                                                          const std::vector<Tensor>& inputs) {
  Model& model = s_.references[version];
  NamedTensors named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(model.inputs()[i].name, inputs[i]);
  return model.Run(named);
}

absl::Status SessionJudge::RunFor(size_t version, const std::vector<Tensor>& inputs,
                                  const std::vector<bool>& wanted) {
  Model& model = s_.references[version];
  Context context = model.NewContext();
  std::vector<std::string> names;
  for (size_t k = 0; k < wanted.size(); ++k)
    if (wanted[k]) names.push_back(model.outputs()[k].name);
  absl::Status status = context.SetOutputs(names);
  for (size_t i = 0; i < inputs.size(); ++i) status.Update(context.Bind(i, inputs[i]));
  if (status.ok()) status = context.Run();
  return status;
}

std::string SessionJudge::Compare(const absl::Status& status, const std::vector<Tensor>& got,
                                  const std::vector<Tensor>& inputs,
                                  const std::vector<bool>& wanted, size_t first, size_t last) {
  ++s_.judged;
  if (LacksBudget(status)) return "";
  std::string what;
  for (size_t version = first; version <= last; ++version) {
    const absl::StatusOr<std::vector<Tensor>> want = Outputs(version, inputs);
    if (want.ok() && status.ok()) {
      const std::string difference = Difference(got, *want, wanted);
      if (difference.empty()) return "";
      absl::StrAppend(&what, "after ", version, " updates: ", difference, "; ");
      continue;
    }
    absl::Status expected = want.status();
    if (expected.code() != status.code()) expected = RunFor(version, inputs, wanted);
    if (expected.code() == status.code()) return "";
    absl::StrAppend(&what, "it says ", status.ToString(), ", expected is ", expected.ToString(),
                    "; ");
  }
  return what;
}

}  // namespace kiln
