// SPDX-License-Identifier: Apache-2.0
#include "tests/kernel/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// SplitMix64: the same sequence with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int Below(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[static_cast<size_t>(Below(static_cast<int>(values.size())))];
  }

 private:
  uint64_t state_;
};

class KernelMaker {
 public:
  explicit KernelMaker(uint64_t seed) : random_(seed) {}

  Kernel MakeViews() {
    views_ = true;
    return Make();
  }

  Kernel Make() {
    const int iterated = 1 + random_.Below(3) + (random_.OneIn(6) ? 1 : 0);
    for (int d = 0; d < iterated; ++d) {
      kernel_.dims.push_back({std::string(1, static_cast<char>('a' + d)), true});
      all_.push_back(d);
    }
    if (views_ || random_.OneIn(4)) kernel_.dims.push_back({"n0", false});
    main_ = random_.OneIn(3) ? random_.Of(kTypes) : DType::kF32;
    const int inputs = 1 + random_.Below(4);
    for (int k = 0; k < inputs; ++k) AddInput(k == 0);
    const int params = random_.Below(3);
    for (int k = 0; k < params; ++k)
      kernel_.params.push_back(k == 0 ? ComputeType(main_) : DType::kF32);
    const int stages = random_.Below(5);
    for (int k = 0; k < stages; ++k) AddStage();
    const int outputs = random_.OneIn(3) ? 2 + random_.Below(2) : 1;
    for (int k = 0; k < outputs; ++k) AddOutput(k == 0);
    return std::move(kernel_);
  }

  Kernel MakeSums() {
    const int iterated = 1 + random_.Below(3);
    for (int d = 0; d < iterated; ++d) {
      kernel_.dims.push_back({std::string(1, static_cast<char>('a' + d)), true});
      all_.push_back(d);
    }
    const int loaded = 1 + (random_.OneIn(3) ? 1 : 0);
    for (int k = 0; k < loaded; ++k) kernel_.dims.push_back({absl::StrCat("n", k), false});
    main_ = random_.OneIn(3) ? random_.Of(std::vector<DType>{DType::kF64, DType::kI32, DType::kI64,
                                                             DType::kU32, DType::kU64})
                             : DType::kF32;
    AddInput(true);
    AddInput(false);
    if (random_.OneIn(2)) kernel_.params.push_back(main_);
    const int stages = random_.Below(3);
    for (int k = 0; k < stages; ++k) {
      AddStage();
      const bool reduces = kernel_.stages.back().kind == Stage::Kind::kReduce;
      if (reduces && !random_.OneIn(5)) kernel_.stages.pop_back();
    }
    KernelOutput output;
    output.type = main_;
    output.expr = Expression(all_, main_);
    Dims own;
    const int rows = random_.Below(iterated + 1);  // own coordinates: the last of all, mostly
    own.assign(all_.end() - rows, all_.end());
    if (random_.OneIn(4)) own = Shuffled(Subset());
    const Ex value{&output.expr, output.expr.root()};
    std::vector<IndexExpr> index;
    for (int k = 0; k < loaded; ++k) {
      output.dims.push_back(static_cast<int32_t>(iterated + k));
      index.push_back(IndexExpr::Load(Place(output.expr).id));
    }
    for (const int32_t d : own) {
      output.dims.push_back(d);
      index.push_back(IndexExpr::Dim(d));
    }
    if (random_.OneIn(4)) {  // a loaded axis behind one of these
      std::rotate(output.dims.begin(), output.dims.begin() + 1, output.dims.end());
      std::rotate(index.begin(), index.begin() + 1, index.end());
    }
    output.expr.set_root(AddAt(value, std::move(index)).id);
    output.expr.Prune();
    kernel_.outputs.push_back(std::move(output));
    return std::move(kernel_);
  }

 private:
  // A coordinate as an element of an input of its own says.
  Ex Place(ScalarExpr& expr) {
    KernelInput places;
    places.type =
        random_.Of(std::vector<DType>{DType::kI64, DType::kI32, DType::kI64, DType::kU32});
    places.dims = {all_.begin(), all_.end() - random_.Below(static_cast<int>(all_.size()))};
    kernel_.inputs.push_back(places);
    along_.push_back(places.dims);
    return Plain(expr, places.type, ReadSource::kInput, kernel_.inputs.size() - 1, places.dims);
  }

  static inline const std::vector<DType> kTypes = {
      DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,  DType::kI32,
      DType::kI64, DType::kU8,  DType::kI16, DType::kU32,  DType::kBool};
  using Dims = std::vector<int32_t>;

  Dims Subset() {
    if (random_.OneIn(2)) return all_;
    Dims dims;
    for (const int32_t d : all_) {
      if (random_.Below(3) != 0) dims.push_back(d);
    }
    return dims;
  }
  Dims Shuffled(Dims dims) {
    if (!random_.OneIn(6)) return dims;
    for (size_t i = dims.size(); i > 1; --i)
      std::swap(dims[i - 1], dims[static_cast<size_t>(random_.Below(static_cast<int>(i)))]);
    return dims;
  }
  Layout SomeLayout() {
    const int k = random_.Below(8);
    return k == 0 ? Layout::kStrided : k == 1 ? Layout::kRows : Layout::kDense;
  }

  void AddInput(bool first) {
    KernelInput input;
    input.type = random_.OneIn(5) ? random_.Of(kTypes) : main_;
    input.dims = first ? all_ : Shuffled(Subset());
    if (!first && !views_ && kernel_.dims.size() > all_.size() && random_.OneIn(2))
      input.dims = {static_cast<int32_t>(all_.size())};
    input.layout = SomeLayout();
    along_.push_back(input.dims);
    for (int32_t& axis : input.dims) {
      if (!views_ || random_.OneIn(3)) continue;
      axis = static_cast<int32_t>(kernel_.dims.size());
      kernel_.dims.push_back({absl::StrCat("n", kernel_.dims.size() - all_.size()), false});
    }
    kernel_.inputs.push_back(std::move(input));
  }

  // Of an input whose axes but for views are the dims along which it is read.
  Ex Element(ScalarExpr& expr, size_t k) {
    const KernelInput& input = kernel_.inputs[k];
    std::vector<IndexExpr> index;
    for (size_t axis = 0; axis < input.dims.size(); ++axis) {
      const int32_t along = along_[k][axis];
      index.push_back(IndexExpr::Dim(along));
      if (input.dims[axis] != along) View(index.back(), along, input.dims[axis]);
    }
    return Read(expr, ComputeType(input.type), ReadSource::kInput, static_cast<int32_t>(k),
                std::move(index));
  }

  // No guard says that the elements are there: the axis is as long as it takes.
  void View(IndexExpr& index, int32_t along, int32_t axis) {
    const auto shift = static_cast<int32_t>(all_.size());
    const int kind = random_.Below(5);
    if (kind == 0) {  // backwards, from the end
      index.terms = {{along, false, -1}, {axis, true, 1}};
      index.offset = -1;
    } else if (kind == 1) {
      index.offset = random_.Below(4);
    } else if (kind == 2) {
      index.terms[0].coef = 2;
      index.offset = random_.Below(2);
    } else if (kind == 3) {  // what is left behind another part
      index.terms.push_back({shift, true, 1});
    }
  }

  void AddStage() {
    Stage stage;
    Dims scope = Subset();
    if (random_.Below(3) != 0 && !scope.empty()) {
      stage.kind = Stage::Kind::kReduce;
      const bool inner = random_.OneIn(2);
      for (const int32_t d : scope) {
        const bool over = inner ? d == scope.back() : random_.OneIn(2);
        (over ? stage.over : stage.dims).push_back(d);
      }
      if (stage.over.empty()) std::swap(stage.over, stage.dims);
    } else {
      stage.dims = scope;
    }
    stage.type = random_.OneIn(6) ? ComputeType(random_.Of(kTypes)) : ComputeType(main_);
    if (stage.kind == Stage::Kind::kReduce) {
      const bool bits = stage.type == DType::kBool || (IsInt(stage.type) && random_.OneIn(4));
      constexpr ReduceOp kArithmetic[] = {ReduceOp::kAdd, ReduceOp::kAdd, ReduceOp::kMax,
                                          ReduceOp::kMin, ReduceOp::kMul};
      stage.op = bits ? (random_.OneIn(2) ? ReduceOp::kAnd : ReduceOp::kOr)
                      : kArithmetic[random_.Below(5)];
    }
    stage.expr = Expression(scope, stage.type);
    kernel_.stages.push_back(std::move(stage));
  }

  void AddOutput(bool first) {
    KernelOutput output;
    const Dims scope = first ? all_ : Subset();
    output.dims = Shuffled(scope);
    output.layout = random_.OneIn(6) ? SomeLayout() : Layout::kDense;
    output.type = random_.OneIn(6) ? random_.Of(kTypes) : main_;
    output.expr = Expression(scope, ComputeType(output.type));
    kernel_.outputs.push_back(std::move(output));
  }

  ScalarExpr Expression(const Dims& scope, DType type) {
    ScalarExpr expr;
    expr.set_root(Node(expr, scope, type, 2 + random_.Below(3)).id);
    expr.Prune();
    return expr;
  }

  static bool Covers(const Dims& scope, const Dims& dims) {
    return std::all_of(dims.begin(), dims.end(), [&](int32_t d) {
      return std::find(scope.begin(), scope.end(), d) != scope.end();
    });
  }

  Ex Leaf(ScalarExpr& expr, const Dims& scope, DType type) {
    std::vector<Ex> choices;
    for (int pass = 0; pass < 2 && choices.empty(); ++pass) {
      for (size_t k = 0; k < kernel_.stages.size(); ++k) {
        const Stage& stage = kernel_.stages[k];
        if ((stage.type == type || pass == 1) && Covers(scope, stage.dims)) {
          choices.push_back(Plain(expr, stage.type, ReadSource::kStage, k, stage.dims));
        }
      }
      for (size_t k = 0; k < kernel_.inputs.size(); ++k) {
        const KernelInput& input = kernel_.inputs[k];
        if ((ComputeType(input.type) == type || pass == 1)) {
          if (Covers(scope, along_[k]))
            choices.push_back(Element(expr, k));
          else if (random_.OneIn(3))
            choices.push_back(Indexed(expr, scope, k));
        }
      }
      for (size_t k = 0; k < kernel_.params.size(); ++k) {
        if (kernel_.params[k] == type)
          choices.push_back(Param(expr, type, static_cast<int32_t>(k)));
      }
    }
    if (!scope.empty() && random_.OneIn(12)) return Cast(Coordinate(expr, random_.Of(scope)), type);
    if (random_.OneIn(12)) return Cast(Extent(expr, random_.Of(all_)), type);
    if (!scope.empty() && random_.OneIn(10)) return Cast(Shifted(expr, scope), type);
    if (choices.empty() || random_.OneIn(8)) return Literal(expr, type, random_.Below(5) - 1.5);
    return Cast(random_.Of(choices), type);
  }

  static Ex Plain(ScalarExpr& expr, DType type, ReadSource source, size_t k, const Dims& dims) {
    std::vector<IndexExpr> index;
    for (const int32_t d : dims) index.push_back(IndexExpr::Dim(d));
    return Read(expr, type, source, static_cast<int32_t>(k), std::move(index));
  }

  // An input some of whose axes are not in scope: those are looked up by a value, which is clamped
  // to the axis.
  Ex Indexed(ScalarExpr& expr, const Dims& scope, size_t k) {
    const KernelInput& input = kernel_.inputs[k];
    std::vector<IndexExpr> index;
    for (const int32_t d : input.dims) {
      const bool plain = std::find(scope.begin(), scope.end(), d) != scope.end();
      const Ex at = scope.empty() ? Literal(expr, DType::kI64, random_.Below(5) - 2)
                                  : Coordinate(expr, random_.Of(scope)) -
                                        Literal(expr, DType::kI64, random_.Below(9));
      index.push_back(plain ? IndexExpr::Dim(d) : IndexExpr::Load(at.id));
    }
    return NonEmpty(expr, input,
                    Read(expr, ComputeType(input.type), ReadSource::kInput, static_cast<int32_t>(k),
                         std::move(index)));
  }

  // A loaded index is clamped to its axis, which must not be empty.
  Ex NonEmpty(ScalarExpr& expr, const KernelInput& input, Ex read) {
    const Ex zero = Literal(expr, DType::kI64, 0);
    Ex inside = Literal(expr, DType::kBool, 1);
    for (const int32_t d : input.dims) inside = inside && (zero < Extent(expr, d));
    return Guarded(inside, read, read.Like(0));
  }

  // in0 at a shifted, halved or reversed coordinate, guarded to its axis.
  Ex Shifted(ScalarExpr& expr, const Dims& scope) {
    const KernelInput& input = kernel_.inputs[0];
    if (!Covers(scope, input.dims) || input.dims.empty()) return Coordinate(expr, scope[0]);
    const auto axis = static_cast<size_t>(random_.Below(static_cast<int>(input.dims.size())));
    const int32_t d = input.dims[axis];
    std::vector<IndexExpr> index;
    for (const int32_t dim : input.dims) index.push_back(IndexExpr::Dim(dim));
    const Ex zero = Literal(expr, DType::kI64, 0);
    const DType type = ComputeType(input.type);
    const int kind = random_.Below(4);
    if (kind == 0) {  // reversed
      index[axis].terms = {{d, false, -1}, {d, true, 1}};
      index[axis].offset = -1;
    } else if (kind == 1) {
      index[axis].div = 1 + random_.Below(4);
    } else if (kind == 2) {
      index[axis].mod = 1 + random_.Below(4);
    } else {
      const int offset = random_.Below(9) - 4;
      index[axis].offset = offset;
      const Ex at = Coordinate(expr, d) + Literal(expr, DType::kI64, offset);
      const Ex read = Read(expr, type, ReadSource::kInput, 0, std::move(index));
      return Guarded((zero <= at) && (at < Extent(expr, d)), read, read.Like(random_.Below(2)));
    }
    return Read(expr, type, ReadSource::kInput, 0, std::move(index));
  }

  Ex Node(ScalarExpr& expr, const Dims& scope, DType type, int depth) {
    if (depth == 0) return Leaf(expr, scope, type);
    if (random_.OneIn(10))
      return Cast(Node(expr, scope, ComputeType(random_.Of(kTypes)), depth - 1), type);
    const Ex a = Node(expr, scope, type, depth - 1);
    const Ex b = random_.OneIn(6) ? a : Node(expr, scope, type, random_.Below(depth));
    if (random_.OneIn(7)) return Select(Condition(a, b), a, b);
    if (type == DType::kBool) {
      constexpr ScalarOp kLogic[] = {ScalarOp::kAnd, ScalarOp::kOr, ScalarOp::kXor};
      return random_.OneIn(4) ? !a : Apply(kLogic[random_.Below(3)], a, b);
    }
    return IsFloat(type) ? Float(a, b) : Integer(a, b);
  }

  Ex Condition(Ex a, Ex b) {
    if (a.type() == DType::kBool) return a;
    if (IsFloat(a.type()) && random_.OneIn(4)) return Apply(ScalarOp::kIsNan, a);
    constexpr ScalarOp kCompare[] = {ScalarOp::kLt, ScalarOp::kLe, ScalarOp::kEq, ScalarOp::kNe};
    return Apply(kCompare[random_.Below(4)], a, b);
  }

  Ex Float(Ex a, Ex b) {
    const int kind = random_.Below(10);
    if (kind < 6) {
      constexpr ScalarOp kBinary[] = {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul,
                                      ScalarOp::kMul, ScalarOp::kDiv, ScalarOp::kMin,
                                      ScalarOp::kMax, ScalarOp::kAdd};
      return Apply(kBinary[random_.Below(8)], a, b);
    }
    if (kind == 6) return Apply(ScalarOp::kFma, a, b, a);
    if (kind == 7 && a.type() == DType::kF32 && random_.OneIn(4))
      return RoundTo(a, random_.OneIn(2) ? DType::kF16 : DType::kBF16);
    if (kind <= 8) {
      constexpr ScalarOp kUnary[] = {ScalarOp::kNeg,   ScalarOp::kAbs,   ScalarOp::kSign,
                                     ScalarOp::kSqrt,  ScalarOp::kFloor, ScalarOp::kCeil,
                                     ScalarOp::kRound, ScalarOp::kTrunc};
      return Apply(kUnary[random_.Below(8)], a);
    }
    constexpr ScalarOp kFunctions[] = {ScalarOp::kExp, ScalarOp::kTanh,  ScalarOp::kSigmoid,
                                       ScalarOp::kLog, ScalarOp::kRsqrt, ScalarOp::kErf};
    return Apply(kFunctions[random_.Below(a.type() == DType::kF32 ? 6 : 5)], a);
  }

  Ex Integer(Ex a, Ex b) {
    constexpr ScalarOp kBinary[] = {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMul, ScalarOp::kMin,
                                    ScalarOp::kMax, ScalarOp::kDiv, ScalarOp::kMod, ScalarOp::kAnd,
                                    ScalarOp::kOr,  ScalarOp::kXor, ScalarOp::kShl, ScalarOp::kShr};
    constexpr ScalarOp kUnary[] = {ScalarOp::kNeg, ScalarOp::kAbs, ScalarOp::kSign, ScalarOp::kNot};
    return random_.OneIn(4) ? Apply(kUnary[random_.Below(4)], a)
                            : Apply(kBinary[random_.Below(12)], a, b);
  }

  Random random_;
  Kernel kernel_;
  std::vector<int32_t> all_;
  std::vector<Dims> along_;  // of each input: the dim along which each axis is read
  bool views_ = false;
  DType main_ = DType::kF32;
};

uint64_t RandomValue(Random& random, DType type) {
  const DType compute = ComputeType(type);
  if (type == DType::kBool) return random.Next() & 1;
  if (!IsFloat(type))
    return ConstBits(compute, random.OneIn(8)
                                  ? std::ldexp(random.Below(256) - 128, random.Below(56))
                                  : random.Below(41) - 20);
  const int kind = random.Below(64);
  const double inf = std::numeric_limits<double>::infinity();
  const double specials[] = {0.0,      -0.0,      inf,       -inf,     std::nan(""),
                             0x1p-149, -0x1p-140, 0x1p-1060, 0x1p-126, 3.4e38,
                             -3.4e38,  1e-30,     88.9,      -104.2};
  if (kind == 0) return ConstBits(compute, specials[random.Below(14)]);
  return ConstBits(compute,
                   (random.Below(1 << 24) - (1 << 23)) * std::ldexp(1.0, -23 + random.Below(4)));
}

RandomOperand MakeOperand(Random& random, DType type, const std::vector<int32_t>& dims,
                          Layout layout, const std::vector<int64_t>& extents) {
  RandomOperand operand;
  operand.type = type;
  for (const int32_t d : dims) operand.shape.push_back(extents[static_cast<size_t>(d)]);
  std::vector<int64_t> padded = operand.shape;
  const bool rows = layout != Layout::kDense;
  if (rows && !padded.empty()) padded.back() += random.Below(4);
  operand.strides = DenseStrides(padded);
  if (layout == Layout::kStrided) {
    const int64_t step = 1 + random.Below(3);
    for (int64_t& stride : operand.strides) stride *= step;
  }
  int64_t last = 0;
  bool empty = false;
  for (size_t k = 0; k < dims.size(); ++k) {
    last += std::max<int64_t>(operand.shape[k] - 1, 0) * operand.strides[k];
    empty = empty || operand.shape[k] == 0;
  }
  const size_t used = (empty ? 0 : static_cast<size_t>(last) + 1) * SizeOf(type);
  operand.bytes.assign(used + 2 * RandomOperand::kPad, 0xa5);
  return operand;
}

// Calls fn with the offset, in elements, of each element.
template <typename Fn>
void ForEachElement(const RandomOperand& operand, Fn&& fn) {
  std::vector<int64_t> at(operand.shape.size(), 0);
  if (std::find(operand.shape.begin(), operand.shape.end(), 0) != operand.shape.end()) return;
  while (true) {
    int64_t offset = 0;
    for (size_t k = 0; k < at.size(); ++k) offset += at[k] * operand.strides[k];
    fn(offset);
    size_t k = at.size();
    while (k > 0 && ++at[k - 1] == operand.shape[k - 1]) at[--k] = 0;
    if (k == 0) return;
  }
}

std::vector<NaiveBuffer> Buffers(std::vector<RandomOperand>& operands) {
  std::vector<NaiveBuffer> buffers;
  for (RandomOperand& operand : operands) buffers.push_back({operand.data(), operand.strides});
  return buffers;
}

bool BothNan(DType type, uint64_t a, uint64_t b) {
  return IsFloat(type) && std::isnan(ConstValue(ComputeType(type), a)) &&
         std::isnan(ConstValue(ComputeType(type), b));
}

}  // namespace

Kernel RandomKernel(uint64_t seed) { return KernelMaker(seed).Make(); }
Kernel RandomSums(uint64_t seed) { return KernelMaker(seed).MakeSums(); }
Kernel RandomViews(uint64_t seed) { return KernelMaker(seed).MakeViews(); }

std::vector<NaiveBuffer> RandomRun::InputBuffers() { return Buffers(inputs); }
std::vector<NaiveBuffer> RandomRun::OutputBuffers() { return Buffers(outputs); }

namespace {

constexpr uint64_t kRunSeed = 0x5bd1e995;

RandomRun FilledRun(const Kernel& kernel, std::vector<int64_t> extents, Random& random) {
  RandomRun run;
  run.extents = std::move(extents);
  for (const DType type : kernel.params) run.params.push_back(RandomValue(random, type));
  for (const KernelInput& input : kernel.inputs) {
    run.inputs.push_back(MakeOperand(random, input.type, input.dims, input.layout, run.extents));
    RandomOperand& operand = run.inputs.back();
    ForEachElement(operand, [&](int64_t at) {
      StoreElement(operand.data(), input.type, at, RandomValue(random, input.type));
    });
  }
  for (const KernelOutput& output : kernel.outputs) {
    run.outputs.push_back(
        MakeOperand(random, output.type, output.dims, output.layout, run.extents));
  }
  return run;
}

}  // namespace

RandomRun MakeRandomRunAt(const Kernel& kernel, uint64_t seed, std::vector<int64_t> extents) {
  Random random(seed ^ kRunSeed);
  return FilledRun(kernel, std::move(extents), random);
}

RandomRun MakeRandomRun(const Kernel& kernel, uint64_t seed, int64_t max_elements) {
  Random random(seed ^ kRunSeed);
  const std::vector<int64_t> choices = {1,    2,    3,    7,    8,    15,  16,  17,
                                        63,   64,   65,   100,  129,  511, 512, 513,
                                        1025, 4095, 4096, 4097, 5000, 8200};
  std::vector<int64_t> extents(kernel.dims.size(), 1);
  int64_t product = 1;
  const size_t start =
      static_cast<size_t>(random.Below(static_cast<int>(std::max<size_t>(kernel.dims.size(), 1))));
  for (size_t i = 0; i < kernel.dims.size(); ++i) {
    int64_t extent = 0;
    do {
      extent = random.Of(choices);
    } while (extent * product > max_elements && extent > 1);
    extents[(start + i) % kernel.dims.size()] = extent;
    product *= extent;
  }
  if (!extents.empty() && random.OneIn(20)) extents[start] = 0;
  return FilledRun(kernel, std::move(extents), random);
}

bool AnyEmpty(const std::vector<RandomOperand>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const RandomOperand& operand) {
    return std::find(operand.shape.begin(), operand.shape.end(), 0) != operand.shape.end();
  });
}

std::string FirstDifference(const Kernel& kernel, const RandomRun& got, const RandomRun& want) {
  for (size_t k = 0; k < kernel.outputs.size(); ++k) {
    RandomOperand a = got.outputs[k];
    RandomOperand b = want.outputs[k];
    std::string difference;
    ForEachElement(a, [&](int64_t at) {
      const uint64_t x = LoadElement(a.data(), a.type, at);
      const uint64_t y = LoadElement(b.data(), b.type, at);
      if (difference.empty() && x != y && !BothNan(a.type, x, y)) {
        difference = absl::StrCat(
            "out ", k, " at offset ", at, ": ", ConstValue(ComputeType(a.type), x), " (",
            absl::Hex(x), "), want ", ConstValue(ComputeType(a.type), y), " (", absl::Hex(y), ")");
      }
      StoreElement(a.data(), a.type, at, 0);
      StoreElement(b.data(), b.type, at, 0);
    });
    if (!difference.empty()) return difference;
    if (a.bytes != b.bytes)
      return absl::StrCat("out ", k, ": memory outside its elements was written");
  }
  return "";
}

}  // namespace kiln
