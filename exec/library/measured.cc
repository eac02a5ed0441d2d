// SPDX-License-Identifier: Apache-2.0
#include "exec/library/measured.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/interleave.h"
#include "exec/support/launch.h"

namespace kiln::library {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of operands that are made up to be timed
constexpr char kLastResort[] = "loop";            // never faster, and slow to time

std::string OperandText(const Operand& operand) {
  if (!operand.present) return "absent";
  return absl::StrCat(Name(operand.type), " [", absl::StrJoin(operand.shape, ","), "] strides [",
                      absl::StrJoin(operand.strides, ","), "]",
                      operand.constant != nullptr ? " constant" : "");
}

// Bytes from the first element to the last, 0 where there are none; negative: too many.
int64_t SpanBytes(const Operand& operand) {
  int64_t last = 0;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    int64_t step = 0;
    if (operand.shape[axis] == 0) return 0;
    if (__builtin_mul_overflow(operand.shape[axis] - 1, operand.strides[axis], &step) ||
        __builtin_add_overflow(last, step, &last) || last < 0 || last > kMostBytes)
      return -1;
  }
  return (last + 1) * static_cast<int64_t>(SizeOf(operand.type));
}

// Memory for the operands of a request, and for the scratch of one primitive at a time.
class Stage {
 public:
  // False: they take more memory than is worth it.
  bool Hold(const Request& request) {
    for (const Operand& operand : request.inputs) {
      if (!operand.present || operand.constant != nullptr) {
        inputs_.push_back(const_cast<void*>(operand.constant));
      } else if (!Add(operand, inputs_)) {
        return false;
      }
    }
    return std::all_of(request.outputs.begin(), request.outputs.end(),
                       [&](const Operand& operand) { return Add(operand, outputs_); });
  }
  absl::Status Run(const Primitive& primitive, CallState* state, LaunchContext* context) {
    const auto scratch = static_cast<size_t>(primitive.scratch_bytes());
    if (scratch_.size() < scratch + 64) scratch_.resize(scratch + 64);
    void* at = scratch_.data();
    size_t room = scratch_.size();
    at = std::align(64, scratch, at, room);
    return primitive.Run({inputs_.data(), outputs_.data(), at, context, state});
  }

 private:
  bool Add(const Operand& operand, std::vector<void*>& to) {
    const int64_t bytes = SpanBytes(operand);
    total_ += bytes;
    if (bytes < 0 || total_ > kMostBytes) return false;
    std::vector<uint8_t>& memory = memory_.emplace_back(static_cast<size_t>(bytes) + 64);
    void* at = memory.data();
    size_t room = memory.size();
    at = std::align(64, static_cast<size_t>(bytes), at, room);
    if (operand.type == DType::kF32) {  // numbers near 1; zeros would be a case of their own
      for (int64_t i = 0; i < bytes / 4; ++i)
        static_cast<float*>(at)[i] = 1.0f + static_cast<float>(i % 64) * 0x1p-10f;
    }
    to.push_back(at);
    return true;
  }

  std::vector<std::vector<uint8_t>> memory_;
  std::vector<void*> inputs_, outputs_;
  std::vector<uint8_t> scratch_;
  int64_t total_ = 0;
};

struct Entrant {
  std::string name;
  std::unique_ptr<Primitive> primitive;
  std::unique_ptr<CallState> state = nullptr;
};

// Those that accept, as Make asks them: the first computes where nothing was measured.
std::vector<Entrant> EntrantsOf(const Operator& op, const Request& request,
                                const std::shared_ptr<Session>& session, int64_t limit) {
  std::vector<Entrant> entrants;
  for (const bool post_ops : {true, false}) {  // those that leave them to a loop come last
    if (!entrants.empty() || (post_ops && request.post_ops.empty())) continue;
    for (const Implementation& implementation : op.implementations) {
      if (implementation.make == nullptr) break;
      if (post_ops && !implementation.post_ops) continue;
      if (implementation.name == absl::string_view(kLastResort) && !entrants.empty()) continue;
      auto made = Make(op, request, session, {implementation.name, true, limit});
      if (made.ok()) entrants.push_back({implementation.name, *std::move(made)});
    }
  }
  return entrants;
}

Measured Measure(const Operator& op, const Request& request,
                 const std::shared_ptr<Session>& session, const Choosing& choosing) {
  // What the losers pack is not kept.
  std::vector<Entrant> entrants =
      EntrantsOf(op, request, session->Unkept(), choosing.workspace_limit);
  Measured measured;
  Stage stage;
  if (entrants.empty() || !stage.Hold(request)) return measured;
  for (Entrant& entrant : entrants) entrant.state = entrant.primitive->NewState();
  Launcher launcher(choosing.pool);
  launcher.set_limit(session->threads());
  const auto start = std::chrono::steady_clock::now();
  const Race race = RaceWays(entrants.size(), 1, [&](size_t way, size_t) {
    const Entrant& entrant = entrants[way];
    return stage.Run(*entrant.primitive, entrant.state.get(), launcher.context());
  });
  measured.winner = entrants[race.winner].name;
  measured.rounds = race.rounds;
  measured.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (size_t k = 0; k < entrants.size(); ++k)
    measured.times.push_back({entrants[k].name, race.ns[k]});
  return measured;
}

}  // namespace

std::string RequestText(const Operator& op, const Request& request, int threads) {
  std::string text = absl::StrCat(op.name, " threads ", threads, "\n");
  for (const auto& [name, values] : request.attributes)
    absl::StrAppend(&text, name, " ", absl::StrJoin(values, ","), "\n");
  for (const Operand& input : request.inputs)
    absl::StrAppend(&text, "in ", OperandText(input), "\n");
  for (const Operand& output : request.outputs)
    absl::StrAppend(&text, "out ", OperandText(output), "\n");
  for (const PostOp& post_op : request.post_ops)
    absl::StrAppend(&text, "then ", post_op.name, " ", absl::StrJoin(post_op.numbers, ","), "\n");
  return text;
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeChosen(const Operator& op, const Request& request,
                                                      const std::shared_ptr<Session>& session,
                                                      const Choosing& choosing) {
  Wish wish{"", false, choosing.workspace_limit};
  if (choosing.measured != nullptr && op.implementations[1].make != nullptr) {
    const std::string text = RequestText(op, request, session->threads());
    std::optional<Measured> known = choosing.measured->FindLibrary(text);
    if (!known.has_value() && choosing.measured->measures()) {
      known = Measure(op, request, session, choosing);
      choosing.measured->KeepLibrary(text, *known);
    }
    if (known.has_value()) wish.first = known->winner;
  }
  return Make(op, request, session, wish);
}

}  // namespace kiln::library
