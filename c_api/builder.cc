// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c_api/compile_options.h"
#include "c_api/handles.h"
#include "kiln/compile.h"
#include "kiln/graph.h"

struct kiln_builder {
  kiln::GraphBuilder builder;
  absl::Status failed = {};  // the first error of an argument; the builder has those of the graph

  absl::Status status() const { return failed.ok() ? builder.status() : failed; }
};

namespace kiln::c_api {
namespace {

absl::StatusOr<AttrValue> ValueOf(const kiln_attr& attr) {
  const auto need = [&](const void* pointer) {
    return CheckPointer(pointer, absl::StrCat("attribute ", attr.name));
  };
  switch (attr.kind) {
    case KILN_ATTR_INT:
      return attr.i;
    case KILN_ATTR_FLOAT:
      return attr.f;
    case KILN_ATTR_STRING:
      KILN_RETURN_IF_ERROR(need(attr.s));
      return std::string(attr.s);
    case KILN_ATTR_INTS:
      if (attr.count > 0) KILN_RETURN_IF_ERROR(need(attr.ints));
      return std::vector<int64_t>(attr.ints, attr.ints + attr.count);
    case KILN_ATTR_FLOATS:
      if (attr.count > 0) KILN_RETURN_IF_ERROR(need(attr.floats));
      return std::vector<double>(attr.floats, attr.floats + attr.count);
    case KILN_ATTR_DTYPE:
      if (attr.i < 0 || attr.i >= kNumDTypes) break;
      return static_cast<DType>(attr.i);
    case KILN_ATTR_TENSOR:
      KILN_RETURN_IF_ERROR(need(attr.tensor));
      return attr.tensor->tensor;
    case KILN_ATTR_BODY: {
      KILN_RETURN_IF_ERROR(need(attr.body));
      KILN_RETURN_IF_ERROR(attr.body->failed);
      KILN_ASSIGN_OR_RETURN(Body body, std::move(attr.body->builder).FinishBody());
      return body;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("attribute \"", attr.name, "\": kind ", static_cast<int>(attr.kind),
                   " with value ", attr.i, " is none of kiln_attr_kind or kiln_dtype"));
}

absl::StatusOr<Attrs> AttrsOf(const kiln_attr* attrs, size_t count) {
  Attrs made;
  if (count > 0) KILN_RETURN_IF_ERROR(CheckPointer(attrs, "attrs"));
  for (size_t k = 0; k < count; ++k) {
    KILN_RETURN_IF_ERROR(CheckPointer(attrs[k].name, "name of an attribute"));
    KILN_ASSIGN_OR_RETURN(AttrValue value, ValueOf(attrs[k]));
    made.insert_or_assign(attrs[k].name, std::move(value));
  }
  return made;
}

// A value of `body`, which gives a StatusOr of ids; none after an error, which the builder keeps.
template <typename Body>
std::vector<ValueId> Add(kiln_builder* builder, Body&& body) {
  if (builder == nullptr || !builder->status().ok()) return {};
  auto made = CatchExceptions("graph builder", std::forward<Body>(body));
  if (made.ok()) return *std::move(made);
  builder->failed = made.status();
  return {};
}

using Ids = absl::StatusOr<std::vector<ValueId>>;

kiln_value First(const std::vector<ValueId>& ids) { return ids.empty() ? -1 : ids[0].v; }

}  // namespace
}  // namespace kiln::c_api

using kiln::c_api::Add;
using kiln::c_api::CheckPointer;
using kiln::c_api::First;
using kiln::c_api::Ids;

extern "C" {

kiln_builder* kiln_builder_new(const char* name) {
  return kiln::c_api::NewHandle<kiln_builder>(
      [&] { return kiln::GraphBuilder(kiln::c_api::TextOf(name)); });
}

void kiln_builder_free(kiln_builder* builder) { delete builder; }

kiln_value kiln_builder_input(kiln_builder* builder, const char* name, kiln_dtype type,
                              const char* const* dims, size_t rank) {
  return First(Add(builder, [&]() -> Ids {
    KILN_RETURN_IF_ERROR(CheckPointer(name, "name"));
    KILN_RETURN_IF_ERROR(kiln::c_api::CheckType(type, "graph builder"));
    KILN_ASSIGN_OR_RETURN(const auto texts, kiln::c_api::Names(dims, rank, "dims"));
    kiln::Shape shape;
    for (const std::string& text : texts) {
      absl::StatusOr<kiln::Dim> dim = kiln::Dim::Parse(text);
      if (!dim.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("input \"", name, "\": dim \"", text, "\": ", dim.status().message()));
      }
      shape.push_back(*std::move(dim));
    }
    return std::vector<kiln::ValueId>{
        builder->builder.Input(name, static_cast<kiln::DType>(type), std::move(shape))};
  }));
}

kiln_value kiln_builder_constant(kiln_builder* builder, const kiln_tensor* tensor,
                                 const char* name) {
  return First(Add(builder, [&]() -> Ids {
    KILN_RETURN_IF_ERROR(CheckPointer(tensor, "tensor"));
    return std::vector<kiln::ValueId>{
        builder->builder.Constant(tensor->tensor, kiln::c_api::TextOf(name))};
  }));
}

kiln_value kiln_builder_scalar(kiln_builder* builder, kiln_dtype type, double value) {
  return First(Add(builder, [&]() -> Ids {
    KILN_RETURN_IF_ERROR(kiln::c_api::CheckType(type, "graph builder"));
    return std::vector<kiln::ValueId>{
        builder->builder.Scalar(static_cast<kiln::DType>(type), value)};
  }));
}

size_t kiln_builder_op(kiln_builder* builder, const char* op, const kiln_value* inputs,
                       size_t num_inputs, const kiln_attr* attrs, size_t num_attrs,
                       const char* name, kiln_value* out, size_t capacity) {
  const std::vector<kiln::ValueId> ids = Add(builder, [&]() -> Ids {
    KILN_RETURN_IF_ERROR(CheckPointer(op, "op"));
    if (num_inputs > 0) KILN_RETURN_IF_ERROR(CheckPointer(inputs, "inputs"));
    if (capacity > 0) KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(kiln::Attrs given, kiln::c_api::AttrsOf(attrs, num_attrs));
    std::vector<kiln::ValueId> operands;
    for (size_t k = 0; k < num_inputs; ++k) operands.push_back({inputs[k]});
    return builder->builder.Ops(op, std::move(operands), std::move(given),
                                kiln::c_api::TextOf(name));
  });
  for (size_t k = 0; k < capacity && out != nullptr; ++k) out[k] = k < ids.size() ? ids[k].v : -1;
  return ids.size();
}

void kiln_builder_output(kiln_builder* builder, kiln_value value, const char* name) {
  Add(builder, [&]() -> Ids {
    KILN_RETURN_IF_ERROR(CheckPointer(name, "name"));
    builder->builder.Output({value}, name);
    return std::vector<kiln::ValueId>();
  });
}

kiln_status* kiln_builder_status(const kiln_builder* builder) {
  return kiln::c_api::CallOn(builder, "builder", [&] { return builder->status(); });
}

kiln_status* kiln_builder_compile(kiln_builder* builder, const kiln_compile_options* options,
                                  kiln_model** out) {
  return kiln::c_api::CallOn(builder, "builder", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_RETURN_IF_ERROR(builder->status());
    return kiln::c_api::MakeModel(options, out, [&](const kiln::CompileOptions& given) {
      return Compile(std::move(builder->builder), given);
    });
  });
}

}  // extern "C"
