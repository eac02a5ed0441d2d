// SPDX-License-Identifier: Apache-2.0
#include "tools/self_test.h"

#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "exec/package/package.h"
#include "exec/runtime_state.h"
#include "nlohmann/json.hpp"
#include "tools/exit_code.h"
#include "tools/inputs.h"
#include "tools/report.h"

namespace kiln {
namespace {

using nlohmann::json;

// What came of one case.
struct Outcome {
  bool ok = true;
  json outputs = json::array();
  std::vector<std::string> lines;
};

Outcome Judge(const TestCase& test, const std::vector<Tensor>& got,
              const std::vector<PortInfo>& ports) {
  Outcome outcome;
  for (size_t k = 0; k < got.size(); ++k) {
    json row = {{"name", ports[k].name},
                {"dtype", std::string(Name(got[k].dtype()))},
                {"shape", got[k].shape()}};
    std::string line = absl::StrCat(ports[k].name, ": ", Describe(got[k]));
    if (!test.outputs.empty()) {
      const Comparison found = Compare(got[k], test.outputs[k], test.max_error, test.max_error);
      row["expect"] = ToJson(found);
      outcome.ok = outcome.ok && found.ok;
      absl::StrAppend(&line, found.ok ? "  as expected" : absl::StrCat("  DIFFERS: ", found.what),
                      ", max abs ", found.max_abs);
    }
    outcome.outputs.push_back(std::move(row));
    outcome.lines.push_back(std::move(line));
  }
  return outcome;
}

}  // namespace

int SelfTest(const std::string& path, const CommonOptions& common, const CompileOptions& options,
             const PackageOptions& how) {
  if (!absl::EndsWith(path, ".kiln")) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("--self-test: \"", path,
                                                        "\" is a model; packages have test cases")),
                kExitUsage);
  }
  const auto package =
      Package::Open(PackageSource::File(path), how, /*validator=*/"", DeviceUseOf(options.runtime));
  if (!package.ok()) return Fail(package.status(), ModelExit(package.status()));
  const absl::StatusOr<std::vector<TestCase>> tests = (*package)->TestCases();
  if (!tests.ok()) return Fail(tests.status(), ModelExit(tests.status()));
  if (tests->empty()) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat("--self-test: package \"", path,
                                 "\" has no test cases; dump it with DumpOptions::input_data")),
                kExitUsage);
  }
  absl::StatusOr<Model> model = Model::Create(*package, options);
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  json cases = json::array();
  bool ok = true;
  for (size_t k = 0; k < tests->size(); ++k) {
    const TestCase& test = (*tests)[k];
    const auto outputs = model->Run(Named(model->inputs(), test.inputs));
    if (!outputs.ok()) return Fail(outputs.status(), ModelExit(outputs.status()));
    Outcome outcome = Judge(test, *outputs, model->outputs());
    ok = ok && outcome.ok;
    cases.push_back({{"ok", outcome.ok},
                     {"compared", !test.outputs.empty()},
                     {"max_error", test.max_error},
                     {"outputs", std::move(outcome.outputs)}});
    if (common.json || (test.silent && outcome.ok)) continue;
    for (const std::string& line : outcome.lines) std::cout << "case " << k << ": " << line << "\n";
  }
  if (common.json) {
    PrintJson("run", common,
              {{"compile", ToJson(CountsOfPackage(**package))},
               {"outputs", json::array()},
               {"self_test", {{"ok", ok}, {"cases", std::move(cases)}}}});
  } else {
    std::cout << tests->size() << " test cases, " << (ok ? "all right" : "some DIFFER") << "\n";
  }
  return ok ? kExitOk : kExitDiffers;
}

}  // namespace kiln
