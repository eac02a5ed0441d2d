// SPDX-License-Identifier: Apache-2.0
// Einsum, and normalisations over neighbours and norms.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

// ---- einsum

// A tensor with a label for each axis. Letters are themselves; the axes of an ellipsis are numbers
// from kEllipsis, counted from the right, so that they broadcast like numpy's.
using Labels = std::vector<int>;
constexpr int kEllipsis = 1000;

struct EinsumTerm {
  ValueId value;
  Labels labels;
};

absl::StatusOr<Labels> ParseTerm(const std::string& text, int64_t ellipsis) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0) {
      for (int64_t k = ellipsis; k-- > 0;) labels.push_back(kEllipsis + static_cast<int>(k));
      i += 2;
    } else if (absl::ascii_isalpha(static_cast<unsigned char>(text[i]))) {
      labels.push_back(text[i]);
    } else {
      return absl::InvalidArgumentError(absl::StrCat("equation has the term \"", text, "\""));
    }
  }
  return labels;
}

bool Has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int64_t PlaceOf(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

// That the extents of a label are the same: known, or assumed from here on.
absl::Status Agree(NodeView& n, int label, const Dim& a, const Dim& b) {
  const std::string what =
      label < kEllipsis ? absl::StrCat("label \"", std::string(1, static_cast<char>(label)), "\"")
                        : "an axis of \"...\"";
  return n.Require(Guard::Same(a, b),
                   absl::StrCat(what, " has extents ", a.ToString(), " and ", b.ToString()));
}

// A label that stands twice is a diagonal: the sum over the second axis of what lies on it.
absl::Status TakeDiagonals(NodeView& n, EinsumTerm& term) {
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const auto again = std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                 term.labels.end(), term.labels[i]);
    if (again == term.labels.end()) continue;
    const auto j = again - term.labels.begin();
    const int64_t rank = RankOf(n, term.value);
    const Shape shape = ShapeOf(n, term.value);
    if (shape.empty()) return n.status();
    KILN_RETURN_IF_ERROR(Agree(n, term.labels[i], shape[i], shape[static_cast<size_t>(j)]));
    const ValueId hit = n.Op("equal", {Coordinates(n, shape[i], static_cast<int64_t>(i), rank),
                                       Coordinates(n, shape[static_cast<size_t>(j)], j, rank)});
    const ValueId zero = n.Scalar(TypeOf(n, term.value), 0);
    term.value = Reduce(n, "reduce_sum", n.Op("where", {hit, term.value, zero}), {j}, false);
    term.labels.erase(again);
    --i;
  }
  return absl::OkStatus();
}

// Sums over the labels of `term` that are not in `keep`.
void SumOthers(NodeView& n, EinsumTerm& term, const std::set<int>& keep) {
  Axes axes;
  Labels left;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (keep.count(term.labels[i]) != 0) {
      left.push_back(term.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (axes.empty()) return;
  term.value = Reduce(n, "reduce_sum", term.value, axes, false);
  term.labels = left;
}

// The axes in the order of `labels`, with an extent of 1 for those that the term lacks.
ValueId Arranged(NodeView& n, const EinsumTerm& term, const Labels& labels) {
  Axes perm, missing;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (Has(term.labels, labels[i])) {
      perm.push_back(PlaceOf(term.labels, labels[i]));
    } else {
      missing.push_back(static_cast<int64_t>(i));
    }
  }
  const bool sorted = std::is_sorted(perm.begin(), perm.end());
  return Unsqueeze(n, sorted ? term.value : Transpose(n, term.value, perm), missing);
}

Dim Together(const NodeView& n, const EinsumTerm& term, const Labels& labels) {
  const Shape shape = ShapeOf(n, term.value);
  Dim product = 1;
  for (const int label : labels) {
    const auto at = static_cast<size_t>(PlaceOf(term.labels, label));
    if (at < shape.size()) product = product * shape[at];
  }
  return product;
}

// The labels that both terms have. One that is summed over and of extent 1 in a single term is the
// other's alone: it broadcasts.
absl::StatusOr<std::set<int>> Shared(NodeView& n, const EinsumTerm& a, const EinsumTerm& b,
                                     const std::set<int>& needed) {
  const Shape sa = ShapeOf(n, a.value), sb = ShapeOf(n, b.value);
  KILN_RETURN_IF_ERROR(n.status());
  std::set<int> shared;
  for (const int label : a.labels) {
    if (!Has(b.labels, label)) continue;
    const Dim& x = sa[static_cast<size_t>(PlaceOf(a.labels, label))];
    const Dim& y = sb[static_cast<size_t>(PlaceOf(b.labels, label))];
    if (needed.count(label) == 0) {
      if (x.IsConst(1) != y.IsConst(1)) continue;
      KILN_RETURN_IF_ERROR(Agree(n, label, x, y));
    }
    shared.insert(label);
  }
  return shared;
}

// The product of two terms, summed over the labels that nothing else needs: one matrix product.
absl::StatusOr<EinsumTerm> TermProduct(NodeView& n, EinsumTerm a, EinsumTerm b,
                                       const std::set<int>& needed) {
  KILN_ASSIGN_OR_RETURN(const std::set<int> shared, Shared(n, a, b, needed));
  std::set<int> keep = needed;
  keep.insert(shared.begin(), shared.end());
  SumOthers(n, a, keep);
  SumOthers(n, b, keep);
  Labels batch, rows, columns, inner;
  for (const int label : a.labels) {
    if (!Has(b.labels, label)) {
      rows.push_back(label);
    } else {
      (needed.count(label) != 0 ? batch : inner).push_back(label);
    }
  }
  for (const int label : b.labels) {
    if (!Has(a.labels, label)) columns.push_back(label);
  }
  EinsumTerm result;
  result.labels = batch;
  result.labels.insert(result.labels.end(), rows.begin(), rows.end());
  result.labels.insert(result.labels.end(), columns.begin(), columns.end());
  if (inner.empty()) {
    result.value = n.Op("mul", {Arranged(n, a, result.labels), Arranged(n, b, result.labels)});
    return result;
  }
  const auto matrix = [&](const EinsumTerm& t, const Labels& first, const Labels& second) {
    Labels order = batch;
    order.insert(order.end(), first.begin(), first.end());
    order.insert(order.end(), second.begin(), second.end());
    const ValueId arranged = Arranged(n, t, order);
    Shape shape = ShapeOf(n, arranged);
    shape.resize(std::min(shape.size(), batch.size()));
    shape.push_back(Together(n, t, first));
    shape.push_back(Together(n, t, second));
    return Reshape(n, arranged, shape);
  };
  const Shape sa = ShapeOf(n, a.value), sb = ShapeOf(n, b.value);
  const ValueId product = n.Op("matmul", {matrix(a, rows, inner), matrix(b, inner, columns)});
  Shape shape = ShapeOf(n, product);
  if (shape.size() < 2) return result;
  shape.resize(batch.size());
  for (const int label : rows) shape.push_back(sa[static_cast<size_t>(PlaceOf(a.labels, label))]);
  for (const int label : columns)
    shape.push_back(sb[static_cast<size_t>(PlaceOf(b.labels, label))]);
  result.value = Reshape(n, product, shape);
  return result;
}

struct Equation {
  std::vector<Labels> terms;
  Labels result;
};

absl::StatusOr<Equation> ParseEquation(NodeView& n) {
  std::string text = n.Text("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::vector<std::string> sides = absl::StrSplit(text, absl::MaxSplits("->", 1));
  const std::vector<std::string> terms = absl::StrSplit(sides[0], ',');
  if (static_cast<int>(terms.size()) != n.num_inputs() || n.num_inputs() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("equation has ", terms.size(), " terms for ", n.num_inputs(), " inputs"));
  }
  Equation equation;
  int64_t widest = 0;
  std::map<int, int> counts;
  for (size_t k = 0; k < terms.size(); ++k) {
    const bool dots = terms[k].find("...") != std::string::npos;
    const int64_t letters = static_cast<int64_t>(terms[k].size()) - (dots ? 3 : 0);
    const int64_t rest = n.rank(static_cast<int>(k)) - letters;
    if (dots ? rest < 0 : rest != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("term \"", terms[k], "\" does not fit rank ", n.rank(static_cast<int>(k))));
    }
    widest = std::max(widest, rest);
    KILN_ASSIGN_OR_RETURN(equation.terms.emplace_back(), ParseTerm(terms[k], rest));
    for (const int label : equation.terms.back()) ++counts[label];
  }
  if (sides.size() == 2) {
    KILN_ASSIGN_OR_RETURN(equation.result, ParseTerm(sides[1], widest));
    for (const int label : equation.result) {
      if (counts.count(label) == 0)
        return absl::InvalidArgumentError("equation has a label on its right side only");
    }
    return equation;
  }
  for (int64_t k = widest; k-- > 0;) equation.result.push_back(kEllipsis + static_cast<int>(k));
  for (const auto& [label, count] : counts) {
    if (count == 1 && label < kEllipsis) equation.result.push_back(label);
  }
  return equation;
}

absl::Status Einsum(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, n.num_inputs()));
  KILN_ASSIGN_OR_RETURN(const Equation equation, ParseEquation(n));
  std::vector<EinsumTerm> terms;
  for (int k = 0; k < n.num_inputs(); ++k) {
    terms.push_back({n.in(k), equation.terms[static_cast<size_t>(k)]});
    KILN_RETURN_IF_ERROR(TakeDiagonals(n, terms.back()));
  }
  EinsumTerm term = terms[0];
  for (size_t k = 1; k < terms.size(); ++k) {
    std::set<int> needed(equation.result.begin(), equation.result.end());
    for (size_t later = k + 1; later < terms.size(); ++later)
      needed.insert(terms[later].labels.begin(), terms[later].labels.end());
    KILN_ASSIGN_OR_RETURN(term, TermProduct(n, term, terms[k], needed));
    KILN_RETURN_IF_ERROR(n.status());
  }
  SumOthers(n, term, std::set<int>(equation.result.begin(), equation.result.end()));
  return n.Emit("identity", {Arranged(n, term, equation.result)});
}

// ---- normalisation

// x / (bias + alpha / size * the sum of squares over `size` neighbouring channels) ^ beta.
absl::Status Lrn(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const Shape shape = n.value(0).shape;
  const int64_t size = n.Int("size", 0);
  if (shape.size() < 2 || size < 1)
    return absl::InvalidArgumentError("needs two axes and a size of one at least");
  const DType stored = n.value(0).type, type = ComputeType(stored);
  const ValueId x = Cast(n, n.in(0), type);
  const Dim places = kiln::Product(Shape(shape.begin() + 2, shape.end()));
  const ValueId plane = Reshape(n, n.Op("mul", {x, x}), {shape[0], 1, shape[1], places});
  const ValueId mean = n.Op("average_pool", {plane},
                            {{"kernel", Axes{size, 1}},
                             {"pads", Axes{(size - 1) / 2, 0, size / 2, 0}},
                             {"count_include_pad", int64_t{1}}});
  const ValueId around = Reshape(n, mean, shape);
  const ValueId base = n.Op("add", {n.Op("mul", {around, n.Scalar(type, n.Float("alpha", 1e-4))}),
                                    n.Scalar(type, n.Float("bias", 1))});
  const ValueId power = n.Op("pow", {base, n.Scalar(type, n.Float("beta", 0.75))});
  return n.Emit("cast", {n.Op("div", {x, power})}, {{"to", stored}});
}

// x / its norm over an axis; 0 where the norm is 0.
absl::Status LpNormalization(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int64_t p = n.Int("p", 2);
  if (p != 1 && p != 2) return absl::InvalidArgumentError(absl::StrCat("p is ", p));
  KILN_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", -1), n.rank(0)));
  const DType stored = n.value(0).type, type = ComputeType(stored);
  const ValueId x = Cast(n, n.in(0), type);
  const ValueId norm = Reduce(n, p == 1 ? "reduce_l1" : "reduce_l2", x, {axis});
  const ValueId zero = n.Scalar(type, 0);
  const ValueId y = n.Op("where", {n.Op("equal", {norm, zero}), zero, n.Op("div", {x, norm})});
  return n.Emit("cast", {y}, {{"to", stored}});
}

constexpr Converter kTensorRows[] = {
    {"Einsum", 12, Einsum},
    {"LRN", 6, Lrn},
    {"LpNormalization", 6, LpNormalization},
};

}  // namespace

std::span<const Converter> TensorConverters() { return kTensorRows; }

}  // namespace kiln::onnx
