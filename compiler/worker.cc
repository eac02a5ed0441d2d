// SPDX-License-Identifier: Apache-2.0
#include "compiler/worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "halide_gen/common/build_id.h"

namespace kiln {
namespace {

constexpr int kGraceMs = 5'000;  // on top of a request's own limit, which the worker keeps itself

absl::Status CheckHello(absl::string_view text) {
  const absl::StatusOr<CodegenHello> hello = DecodeHello(text);
  if (!hello.ok())
    return absl::NotFoundError(absl::StrCat("kiln-codegen: ", hello.status().message()));
  if (hello->build_id == kCodegenBuildId) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("kiln-codegen: is build ", hello->build_id,
                                                    ", this library needs ", kCodegenBuildId,
                                                    "; install both from one build"));
}

}  // namespace

absl::StatusOr<std::string> FindCodegen(const std::string& executable) {
  absl::StatusOr<std::string> found = FindProgram("kiln-codegen", executable, "KILN_CODEGEN");
  if (found.ok()) return found;
  return absl::NotFoundError(
      absl::StrCat("kernel compiler: ", found.status().message(),
                   "; without it compile with CompileMode::kNever (--compile-mode never)"));
}

WorkerPool::WorkerPool(std::string executable, int size)
    : pool_({"kiln-codegen",
             [executable = std::move(executable)] { return FindCodegen(executable); }, &CheckHello},
            size) {}

absl::StatusOr<CodegenAnswer> WorkerPool::Compile(const CodegenRequest& request) {
  KILN_ASSIGN_OR_RETURN(
      const std::string text,
      pool_.Ask(Encode(request), static_cast<int>(request.timeout_ms) + kGraceMs));
  absl::StatusOr<CodegenAnswer> answer = DecodeAnswer(text);
  // One that cannot be read says nothing of the kernel: kDataLoss is for code that is refused.
  if (answer.ok()) return answer;
  return absl::UnavailableError(absl::StrCat("kiln-codegen: ", answer.status().message()));
}

}  // namespace kiln
