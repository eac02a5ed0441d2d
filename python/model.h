// SPDX-License-Identifier: Apache-2.0
// kiln.Model, which any number of threads may call; it gives the GIL up while it runs.
#ifndef KILN_PYTHON_MODEL_H_
#define KILN_PYTHON_MODEL_H_

#include <map>
#include <utility>
#include <vector>

#include "kiln/model.h"
#include "python/gil.h"

namespace kiln::python {

// Which ports a context has something bound to.
using PortMask = std::vector<bool>;

struct PyModel {
  Released<Model> model;
  // Contexts of runs into memory of the caller, by what is bound to them; what they point at is not
  // theirs, so whoever takes one binds the same ports anew. Guarded by the GIL.
  std::map<PortMask, std::vector<Released<Context>>> idle;

  explicit PyModel(Model made) : model(new Model(std::move(made))) {}
};

}  // namespace kiln::python

#endif  // KILN_PYTHON_MODEL_H_
