// SPDX-License-Identifier: Apache-2.0
// What Python gives to a run, and gets back.
#ifndef KILN_PYTHON_REQUEST_H_
#define KILN_PYTHON_REQUEST_H_

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kiln/model.h"
#include "python/tensor.h"

namespace kiln::python {

// kiln.Cancel: how a run on one thread is told by another to stop.
struct Cancel {
  std::shared_ptr<std::atomic<bool>> flag = std::make_shared<std::atomic<bool>>(false);
};

// A run as Python asks for it. Its functions raise InvalidArgument.
struct Request {
  NamedTensors inputs;
  std::vector<nb::object> out;  // by output; empty: none is given
  RunControl control;
  Home home = Home::kNumpy;

  // None is an optional input that is absent.
  void Add(const std::string& name, nb::handle array);
  // `out` of a call: an array, a sequence or a dict.
  void SetOut(nb::handle given, const std::vector<PortInfo>& outputs);
  // Seconds or None, a Cancel or None.
  void SetControl(nb::handle timeout, nb::handle cancel);
};

// Takes arrays by position, in a tuple, and by name, in a dict.
Request RequestOf(const nb::tuple& args, const nb::dict& named, const std::vector<PortInfo>& inputs,
                  const std::vector<PortInfo>& outputs);
// What a call gives back: of one output the array, else a tuple.
nb::object OneOrAll(std::vector<nb::object> outputs);
nb::dict Named(const std::vector<PortInfo>& ports, const std::vector<nb::object>& outputs);

}  // namespace kiln::python

#endif  // KILN_PYTHON_REQUEST_H_
