// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/bound_judge.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "exec/strided_copy.h"

namespace kiln {
namespace {

int64_t Below(std::mt19937_64& random, int64_t high) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(high, 1)));
}
template <typename T>
const T& AnyOf(std::mt19937_64& random, const std::vector<T>& values) {
  return values[static_cast<size_t>(Below(random, static_cast<int64_t>(values.size())))];
}

Tensor ViewAt(const Tensor& memory, int64_t place, const Tensor& like) {
  return Tensor::View(static_cast<char*>(memory.data()) + place, like.dtype(), like.shape(), {},
                      memory.owner());
}

Tensor Bytes(int64_t bytes) { return Tensor::Allocate(DType::kU8, {bytes}); }

// The elements of `tensor`, dense at `place`, or with axes in the other order, or backwards.
Tensor Write(std::mt19937_64& random, const Tensor& memory, int64_t place, const Tensor& tensor) {
  const auto item = static_cast<int64_t>(SizeOf(tensor.dtype()));
  const std::vector<int64_t>& shape = tensor.shape();
  std::vector<int64_t> strides = tensor.strides();
  char* data = static_cast<char*>(memory.data()) + place;
  const int64_t form = tensor.num_elements() > 0 && tensor.rank() > 0 ? Below(random, 8) : 7;
  if (form == 0) {
    data += (shape[0] - 1) * strides[0] * item;
    strides[0] = -strides[0];
  } else if (form == 1) {
    int64_t step = 1;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      strides[axis] = step;
      step *= shape[axis];
    }
  }
  StridedCopy(shape, tensor.strides(), strides, SizeOf(tensor.dtype())).Run(tensor.data(), data);
  return Tensor::View(data, tensor.dtype(), shape, strides, memory.owner());
}

// A piece of memory as it was.
struct Watched {
  MemoryRange range;
  std::vector<uint8_t> before;
  explicit Watched(MemoryRange r) : range(r) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(range.begin);
    before.assign(bytes, bytes + (range.end - range.begin));
  }
  // How many bytes have changed that are not in `written`.
  int64_t Changed(const std::vector<MemoryRange>& written) const {
    if (before.empty() ||
        std::memcmp(reinterpret_cast<const void*>(range.begin), before.data(), before.size()) == 0)
      return 0;
    int64_t changed = 0;
    for (uintptr_t at = range.begin; at < range.end; ++at) {
      if (*reinterpret_cast<const uint8_t*>(at) == before[at - range.begin]) continue;
      changed += std::none_of(written.begin(), written.end(),
                              [&](const MemoryRange& r) { return r.begin <= at && at < r.end; });
    }
    return changed;
  }
};

int64_t Changed(const std::vector<Watched>& watched, const std::vector<MemoryRange>& written) {
  int64_t changed = 0;
  for (const Watched& piece : watched) changed += piece.Changed(written);
  return changed;
}

// Whether the input's memory holds another output than a state of its kind: numbers of iterations
// and places are what the program takes, or what it computes for them.
bool Spoilt(const Tensor& input, const std::vector<Tensor>& made) {
  return std::any_of(made.begin(), made.end(), [&](const Tensor& output) {
    const bool alike = IsFloat(input.dtype()) && output.dtype() == input.dtype();
    return Overlap(output, input) && !alike;
  });
}

}  // namespace

absl::StatusOr<BoundJudge> BoundJudge::Create(const BoundProgram& program,
                                              const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(program.graph, options));
  return BoundJudge(std::move(model), program.inputs);
}

absl::StatusOr<std::vector<Tensor>> BoundJudge::Reference(const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    KILN_RETURN_IF_ERROR(reference_.Bind(model_.inputs()[i].name, inputs[i].Clone()));
  KILN_RETURN_IF_ERROR(reference_.Run());
  std::vector<Tensor> outputs;
  for (const PortInfo& port : model_.outputs()) {
    KILN_ASSIGN_OR_RETURN(const Tensor output, reference_.Output(port.name));
    outputs.push_back(output.Clone());
  }
  return outputs;
}

std::string BoundJudge::Describe(const Ports& ports, const std::string& what) const {
  std::string text = what;
  const auto add = [&](const char* kind, const std::string& name, const Tensor& tensor) {
    const MemoryRange range = RangeOf(tensor);
    absl::StrAppend(&text, "\n  ", kind, " ", name, ": ", Name(tensor.dtype()), " [",
                    absl::StrJoin(tensor.shape(), ", "), "] at [", range.begin, ", ", range.end,
                    ")", tensor.is_dense() ? "" : ", not dense");
  };
  for (size_t i = 0; i < ports.inputs.size(); ++i)
    add("input", model_.inputs()[i].name, ports.inputs[i]);
  for (size_t i = 0; i < ports.outputs.size(); ++i) {
    if (ports.outputs[i]) add("output", model_.outputs()[i].name, *ports.outputs[i]);
  }
  return text;
}

bool BoundJudge::Overlapping(const Ports& ports) const {
  for (size_t a = 0; a < ports.outputs.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (ports.outputs[a] && ports.outputs[b] && Overlap(*ports.outputs[a], *ports.outputs[b]))
        return true;
    }
  }
  return false;
}

std::string BoundJudge::CheckResults(Context& context, const Ports& ports,
                                     const std::vector<Tensor>& want) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string& name = model_.outputs()[i].name;
    const auto got = context.Output(name);
    if (!got.ok()) return got.status().ToString();
    const Comparison comparison = CompareBits(*got, want[i]);
    if (!comparison.ok) return absl::StrCat("output ", name, ": ", comparison.what);
    outputs.push_back(*got);
    if (ports.outputs[i]) {
      if (got->data() != ports.outputs[i]->data())
        return absl::StrCat("output ", name, " is not where it was bound");
      continue;
    }
    for (const Tensor& input : ports.inputs) {
      if (Overlap(input, *got)) return absl::StrCat("unbound output ", name, " lies over an input");
    }
  }
  for (size_t a = 0; a < outputs.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (Overlap(outputs[a], outputs[b]))
        return absl::StrCat("outputs ", b, " and ", a, " overlap");
    }
  }
  return "";
}

std::string BoundJudge::Run(Context& context, const Ports& ports, const std::vector<Tensor>& want) {
  std::vector<Watched> watched;
  std::vector<MemoryRange> written;
  const auto wrong = [&](const std::string& what) { return Describe(ports, what); };
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    watched.emplace_back(RangeOf(ports.inputs[i]));
    const absl::Status status = context.Bind(model_.inputs()[i].name, ports.inputs[i]);
    if (!status.ok()) return wrong(status.ToString());
  }
  bool over = false;
  for (size_t i = 0; i < ports.outputs.size(); ++i) {
    if (!ports.outputs[i]) continue;
    written.push_back(RangeOf(*ports.outputs[i]));
    watched.emplace_back(written.back());
    const absl::Status status = context.BindOutput(model_.outputs()[i].name, *ports.outputs[i]);
    if (!status.ok()) return wrong(status.ToString());
    for (const Tensor& input : ports.inputs) over |= Overlap(input, *ports.outputs[i]);
  }
  if (ports.memory.size_bytes() > 0) watched.emplace_back(RangeOf(ports.memory));
  const absl::Status status = context.Run();
  if (Overlapping(ports)) {
    ++refused_;
    if (status.code() != absl::StatusCode::kInvalidArgument)
      return wrong(absl::StrCat("outputs overlap: ", status.ToString()));
    const int64_t changed = Changed(watched, {});
    return changed == 0 ? "" : wrong(absl::StrCat("refused, but ", changed, " bytes changed"));
  }
  if (!status.ok()) return wrong(status.ToString());
  over_ += over;
  const std::string what = CheckResults(context, ports, want);
  if (!what.empty()) return wrong(what);
  const int64_t changed = Changed(watched, written);
  return changed == 0 ? "" : wrong(absl::StrCat(changed, " bytes outside of outputs changed"));
}

std::string BoundJudge::Pairs() {
  const auto want = Reference(inputs_);
  if (!want.ok()) return want.status().ToString();
  for (size_t o = 0; o < want->size(); ++o) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int64_t bytes = inputs_[i].size_bytes();
      if (bytes == 0 || bytes != (*want)[o].size_bytes()) continue;
      Ports ports{inputs_, {}, Tensor()};
      ports.outputs.resize(want->size());
      ports.inputs[i] = inputs_[i].Clone();
      ports.outputs[o] = ViewAt(ports.inputs[i], 0, (*want)[o]);
      Context context = model_.NewContext();
      const std::string what = Run(context, ports, *want);
      if (!what.empty()) return absl::StrCat("pair: ", what);
    }
  }
  return "";
}

// Inputs lie apart, or are one memory where any of their values will do.
std::vector<Tensor> BoundJudge::PlaceInputs(std::mt19937_64& random, const Tensor& memory,
                                            std::vector<int64_t>& places) {
  std::vector<Tensor> placed;
  int64_t at = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& input = inputs_[i];
    const auto item = static_cast<int64_t>(SizeOf(input.dtype()));
    const size_t twin = static_cast<size_t>(Below(random, static_cast<int64_t>(i) + 1));
    if (twin < i && IsFloat(input.dtype()) && inputs_[twin].dtype() == input.dtype() &&
        inputs_[twin].shape() == input.shape() && Below(random, 2) == 0) {
      places.push_back(places[twin]);
      placed.push_back(ViewAt(memory, places[twin], input));
      continue;
    }
    at = (at + item - 1) / item * item + Below(random, 3) * item;
    if (Below(random, 2) == 0) at = (at + 63) / 64 * 64;
    places.push_back(at);
    placed.push_back(Write(random, memory, at, input));
    at += input.size_bytes();
  }
  return placed;
}

std::optional<Tensor> BoundJudge::PlaceOutput(std::mt19937_64& random, const Tensor& memory,
                                              const std::vector<int64_t>& places,
                                              const Tensor& like) {
  const int64_t room = memory.size_bytes() - like.size_bytes();
  const auto item = static_cast<int64_t>(SizeOf(like.dtype()));
  const int64_t kind = Below(random, 8);
  if (kind == 0 || places.empty()) return std::nullopt;
  int64_t place = Below(random, room + 1);
  if (kind < 4) place = AnyOf(random, places);
  if (kind == 4 || kind == 5) place = AnyOf(random, places) + (Below(random, 9) - 4) * item;
  place = std::clamp<int64_t>(place, 0, room) / item * item;
  return ViewAt(memory, place, like);
}

std::string BoundJudge::Layout(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto first = Reference(inputs_);
  if (!first.ok()) return first.status().ToString();
  int64_t room = 256;
  for (const Tensor& tensor : inputs_) room += tensor.size_bytes() + 128;
  for (const Tensor& tensor : *first) room += tensor.size_bytes() + 64;
  Ports ports;
  ports.memory = Bytes(room);
  std::memset(ports.memory.data(), 1, static_cast<size_t>(room));
  std::vector<int64_t> places;
  ports.inputs = PlaceInputs(random, ports.memory, places);
  const auto want = Reference(ports.inputs);
  if (!want.ok()) return "";  // twins do not go together
  const int tries = Below(random, 4) == 0 ? 1 : 8;
  for (const Tensor& like : *want) {
    ports.outputs.emplace_back();
    if (like.size_bytes() > room) continue;
    for (int k = 0; k < tries; ++k) {
      ports.outputs.back() = PlaceOutput(random, ports.memory, places, like);
      if (tries == 1 || !Overlapping(ports)) break;
      ports.outputs.back() = std::nullopt;
    }
  }
  Context context = model_.NewContext();
  const std::string what = Run(context, ports, *want);
  return what.empty() ? "" : absl::StrCat("layout ", seed, ": ", what);
}

// Inputs of the next run: what the last one has made, the same again, or values of the program's.
void BoundJudge::Feed(std::mt19937_64& random, const std::vector<Tensor>& made,
                      Ports& ports) const {
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    std::vector<Tensor> fit;
    for (const Tensor& output : made) {
      if (output.dtype() == inputs_[i].dtype() && output.shape() == inputs_[i].shape())
        fit.push_back(output);
    }
    if (!fit.empty() && Below(random, 4) > 0) {
      ports.inputs[i] = AnyOf(random, fit);
    } else if (Below(random, 2) == 0 || Spoilt(ports.inputs[i], made)) {
      ports.inputs[i] = inputs_[i].Clone();
    }
  }
}

// An output that has been bound stays so, in other memory where it is of another shape now.
void BoundJudge::Rebind(std::mt19937_64& random, const std::vector<Tensor>& made,
                        const std::vector<Tensor>& want, Ports& ports) const {
  for (size_t o = 0; o < want.size(); ++o) {
    std::optional<Tensor>& bound = ports.outputs[o];
    if (bound && bound->shape() != want[o].shape()) bound = want[o].Clone();
    if (Below(random, 3) > 0) continue;
    const std::optional<Tensor> before = bound;
    std::vector<Tensor> over = {Bytes(want[o].size_bytes())};
    for (const auto* tensors : {&std::as_const(ports.inputs), &made}) {
      for (const Tensor& tensor : *tensors) {
        if (tensor.is_dense() && tensor.size_bytes() == want[o].size_bytes())
          over.push_back(tensor);
      }
    }
    bound = ViewAt(AnyOf(random, over), 0, want[o]);
    if (Overlapping(ports)) bound = before;
  }
}

std::string BoundJudge::FedBack(uint64_t seed, int runs) {
  std::mt19937_64 random(seed);
  Context context = model_.NewContext();
  Ports ports{inputs_, {}, Tensor()};
  for (Tensor& input : ports.inputs) input = input.Clone();
  ports.outputs.resize(model_.outputs().size());
  std::vector<Tensor> made;
  for (int run = 0; run < runs; ++run) {
    Feed(random, made, ports);
    const auto want = Reference(ports.inputs);
    if (!want.ok()) return "";  // what came out cannot go in
    Rebind(random, made, *want, ports);
    if (Overlapping(ports)) return "";
    const std::string what = Run(context, ports, *want);
    if (!what.empty()) return absl::StrCat("fed back ", seed, ", run ", run, ": ", what);
    made.clear();
    for (const PortInfo& port : model_.outputs()) made.push_back(*context.Output(port.name));
  }
  return "";
}

}  // namespace kiln
