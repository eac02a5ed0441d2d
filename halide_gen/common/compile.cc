// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/compile.h"

#include <Halide.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "halide_gen/common/backend.h"
#include "kernel/text.h"

namespace kiln {
namespace {

// Halide prints warnings to stderr and, on errors, must not return.
class Reporter : public Halide::CompileTimeErrorReporter {
 public:
  void warning(const char*) override {}
  void error(const char* message) override { throw Halide::CompileError(message); }
};

absl::Status CheckSections(const Backend& backend, const std::vector<std::string>& sections) {
  for (const std::string& name : sections) {
    if (std::find(backend.sections.begin(), backend.sections.end(), name) == backend.sections.end())
      return absl::InvalidArgumentError(absl::StrCat("section \"", name,
                                                     "\": there is none; ask for ",
                                                     absl::StrJoin(backend.sections, ", ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<const Backend*> BackendOf(const std::string& name, Target& target) {
  const std::optional<Target> known = Target::Parse(name);
  for (const Backend* backend : AllBackends()) {
    if (!known || backend->device != known->device) continue;
    target = *known;
    return backend;
  }
  std::vector<absl::string_view> names;
  for (const TargetRow& row : AllTargets())
    if (row.target.compiles()) names.push_back(row.name);
  return absl::InvalidArgumentError(
      absl::StrCat("target \"", name, "\": unknown; name ", absl::StrJoin(names, " or ")));
}

// Fills the sections and isa of `answer`.
absl::Status CompileInto(const CodegenRequest& request, const std::string& dir,
                         CodegenAnswer& answer) {
  Target target;
  KILN_ASSIGN_OR_RETURN(const Backend* const backend, BackendOf(request.target, target));
  KILN_RETURN_IF_ERROR(CheckSections(*backend, request.sections));
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(request.kernel));
  KILN_ASSIGN_OR_RETURN(const Schedule schedule, Schedule::Parse(request.schedule, target.device));
  return backend->compile({kernel, schedule, target, request, dir}, answer);
}

// Whether a message of a library has the reason of a system call that may succeed another time.
bool SaysWhatPasses(absl::string_view message) {
  constexpr int kPassing[] = {EMFILE, ENFILE, ENOSPC, EDQUOT, ENOMEM, EIO, EINTR};
  return std::any_of(std::begin(kPassing), std::end(kPassing),
                     [&](int reason) { return absl::StrContains(message, std::strerror(reason)); });
}

}  // namespace

CodegenAnswer Failure(CodegenAnswer::Outcome outcome, absl::string_view error, bool of_schedule) {
  CodegenAnswer answer;
  answer.outcome = outcome;
  answer.error = std::string(error);
  answer.of_schedule = of_schedule;
  return answer;
}

CodegenAnswer Compile(const CodegenRequest& request, const std::string& dir) {
  using Outcome = CodegenAnswer::Outcome;
  static Reporter reporter;
  Halide::set_custom_compile_time_error_reporter(&reporter);
  try {
    CodegenAnswer answer;
    const absl::Status status = CompileInto(request, dir, answer);
    if (status.ok()) return answer;
    const bool passing = status.code() == absl::StatusCode::kUnavailable;
    return Failure(passing ? Outcome::kTransient : Outcome::kDeterministic, status.message());
  } catch (const Halide::Error& error) {  // no std::exception
    const bool passing = SaysWhatPasses(error.what());
    return Failure(passing ? Outcome::kTransient : Outcome::kDeterministic,
                   absl::StrCat("halide: ", error.what()), /*of_schedule=*/!passing);
  } catch (const std::bad_alloc&) {
    return Failure(Outcome::kTransient, "codegen: out of memory");
  } catch (const std::exception& error) {
    return Failure(Outcome::kDeterministic, absl::StrCat("codegen: ", error.what()));
  }
}

void WarmUp() {
  static Reporter reporter;
  Halide::set_custom_compile_time_error_reporter(&reporter);
  for (const Backend* backend : AllBackends()) backend->warm_up();
}

}  // namespace kiln
