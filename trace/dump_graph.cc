// SPDX-License-Identifier: Apache-2.0
#include "trace/dump_graph.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trace/failure.h"
#include "trace/steps.h"

namespace kiln::tracing {
namespace {

class NamedConverter {
 public:
  NamedConverter(const Record& record, const DumpOptions& options)
      : log_(record.log), options_(options), ids_(log_.values.size()) {
    for (size_t k = 0; k < record.results.size() && options.keep_var_name > 0; ++k)
      output_names_.emplace(record.results[k], OutputName(k));
  }

  std::string OutputName(size_t k) const {
    return k < options_.output_names.size() ? options_.output_names[k] : absl::StrCat("out_", k);
  }

  void AddArguments(size_t count) {
    for (size_t k = 0; k < count; ++k) {
      const ValueType& type = log_.values[k].type;
      ids_[k] = graph.AddInput(
          k < options_.arg_names.size() ? options_.arg_names[k] : absl::StrCat("arg_", k),
          type.type, ToShape(type.shape()));
    }
  }

  absl::Status Add(const Operation& operation) {
    std::vector<ValueId> inputs;
    for (const uint32_t id : log_.OperandsOf(operation)) {
      KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), OperandOf(id));
    }
    const CallForm& form = *operation.form;
    const std::string place = absl::StrCat(form.op->name, ":", ToString(operation.where));
    std::vector<std::string> names;
    for (uint32_t k = 0; k < form.num_results; ++k)
      names.push_back(ValueName(operation.first_result + k, place));
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> results,
        graph.AddNode(*form.op, std::move(inputs), form.attrs,
                      options_.keep_opr_name ? NodeName(place) : "", std::move(names)));
    for (size_t k = 0; k < results.size(); ++k) ids_[operation.first_result + k] = results[k];
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> OperandOf(uint32_t id) {
    if (id == kAbsent) return ValueId{};
    if (ids_[id].valid()) return ids_[id];
    const LogValue& value = log_.values[id];
    if (value.kind == LogValue::Kind::kCaptured) {
      const size_t number = captured_++;
      const Tensor& tensor = value.node->tensor;
      if (tensor.device() != Device()) {
        return absl::UnimplementedError(
            absl::StrCat("captured array ", number, " ", value.type.ToString(),
                         " lies on a device; copy it to the host before the function is recorded"));
      }
      return ids_[id] = graph.AddConstant(
                 options_.keep_param_name ? absl::StrCat("param_", number) : "", tensor.Clone());
    }
    return ids_[id] = graph.AddConstant("", ElementsOf(value));
  }

  Graph graph;

 private:
  std::string ValueName(uint32_t id, const std::string& place) const {
    if (const auto output = output_names_.find(id); output != output_names_.end())
      return output->second;
    return options_.keep_var_name > 1 ? place : absl::StrCat("v", id);
  }
  std::string NodeName(const std::string& place) {
    const int before = node_names_[place]++;
    return before == 0 ? place : absl::StrCat(place, "[", before, "]");
  }

  const Log& log_;
  const DumpOptions& options_;
  std::vector<ValueId> ids_;
  std::map<uint32_t, std::string> output_names_;  // of the first output that a value is
  std::map<std::string, int> node_names_;
  size_t captured_ = 0;  // arrays, so far
};

}  // namespace

absl::StatusOr<Graph> ToNamedGraph(const Record& record, const std::string& name,
                                   const DumpOptions& options) {
  NamedConverter convert(record, options);
  convert.graph.name = name;
  convert.AddArguments(record.arguments.size());
  for (const Operation& operation : record.log.operations)
    if (operation.kind == Operation::Kind::kCall) KILN_RETURN_IF_ERROR(convert.Add(operation));
  for (size_t k = 0; k < record.results.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(const ValueId id, convert.OperandOf(record.results[k]));
    convert.graph.AddOutput(id, convert.OutputName(k));
  }
  convert.graph.RemoveDead();
  return std::move(convert.graph);
}

}  // namespace kiln::tracing
