// SPDX-License-Identifier: Apache-2.0
// Statuses, log lines, and what all functions of the C interface share.
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "c_api/handles.h"
#include "kiln/log.h"

struct kiln_status {
  kiln_code code;
  std::string message;
};

namespace kiln::c_api {
namespace {

// Told when there is no memory to tell another.
kiln_status* NoMemory() {
  alignas(kiln_status) static unsigned char place[sizeof(kiln_status)];
  static kiln_status* const status =
      new (place) kiln_status{KILN_RESOURCE_EXHAUSTED, "out of memory"};  // fits into a string
  return status;
}

class Sink : public LogSink {
 public:
  Sink(kiln_log_fn write, void* user) : write_(write), user_(user) {}
  void Write(LogLevel level, absl::string_view message) override {
    write_(user_, static_cast<kiln_log_level>(level), std::string(message).c_str());
  }

 private:
  const kiln_log_fn write_;
  void* const user_;
};

}  // namespace

kiln_status* ToC(const absl::Status& status) {
  if (status.ok()) return nullptr;
  try {
    return new kiln_status{static_cast<kiln_code>(status.raw_code()),
                           std::string(status.message())};
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

absl::Status CheckPointer(const void* pointer, absl::string_view what) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("argument \"", what, "\": it is NULL"));
}

absl::Status CheckEnum(unsigned value, unsigned last, absl::string_view what) {
  if (value <= last) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": is ", static_cast<int>(value), ", expected 0 to ", last));
}

absl::Status CheckType(kiln_dtype type, absl::string_view subject) {
  if (kiln_dtype_size(type) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(subject, ": type ", static_cast<int>(type),
                                                 " is none of the ", kNumDTypes, " of kiln_dtype"));
}

}  // namespace kiln::c_api

extern "C" {

uint32_t kiln_abi_version(void) { return KILN_ABI_VERSION; }
const char* kiln_version(void) { return KILN_VERSION; }

kiln_code kiln_status_code(const kiln_status* status) {
  return status != nullptr ? status->code : KILN_OK;
}

const char* kiln_status_message(const kiln_status* status) {
  return status != nullptr ? status->message.c_str() : "";
}

void kiln_status_free(kiln_status* status) {
  if (status != kiln::c_api::NoMemory()) delete status;
}

// A sink is not freed: a thread may still write to it.
void kiln_set_log(kiln_log_fn write, void* user) {
  kiln::LogSink* sink = nullptr;
  if (write != nullptr) sink = new (std::nothrow) kiln::c_api::Sink(write, user);
  kiln::SetLogSink(sink);
}

void kiln_set_log_level(kiln_log_level level) {
  kiln::SetLogLevel(static_cast<kiln::LogLevel>(level));
}

}  // extern "C"
