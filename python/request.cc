// SPDX-License-Identifier: Apache-2.0
#include "python/request.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/status.h"

namespace kiln::python {
namespace {

// For run() and calls alike: what `out` names.
void SetNamed(const nb::dict& given, const std::vector<PortInfo>& outputs,
              std::vector<nb::object>& out) {
  for (auto [key, array] : given) {
    const std::string name = nb::cast<std::string>(nb::str(key));
    size_t at = 0;
    while (at < outputs.size() && outputs[at].name != name) ++at;
    if (at == outputs.size())
      RaiseInvalid(absl::StrCat("out: the model has no output \"", name, "\""));
    out[at] = nb::borrow(array);
  }
}

// Seconds, of which a year is as good as any more: a clock's ticks do not count that far.
RunControl::Clock::duration DurationOf(nb::handle timeout) {
  const double seconds = PyFloat_AsDouble(timeout.ptr());
  if (seconds == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
  if (std::isnan(seconds)) RaiseInvalid("timeout: is nan, expected seconds or None");
  const double most = std::chrono::duration<double>(std::chrono::years(1)).count();
  return std::chrono::duration_cast<RunControl::Clock::duration>(
      std::chrono::duration<double>(std::clamp(seconds, -most, most)));
}

}  // namespace

void Request::Add(const std::string& name, nb::handle array) {
  if (array.is_none()) return;  // an optional input that is absent
  Given given = TensorOf(array, {"input", name});
  if (given.home == Home::kTorch) home = Home::kTorch;
  inputs.emplace_back(name, std::move(given.tensor));
}

void Request::SetOut(nb::handle given, const std::vector<PortInfo>& outputs) {
  if (given.is_none()) return;
  out.assign(outputs.size(), nb::none());
  if (nb::isinstance<nb::dict>(given)) {
    SetNamed(nb::borrow<nb::dict>(given), outputs, out);
  } else if (nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given)) {
    const nb::sequence arrays = nb::borrow<nb::sequence>(given);
    if (nb::len(arrays) != outputs.size()) {
      RaiseInvalid(absl::StrCat("out: has ", nb::len(arrays), " arrays, and the model ",
                                outputs.size(), " outputs; give None for those without one"));
    }
    for (size_t k = 0; k < outputs.size(); ++k) out[k] = arrays[k];
  } else if (outputs.size() == 1) {
    out[0] = nb::borrow(given);
  } else {
    RaiseInvalid(absl::StrCat("out: is one array, and the model has ", outputs.size(),
                              " outputs; give a dict or a list"));
  }
}

void Request::SetControl(nb::handle timeout, nb::handle cancel) {
  if (!timeout.is_none()) control.deadline = RunControl::Clock::now() + DurationOf(timeout);
  if (cancel.is_none()) return;
  if (!nb::isinstance<Cancel>(cancel)) {
    RaiseInvalid(absl::StrCat("cancel: is a ", nb::cast<std::string>(nb::inst_name(cancel)),
                              ", expected a kiln.Cancel"));
  }
  control.cancel = nb::cast<const Cancel&>(cancel).flag;
}

Request RequestOf(const nb::tuple& args, const nb::dict& named, const std::vector<PortInfo>& inputs,
                  const std::vector<PortInfo>& outputs) {
  Request request;
  const size_t count = args.size();
  if (count > inputs.size()) {
    RaiseInvalid(
        absl::StrCat("inputs: ", count, " arrays are given, and the model has ", inputs.size()));
  }
  request.inputs.reserve(count + named.size());
  for (size_t k = 0; k < count; ++k) request.Add(inputs[k].name, args[k]);
  PyObject *key, *value;
  for (ssize_t at = 0; PyDict_Next(named.ptr(), &at, &key, &value) != 0;) {
    ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr) nb::raise_python_error();
    const std::string name(text, static_cast<size_t>(size));
    const auto is_input = [&] {
      for (const PortInfo& port : inputs) {
        if (port.name == name) return true;
      }
      return false;
    };
    if (name == "out" && !is_input()) {
      request.SetOut(value, outputs);
    } else {
      request.Add(name, value);
    }
  }
  return request;
}

nb::object OneOrAll(std::vector<nb::object> outputs) {
  if (outputs.size() == 1) return std::move(outputs[0]);
  nb::object made = nb::steal(PyTuple_New(static_cast<ssize_t>(outputs.size())));
  if (!made.is_valid()) nb::raise_python_error();
  for (size_t k = 0; k < outputs.size(); ++k)
    PyTuple_SET_ITEM(made.ptr(), static_cast<ssize_t>(k), outputs[k].release().ptr());
  return made;
}

nb::dict Named(const std::vector<PortInfo>& ports, const std::vector<nb::object>& outputs) {
  nb::dict made;
  for (size_t k = 0; k < outputs.size(); ++k) made[ports[k].name.c_str()] = outputs[k];
  return made;
}

}  // namespace kiln::python
