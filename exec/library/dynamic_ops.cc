// SPDX-License-Identifier: Apache-2.0
#include "exec/library/dynamic_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln::library {
namespace {

using Results = absl::StatusOr<std::vector<Tensor>>;

std::optional<int64_t> Attr(const Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || found->second.empty()) return std::nullopt;
  return found->second[0];
}

int64_t* Ints(Tensor& tensor) { return static_cast<int64_t*>(tensor.data()); }

// Calls f with a pointer to the elements, 16-bit floats widened to f32.
template <typename F>
auto Typed(const Tensor& t, F&& f) {
  const auto halves = [&](float (*widen)(uint16_t)) {
    std::vector<float> wide(static_cast<size_t>(t.num_elements()));
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = widen(static_cast<uint16_t*>(t.data())[i]);
    return f(static_cast<const float*>(wide.data()));
  };
  const void* data = t.data();
  switch (t.dtype()) {
    case DType::kF32:
      return f(static_cast<const float*>(data));
    case DType::kF64:
      return f(static_cast<const double*>(data));
    case DType::kF16:
      return halves(HalfToFloat);
    case DType::kBF16:
      return halves(BFloatToFloat);
    case DType::kI8:
      return f(static_cast<const int8_t*>(data));
    case DType::kI16:
      return f(static_cast<const int16_t*>(data));
    case DType::kI32:
      return f(static_cast<const int32_t*>(data));
    case DType::kI64:
      return f(static_cast<const int64_t*>(data));
    case DType::kU16:
      return f(static_cast<const uint16_t*>(data));
    case DType::kU32:
      return f(static_cast<const uint32_t*>(data));
    case DType::kU64:
      return f(static_cast<const uint64_t*>(data));
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return f(static_cast<const uint8_t*>(data));
}

Results Nonzero(const Tensor& x) {
  std::vector<int64_t> found = Typed(x, [&](const auto* data) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      if (data[i] != 0) places.push_back(i);
    }
    return places;
  });
  const auto count = static_cast<int64_t>(found.size());
  Tensor out = Tensor::Allocate(DType::kI64, {x.rank(), count});
  for (int axis = x.rank(); axis-- > 0;) {
    const int64_t extent = x.shape()[static_cast<size_t>(axis)];
    for (int64_t j = 0; j < count; ++j) {
      int64_t& rest = found[static_cast<size_t>(j)];
      Ints(out)[axis * count + j] = rest % extent;
      rest /= extent;
    }
  }
  return std::vector<Tensor>{out};
}

// A tensor as [outer, extent, inner] around an axis; without one as [1, elements, 1].
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;
  std::optional<size_t> axis;

  Around(const Tensor& x, std::optional<int64_t> given) {
    if (!given) {
      extent = x.num_elements();
      return;
    }
    axis = static_cast<size_t>(*given < 0 ? *given + x.rank() : *given);
    for (size_t i = 0; i < x.shape().size(); ++i)
      (i < *axis ? outer : i == *axis ? extent : inner) *= x.shape()[i];
  }
};

Tensor TakeSlices(const Tensor& x, const Around& a, const std::vector<int64_t>& chosen) {
  std::vector<int64_t> shape = {static_cast<int64_t>(chosen.size())};
  if (a.axis) {
    shape = x.shape();
    shape[*a.axis] = static_cast<int64_t>(chosen.size());
  }
  Tensor out = Tensor::Allocate(x.dtype(), shape);
  const auto bytes = static_cast<size_t>(a.inner) * SizeOf(x.dtype());
  char* to = static_cast<char*>(out.data());
  for (int64_t o = 0; o < a.outer; ++o) {
    for (const int64_t k : chosen) {
      if (bytes > 0)
        std::memcpy(
            to, static_cast<const char*>(x.data()) + static_cast<size_t>(o * a.extent + k) * bytes,
            bytes);
      to += bytes;
    }
  }
  return out;
}

Results Compress(const Attributes& attributes, const Tensor& x, const Tensor& mask) {
  const Around a(x, Attr(attributes, "axis"));
  std::vector<int64_t> chosen;
  for (int64_t k = 0; k < mask.num_elements(); ++k) {
    if (static_cast<const uint8_t*>(mask.data())[k] == 0) continue;
    if (k >= a.extent)
      return absl::InvalidArgumentError(
          absl::StrCat("the condition chooses slice ", k, " of an axis of ", a.extent));
    chosen.push_back(k);
  }
  return std::vector<Tensor>{TakeSlices(x, a, chosen)};
}

// Order of the slices of an axis, NaN last.
template <typename T>
struct SliceOrder {
  const T* data;
  const Around& a;

  int Compare(int64_t p, int64_t q) const {
    for (int64_t o = 0; o < a.outer; ++o) {
      for (int64_t i = 0; i < a.inner; ++i) {
        const T x = data[(o * a.extent + p) * a.inner + i];
        const T y = data[(o * a.extent + q) * a.inner + i];
        if (x < y || (x == x && y != y)) return -1;
        if (y < x || (y == y && x != x)) return 1;
      }
    }
    return 0;
  }
  bool HasNan(int64_t p) const {
    for (int64_t o = 0; o < a.outer; ++o) {
      for (int64_t i = 0; i < a.inner; ++i) {
        const T x = data[(o * a.extent + p) * a.inner + i];
        if (x != x) return true;
      }
    }
    return false;
  }
};

// Not a template: of each element type it would be 6 KB of code.
void StableSort(std::vector<int64_t>& order, absl::FunctionRef<bool(int64_t, int64_t)> before) {
  std::stable_sort(order.begin(), order.end(), before);
}

Results Unique(const Attributes& attributes, const Tensor& x) {
  const Around a(x, Attr(attributes, "axis"));
  struct Kind {
    int64_t first, count;
    int64_t place;  // in the result
  };
  std::vector<Kind> kinds;  // in sorted order
  std::vector<size_t> kind_of(static_cast<size_t>(a.extent));
  Typed(x, [&]<typename T>(const T* data) {
    const SliceOrder<T> order{data, a};
    std::vector<int64_t> sorted(static_cast<size_t>(a.extent));
    std::iota(sorted.begin(), sorted.end(), 0);
    StableSort(sorted, [&](int64_t p, int64_t q) { return order.Compare(p, q) < 0; });
    for (size_t i = 0; i < sorted.size(); ++i) {
      const bool same = i > 0 && order.Compare(sorted[i - 1], sorted[i]) == 0 &&
                        !order.HasNan(sorted[i]);  // NaN equals nothing
      if (!same) kinds.push_back({sorted[i], 0, static_cast<int64_t>(kinds.size())});
      ++kinds.back().count;
      kind_of[static_cast<size_t>(sorted[i])] = kinds.size() - 1;
    }
  });
  const auto count = static_cast<int64_t>(kinds.size());
  std::vector<size_t> order(kinds.size());
  std::iota(order.begin(), order.end(), 0);
  if (Attr(attributes, "sorted").value_or(1) == 0) {
    std::sort(order.begin(), order.end(),
              [&](size_t p, size_t q) { return kinds[p].first < kinds[q].first; });
  }
  Tensor firsts = Tensor::Allocate(DType::kI64, {count});
  Tensor inverse = Tensor::Allocate(DType::kI64, {a.extent});
  Tensor counts = Tensor::Allocate(DType::kI64, {count});
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < order.size(); ++i) {
    Kind& kind = kinds[order[i]];
    kind.place = static_cast<int64_t>(i);
    chosen.push_back(kind.first);
    Ints(firsts)[i] = kind.first;
    Ints(counts)[i] = kind.count;
  }
  for (size_t k = 0; k < kind_of.size(); ++k) Ints(inverse)[k] = kinds[kind_of[k]].place;
  return std::vector<Tensor>{TakeSlices(x, a, chosen), firsts, inverse, counts};
}

// ---- non_max_suppression

template <typename T>
struct Box {
  T y1, x1, y2, x2;
  Box(const T* v, bool center) {
    if (center) {  // x, y, width, height
      y1 = v[1] - v[3] / 2;
      x1 = v[0] - v[2] / 2;
      y2 = v[1] + v[3] / 2;
      x2 = v[0] + v[2] / 2;
    } else {
      y1 = std::min(v[0], v[2]);
      x1 = std::min(v[1], v[3]);
      y2 = std::max(v[0], v[2]);
      x2 = std::max(v[1], v[3]);
    }
  }
  T Area() const { return (y2 - y1) * (x2 - x1); }
  T Overlap(const Box& b) const {
    const T both = std::max(T(0), std::min(y2, b.y2) - std::max(y1, b.y1)) *
                   std::max(T(0), std::min(x2, b.x2) - std::max(x1, b.x1));
    const T all = Area() + b.Area() - both;
    return all > 0 ? both / all : 0;
  }
};

struct NmsLimits {
  int64_t most = 0;
  float overlap = 0;
  std::optional<float> score;
  bool center = false;
};

// Boxes of one class in one batch.
template <typename T>
std::vector<int64_t> Survivors(const T* boxes, const T* scores, int64_t n,
                               const NmsLimits& limits) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) {
    if (!limits.score || scores[i] > *limits.score) order.push_back(i);
  }
  // A NaN score is the worst: a strict order needs a place for it.
  StableSort(order, [&](int64_t p, int64_t q) {
    return scores[p] > scores[q] || (scores[p] == scores[p] && scores[q] != scores[q]);
  });
  std::vector<int64_t> kept;
  std::vector<Box<T>> taken;
  for (const int64_t i : order) {
    if (static_cast<int64_t>(kept.size()) >= limits.most) break;
    const Box<T> box(boxes + i * 4, limits.center);
    const bool covered = std::any_of(taken.begin(), taken.end(), [&](const Box<T>& other) {
      return other.Overlap(box) > limits.overlap;
    });
    if (covered) continue;
    kept.push_back(i);
    taken.push_back(box);
  }
  return kept;
}

Results MatchExtent(const Attributes& attributes, const Tensor& x, const Tensor& like) {
  const int64_t axis = Attr(attributes, "axis").value_or(0);
  const int64_t extent = Around(x, axis).extent;
  const int64_t wanted = Around(like, Attr(attributes, "to").value_or(0)).extent;
  if (extent != wanted)
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " has extent ", extent, ", expected ", wanted));
  return std::vector<Tensor>{x};
}

Results NonMaxSuppression(const Attributes& attributes, const std::vector<Tensor>& inputs) {
  const auto given = [&](size_t k) {
    return inputs.size() > k && inputs[k].data() != nullptr && inputs[k].num_elements() == 1;
  };
  NmsLimits limits;
  limits.center = Attr(attributes, "center_point_box").value_or(0) != 0;
  if (given(2)) limits.most = *static_cast<const int64_t*>(inputs[2].data());
  if (given(3)) limits.overlap = *static_cast<const float*>(inputs[3].data());
  if (given(4)) limits.score = *static_cast<const float*>(inputs[4].data());
  const Tensor& boxes = inputs[0];
  const Tensor& scores = inputs[1];
  const int64_t batches = scores.shape()[0], classes = scores.shape()[1], n = scores.shape()[2];
  if (boxes.shape() != std::vector<int64_t>{batches, n, 4})
    return absl::InvalidArgumentError("boxes and scores do not go together");
  if (boxes.dtype() != scores.dtype())
    return absl::InvalidArgumentError("boxes and scores have different types");
  std::vector<int64_t> rows;
  Typed(boxes, [&]<typename T>(const T* box) {
    Typed(scores, [&]<typename S>(const S* score) {
      if constexpr (std::is_same_v<T, S> && std::is_floating_point_v<T>) {
        for (int64_t b = 0; b < batches; ++b) {
          for (int64_t c = 0; c < classes; ++c) {
            for (const int64_t i :
                 Survivors(box + b * n * 4, score + (b * classes + c) * n, n, limits))
              rows.insert(rows.end(), {b, c, i});
          }
        }
      }
    });
  });
  Tensor out = Tensor::Allocate(DType::kI64, {static_cast<int64_t>(rows.size()) / 3, 3});
  if (!rows.empty()) std::memcpy(out.data(), rows.data(), rows.size() * sizeof(int64_t));
  return std::vector<Tensor>{out};
}

// Whether the inputs are what the code above takes for granted. An importer has seen to it; a
// package may be by anybody.
absl::Status CheckInputs(absl::string_view op, const Attributes& attributes,
                         const std::vector<Tensor>& inputs) {
  const bool two = op == "match_extent" || op == "compress" || op == "non_max_suppression";
  const size_t needed = two ? 2 : 1;
  const auto is_there = [](const Tensor& t) {
    return t.data() != nullptr || t.num_elements() == 0;
  };
  bool right = inputs.size() >= needed;
  for (size_t k = 0; right && k < needed; ++k) right = is_there(inputs[k]);
  const auto has_axis = [&](const char* name, const Tensor& t) {
    const std::optional<int64_t> axis = Attr(attributes, name);
    return !axis || (*axis >= -t.rank() && *axis < t.rank());
  };
  if (right && op != "elements" && op != "measure" && op != "nonzero")
    right = has_axis("axis", inputs[0]);
  if (right && op == "match_extent")
    right = has_axis("to", inputs[1]) && inputs[0].rank() > 0 && inputs[1].rank() > 0;
  if (right && op == "compress") right = inputs[1].dtype() == DType::kBool;
  if (right && op == "non_max_suppression") {
    right = inputs[0].rank() == 3 && inputs[1].rank() == 3;
    static constexpr DType kLimits[] = {DType::kI64, DType::kF32, DType::kF32};
    for (size_t k = 2; right && k < std::min<size_t>(inputs.size(), 5); ++k)
      right = inputs[k].data() == nullptr || inputs[k].dtype() == kLimits[k - 2];
  }
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("operator \"", op, "\": has other inputs or axes than it takes"));
}

}  // namespace

bool IsDynamic(absl::string_view op) {
  return op == "elements" || op == "measure" || op == "match_extent" || op == "nonzero" ||
         op == "compress" || op == "unique" || op == "non_max_suppression";
}

absl::StatusOr<std::vector<Tensor>> RunDynamic(absl::string_view op, const Attributes& attributes,
                                               const std::vector<Tensor>& inputs) {
  KILN_RETURN_IF_ERROR(CheckInputs(op, attributes, inputs));
  if (op == "elements" || op == "measure") return std::vector<Tensor>{inputs[0]};
  if (op == "match_extent") return MatchExtent(attributes, inputs[0], inputs[1]);
  if (op == "nonzero") return Nonzero(inputs[0]);
  if (op == "compress") return Compress(attributes, inputs[0], inputs[1]);
  if (op == "unique") return Unique(attributes, inputs[0]);
  if (op == "non_max_suppression") return NonMaxSuppression(attributes, inputs);
  return absl::UnimplementedError(absl::StrCat("operator \"", op, "\" has no form for the host"));
}

}  // namespace kiln::library
