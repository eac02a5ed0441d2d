// SPDX-License-Identifier: Apache-2.0
#include "python/status.h"

#include <nanobind/nanobind.h>

#include <optional>

#include "kiln/trace.h"

namespace nb = nanobind;

namespace kiln::python {

void Raise(const absl::Status& status) {
  const nb::object of = nb::module_::import_("kiln._errors").attr("of");
  const std::optional<TraceError> kind = TraceErrorOf(status);
  const absl::string_view name = kind ? Name(*kind) : "";
  const nb::object error =
      of(static_cast<int>(status.code()),
         nb::str(status.message().data(), static_cast<size_t>(status.message().size())),
         nb::str(name.data(), name.size()));
  PyErr_SetObject(error.type().ptr(), error.ptr());
  nb::raise_python_error();
}

void RaiseInvalid(const std::string& message) { Raise(absl::InvalidArgumentError(message)); }

}  // namespace kiln::python
