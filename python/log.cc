// SPDX-License-Identifier: Apache-2.0
// Kiln's lines go to a function of Python, from any thread and without waiting for it.
#include "kiln/log.h"

#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "python/bindings.h"
#include "python/deferred.h"
#include "python/status.h"

namespace kiln::python {

namespace nb = nanobind;
namespace {

constexpr std::array<const char*, 5> kLevels = {"debug", "info", "warning", "error", "off"};

class Lines : public LogSink {
 public:
  void Write(LogLevel level, absl::string_view message) override {
    Later([this, level, text = std::string(message)] {
      if (!write_.is_valid()) return;
      const nb::object write = write_;
      try {
        write((static_cast<int>(level) + 1) * 10, text);  // as in logging: DEBUG is 10
      } catch (nb::python_error& error) {
        error.restore();
      }
    });
  }
  void SetWrite(nb::object write) { write_ = std::move(write); }

 private:
  nb::object write_;
};

// A line may be under way when the process ends, so it is never destroyed.
Lines& Sink() {
  static auto* const lines = new Lines;
  return *lines;
}

void LogTo(nb::object write) {
  RunDeferred();
  const bool none = write.is_none();
  SetLogSink(none ? nullptr : &Sink());
  Sink().SetWrite(none ? nb::object() : std::move(write));
}

void SetLevel(const std::string& name) {
  for (size_t k = 0; k < kLevels.size(); ++k) {
    if (kLevels[k] == name) return SetLogLevel(static_cast<LogLevel>(k));
  }
  RaiseInvalid(absl::StrCat("level: is \"", name, "\", expected ", absl::StrJoin(kLevels, ", ")));
}

}  // namespace

void BindLog(nb::module_& module) {
  module.def("log_to", LogTo, nb::arg("write").none(),
             nb::sig("def log_to(write: Callable[[int, str], None] | None) -> None"));
  module.def("set_log_level", SetLevel, nb::arg("level"),
             "'debug', 'info', 'warning', 'error' or 'off'; at first KILN_LOG, or 'warning'.");
}

}  // namespace kiln::python
