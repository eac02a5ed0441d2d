// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/recipe.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Call;
using Halide::Internal::Variable;

constexpr absl::string_view kParam = "par";
constexpr const char* kNest = "nest";
constexpr absl::string_view kSource = "cuda_gpu_source_kernels";  // Halide's name for the text
constexpr size_t kLongestTerm = 4096;  // compile time: names are written out where they stand

// The buffer that the variable "NAME.buffer" stands for.
std::string BufferOf(const Expr& expr) {
  const auto* variable = expr.as<Variable>();
  if (variable == nullptr) return "";
  return std::string(absl::StripSuffix(variable->name, ".buffer"));
}

// A host expression as a term of the recipe's language; `failed` where it is none.
class TermPrinter : public Halide::Internal::IRVisitor {
 public:
  TermPrinter(const std::map<std::string, Expr>& lets,
              const std::map<std::string, LaunchOperand>& operands)
      : lets_(lets), operands_(operands) {}

  std::string text;
  bool failed = false;

 private:
  using IRVisitor::visit;
  void Term(const char* op, const Expr& a, const Expr& b) {
    absl::StrAppend(&text, "(", op, " ");
    a.accept(this);
    text += ' ';
    b.accept(this);
    text += ')';
  }
  void Fail() { failed = true; }
  void visit(const Halide::Internal::IntImm* op) override { absl::StrAppend(&text, op->value); }
  void visit(const Halide::Internal::UIntImm* op) override { absl::StrAppend(&text, op->value); }
  void visit(const Halide::Internal::FloatImm*) override { Fail(); }
  void visit(const Halide::Internal::StringImm*) override { Fail(); }
  void visit(const Halide::Internal::Load*) override { Fail(); }
  void visit(const Halide::Internal::Add* op) override { Term("+", op->a, op->b); }
  void visit(const Halide::Internal::Sub* op) override { Term("-", op->a, op->b); }
  void visit(const Halide::Internal::Mul* op) override { Term("*", op->a, op->b); }
  void visit(const Halide::Internal::Min* op) override { Term("min", op->a, op->b); }
  void visit(const Halide::Internal::Max* op) override { Term("max", op->a, op->b); }
  void visit(const Halide::Internal::EQ* op) override { Term("==", op->a, op->b); }
  void visit(const Halide::Internal::NE* op) override { Term("!=", op->a, op->b); }
  void visit(const Halide::Internal::LT* op) override { Term("<", op->a, op->b); }
  void visit(const Halide::Internal::LE* op) override { Term("<=", op->a, op->b); }
  void visit(const Halide::Internal::GT* op) override { Term("<", op->b, op->a); }
  void visit(const Halide::Internal::GE* op) override { Term("<=", op->b, op->a); }
  void visit(const Halide::Internal::And* op) override { Term("and", op->a, op->b); }
  void visit(const Halide::Internal::Or* op) override { Term("or", op->a, op->b); }
  void visit(const Halide::Internal::Not* op) override {
    text += "(not ";
    op->a.accept(this);
    text += ')';
  }
  // Halide's quotient by 0 is 0.
  void visit(const Halide::Internal::Div* op) override { Quotient("/", op->a, op->b); }
  void visit(const Halide::Internal::Mod* op) override { Quotient("%", op->a, op->b); }
  void Quotient(const char* op, const Expr& a, const Expr& b) {
    if (Halide::Internal::is_const(b)) return Term(op, a, b);
    TermPrinter divisor(lets_, operands_);
    b.accept(&divisor);
    failed = failed || divisor.failed;
    absl::StrAppend(&text, "(* (!= ", divisor.text, " 0) (", op, " ");
    a.accept(this);
    absl::StrAppend(&text, " (+ ", divisor.text, " (== ", divisor.text, " 0))))");
  }
  void visit(const Halide::Internal::Cast* op) override {
    if (!op->type.is_int() || op->type.bits() < 32 || !op->value.type().is_int_or_uint())
      return Fail();
    op->value.accept(this);
  }
  void visit(const Halide::Internal::Select* op) override {
    text += "(+ ";
    Term("*", op->condition, op->true_value);
    text += " (* (not ";
    op->condition.accept(this);
    text += ") ";
    op->false_value.accept(this);
    text += "))";
  }
  void visit(const Halide::Internal::Let*) override { Fail(); }
  void visit(const Variable* op) override {
    if (const auto let = lets_.find(op->name); let != lets_.end()) return let->second.accept(this);
    if (!absl::StartsWith(op->name, "extent")) return Fail();
    text += op->name;
  }
  void visit(const Call* op) override {
    if (op->is_intrinsic(Call::likely) || op->is_intrinsic(Call::likely_if_innermost))
      return op->args[0].accept(this);
    if (op->name != Call::buffer_get_stride) return Fail();
    const auto operand = operands_.find(BufferOf(op->args[0]));
    const auto axis = Halide::Internal::as_const_int(op->args[1]);
    if (operand == operands_.end() || !axis) return Fail();
    const char* const kind = operand->second.kind == LaunchOperand::Kind::kInput ? "in" : "out";
    absl::StrAppend(&text, "(stride ", kind, operand->second.number, " ", *axis, ")");
  }

  const std::map<std::string, Expr>& lets_;
  const std::map<std::string, LaunchOperand>& operands_;
};

class LaunchFinder : public Halide::Internal::IRVisitor {
 public:
  explicit LaunchFinder(const std::vector<NestNames>& nests)
      : nests_(nests), launches_(nests.size()) {}

  absl::StatusOr<Launches> Take() {
    KILN_RETURN_IF_ERROR(status_);
    Launches taken = {std::move(ptx_), {}};
    for (std::optional<DeviceLaunch>& launch : launches_) {
      if (!launch) return absl::UnimplementedError("cuda: a nest has no launch");
      taken.of_nests.push_back(*std::move(launch));
    }
    return taken;
  }

 private:
  using IRVisitor::visit;
  void visit(const Halide::Internal::LetStmt* op) override {
    op->value.accept(this);
    if (op->name == kNest) {
      nest_ = static_cast<size_t>(*Halide::Internal::as_const_int(op->value));
      lets_.clear();
    }
    const auto known = Names().strides.find(op->name);
    lets_[op->name] = known != Names().strides.end() ? known->second : op->value;
    op->body.accept(this);
  }
  void visit(const Variable* op) override {
    if (!op->image.defined() || !absl::StartsWith(op->name, kSource)) return;
    ptx_ = static_cast<const char*>(op->image.data());  // ends with 0
  }
  void visit(const Call* op) override {
    if (op->name == "halide_device_malloc") Fail("a Func is in memory of its own on the device");
    if (op->name == "halide_cuda_run") {
      if (launches_[nest_]) Fail("a nest has several launches");
      Read(*op);
    }
    IRVisitor::visit(op);
  }

  const NestNames& Names() const { return nests_[nest_]; }
  void Fail(absl::string_view why) {
    if (status_.ok()) status_ = absl::UnimplementedError(absl::StrCat("cuda: ", why));
  }

  LaunchExpr Parsed(const Expr& expr) {
    TermPrinter printer(lets_, Names().operands);
    expr.accept(&printer);
    absl::StatusOr<LaunchExpr> parsed = LaunchExpr::Parse(printer.text);
    if (!printer.failed && printer.text.size() < kLongestTerm && parsed.ok())
      return *std::move(parsed);
    std::ostringstream text;
    text << expr;
    Fail(absl::StrCat("\"", text.str(), "\" cannot be computed on the host"));
    return {};
  }

  // (state, name, grid, block, shared bytes, sizes, arguments, whether each is a buffer); grid and
  // block are three each.
  void Read(const Call& run) {
    auto next = std::find_if(run.args.begin(), run.args.end(), [](const Expr& argument) {
      return argument.as<Halide::Internal::StringImm>() != nullptr;
    });
    DeviceLaunch launch;
    launch.entry = (next++)->as<Halide::Internal::StringImm>()->value;
    for (LaunchExpr& size : launch.grid) size = Parsed(*next++);
    for (LaunchExpr& size : launch.block) size = Parsed(*next++);
    launch.shared_bytes = Parsed(*next++);
    ++next;
    const std::vector<Expr>& arguments = (next++)->as<Call>()->args;
    const std::vector<Expr>& buffers = next->as<Call>()->args;
    for (size_t k = 0; k + 1 < arguments.size(); ++k)  // the last one ends the list
      launch.arguments.push_back(
          Argument(arguments[k], Halide::Internal::is_const_one(buffers[k])));
    launches_[nest_] = std::move(launch);
  }

  LaunchArgument Argument(Expr expr, bool buffer) {
    LaunchArgument argument;
    if (buffer) {
      argument.kind = LaunchArgument::Kind::kBuffer;
      if (const auto* cast = expr.as<Halide::Internal::Cast>()) expr = cast->value;
      const auto operand = Names().operands.find(BufferOf(expr));
      if (operand == Names().operands.end()) Fail("an argument is no operand");
      if (operand != Names().operands.end()) argument.operand = operand->second;
      return argument;
    }
    if (const auto* call = expr.as<Call>(); call != nullptr && call->args.size() == 1)
      expr = call->args[0];  // its address
    const auto* variable = expr.as<Variable>();
    if (variable != nullptr && absl::StartsWith(variable->name, kParam)) {
      argument.kind = LaunchArgument::Kind::kParam;
      argument.param = std::stoi(variable->name.substr(kParam.size()));
      return argument;
    }
    const bool wide = expr.type().bits() == 64;
    argument.kind = wide ? LaunchArgument::Kind::kInt64 : LaunchArgument::Kind::kInt32;
    if (!expr.type().is_int() || expr.type().bits() < 32) Fail("an argument is no integer");
    argument.value = Parsed(expr);
    return argument;
  }

  const std::vector<NestNames>& nests_;
  size_t nest_ = 0;
  std::map<std::string, Expr> lets_;  // of the nest
  std::vector<std::optional<DeviceLaunch>> launches_;
  std::string ptx_;
  absl::Status status_;
};

}  // namespace

Halide::Internal::Stmt OfNest(int number, const Halide::Internal::Stmt& code) {
  return Halide::Internal::LetStmt::make(kNest, number, code);
}

absl::StatusOr<Launches> LaunchesOf(const Halide::Internal::Stmt& host,
                                    const std::vector<NestNames>& nests) {
  LaunchFinder finder(nests);
  host.accept(&finder);
  return finder.Take();
}

}  // namespace kiln
