// SPDX-License-Identifier: Apache-2.0
#include "exec/validate/validator.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/validate/build_id.h"
#include "kernel/kernel.h"

namespace kiln {
namespace {

// kiln-validate limits the time of one by itself.
constexpr int kAnswerTimeoutMs = 30'000;  // compile time

// The environment variable that names the executable; its older name where only that is set.
const char* Variable() {
  return secure_getenv("KILN_VALIDATE") == nullptr && secure_getenv("KILN_PROVE") != nullptr
             ? "KILN_PROVE"
             : "KILN_VALIDATE";
}

absl::StatusOr<std::string> Find(const std::string& executable) {
  return FindProgram("kiln-validate", executable, Variable());
}

absl::Status CheckHello(absl::string_view hello) {
  if (hello == ValidatorHello()) return absl::OkStatus();
  return absl::NotFoundError(
      "kiln-validate: it is of another build; install the program of this build, or set "
      "KILN_VALIDATE");
}

}  // namespace

std::string ValidatorHello() {
  return absl::StrCat("kiln-validate ", kValidationVersion, " math ", kMathVersion, " build ",
                      kValidatorBuildId);
}

Validator::Validator(std::string executable, int most, int hello_timeout_ms)
    : pool_({"kiln-validate", [executable = std::move(executable)] { return Find(executable); },
             &CheckHello, hello_timeout_ms},
            most) {}

absl::StatusOr<Validation> Validator::Validate(const ValidationRequest& request) {
  const absl::StatusOr<std::string> answer = pool_.Ask(Encode(request), kAnswerTimeoutMs);
  if (absl::IsDeadlineExceeded(answer.status()))
    return absl::UnavailableError(answer.status().message());
  KILN_RETURN_IF_ERROR(answer.status());
  return DecodeValidation(*answer);
}

}  // namespace kiln
