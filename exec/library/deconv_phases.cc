// SPDX-License-Identifier: Apache-2.0
#include "exec/library/deconv_phases.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/gemm_block.h"
#include "exec/library/loops.h"
#include "exec/library/packed_gemm.h"
#include "exec/library/post_op_rows.h"
#include "exec/library/post_ops.h"
#include "exec/library/shapes.h"
#include "exec/support/caches.h"

namespace kiln::library {
namespace {

// Measured on x86-64-v4: with weights that the caches of a core do not hold phases are faster than
// oneDNN, up to 1.6 times, and with few points than a product per tap. Else oneDNN is, up to 1.4.
constexpr int64_t kLeastBytes = 2 * kL3ShareBytes;
constexpr int64_t kMostPoints = 64;  // speed
// Each is packed and planned for itself.
constexpr size_t kMostPhases = 64;  // compile time

// Row pointers of a block lie on the stack.
constexpr int64_t kMostPointers = 4096;  // correctness

// Along one axis: the outputs first + j * stride for j < count, and the taps that reach them, each
// from input j + shift.
struct AxisPhase {
  struct Tap {
    int64_t at, shift;
  };
  int64_t first = 0, count = 0;
  std::vector<Tap> taps;
};

std::vector<AxisPhase> PhasesOf(const WindowAxis& axis) {
  std::vector<AxisPhase> phases;
  for (int64_t r = 0; r < std::min(axis.stride, axis.out); ++r) {
    AxisPhase phase{
        .first = r, .count = (axis.out - r + axis.stride - 1) / axis.stride, .taps = {}};
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t reached = r + axis.pad_begin - k * axis.dilation;
      if (reached % axis.stride == 0) phase.taps.push_back({k, reached / axis.stride});
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

struct Phase {
  std::array<AxisPhase, 3> axes;
  PackedGemm product;
  int64_t rows, blocks;  // rows are cut into that many blocks
  int64_t Tasks() const { return blocks * product.panels(); }
};

// Neighbouring outputs of a phase, one after the other.
class Walk {
 public:
  Walk(const Phase& phase, int64_t row) : axes_(phase.axes) {
    for (size_t i = 3; i-- > 0; row /= axes_[i].count) at_[i] = row % axes_[i].count;
    image_ = row;
  }
  int64_t image() const { return image_; }
  int64_t operator[](size_t axis) const { return at_[axis]; }
  void Next() {
    for (size_t i = 3; i-- > 0;) {
      if (++at_[i] < axes_[i].count) return;
      at_[i] = 0;
    }
    ++image_;
  }

 private:
  const std::array<AxisPhase, 3>& axes_;
  std::array<int64_t, 3> at_{};
  int64_t image_ = 0;
};

class DeconvPhases final : public Primitive {
 public:
  DeconvPhases(const ConvForm& form, std::vector<Phase> phases, bool has_bias)
      : form_(form),
        axes_(Widen(form.axes)),
        phases_(std::move(phases)),
        has_bias_(has_bias),
        inputs_(form.batch * axes_[0].in * axes_[1].in * axes_[2].in, form.in_channels,
                form.in_channels, 1) {}

  int64_t scratch_bytes() const override { return inputs_.scratch_bytes(); }
  int64_t packed_bytes() const override {
    int64_t bytes = 0;
    for (const Phase& phase : phases_) bytes += phase.product.packed_bytes();
    return bytes;
  }

  absl::Status Run(const Arguments& arguments) const override {
    const float* const x = inputs_.Get(static_cast<const float*>(arguments.inputs[0]),
                                       arguments.scratch, arguments.context);
    int64_t tasks = 0;
    for (const Phase& phase : phases_) tasks += phase.Tasks();
    ParallelRanges(arguments.context, tasks, [&](int64_t begin, int64_t end) {
      for (const Phase& phase : phases_) {
        const int64_t all = phase.Tasks();
        if (begin < all && end > 0)
          RunPhase(phase, std::max<int64_t>(begin, 0), std::min(end, all), x, arguments);
        begin -= all;
        end -= all;
      }
    });
    return absl::OkStatus();
  }

 private:
  // Tasks [begin, end) of the phase: each is one panel for one block of rows.
  void RunPhase(const Phase& phase, int64_t begin, int64_t end, const float* x,
                const Arguments& a) const {
    const float* from[kMostPointers];
    float* to[PanelRows::kMost];
    PanelRows rows{.x = from, .y = to};
    if (has_bias_) rows.bias = static_cast<const float*>(a.inputs[2]);
    const int64_t panels = phase.product.panels();
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task / panels;
      if (task == begin || task % panels == 0) {
        const int64_t first = phase.rows * block / phase.blocks;
        rows.count = phase.rows * (block + 1) / phase.blocks - first;
        Point(phase, first, rows.count, x, from);
        PointResults(phase, first, rows.count, static_cast<float*>(a.outputs[0]), to);
      }
      phase.product.Run(task % panels, rows, task + 1 == end);
    }
  }

  void PointResults(const Phase& phase, int64_t first, int64_t count, float* y, float** to) const {
    Walk at(phase, first);
    for (int64_t row = 0; row < count; ++row, at.Next()) {
      int64_t point = at.image();
      for (size_t i = 0; i < 3; ++i)
        point = point * axes_[i].out + phase.axes[i].first + at[i] * axes_[i].stride;
      to[row] = y + point * form_.out_channels;
    }
  }

  // from[tap * count + row]: the input that output `first + row` meets through the tap.
  void Point(const Phase& phase, int64_t first, int64_t count, const float* x,
             const float** from) const {
    const auto& [d, h, w] = axes_;
    Walk at(phase, first);
    for (int64_t row = 0; row < count; ++row, at.Next()) {
      const float* const image = x + at.image() * d.in * h.in * w.in * inputs_.step();
      int64_t to = row;
      for (const AxisPhase::Tap& tap_d : phase.axes[0].taps) {
        const int64_t z = at[0] + tap_d.shift;
        for (const AxisPhase::Tap& tap_h : phase.axes[1].taps) {
          const int64_t r = at[1] + tap_h.shift;
          const bool outside = z < 0 || z >= d.in || r < 0 || r >= h.in;
          for (const AxisPhase::Tap& tap_w : phase.axes[2].taps) {
            const int64_t c = at[2] + tap_w.shift;
            from[to] = outside || c < 0 || c >= w.in
                           ? nullptr
                           : image + ((z * h.in + r) * w.in + c) * inputs_.step();
            to += count;
          }
        }
      }
    }
  }

  const ConvForm form_;
  const ThreeAxes axes_;
  const std::vector<Phase> phases_;
  const bool has_bias_;
  const RowsApart inputs_;
};

absl::StatusOr<Phase> MakePhase(std::array<AxisPhase, 3> axes, const ConvForm& form,
                                const Operand& w, const std::shared_ptr<Session>& session) {
  const ThreeAxes window = Widen(form.axes);
  const int64_t taps = window[0].kernel * window[1].kernel * window[2].kernel;
  PanelForm f{.terms = form.in_channels,
              .columns = form.out_channels,
              .segments = {},
              .w_term = form.out_channels * taps,
              .w_column = taps};
  for (const AxisPhase::Tap& z : axes[0].taps) {
    for (const AxisPhase::Tap& y : axes[1].taps) {
      for (const AxisPhase::Tap& x : axes[2].taps)
        f.segments.push_back((z.at * window[1].kernel + y.at) * window[2].kernel + x.at);
    }
  }
  const auto segments = static_cast<int64_t>(f.segments.size());
  if (segments * kBlockRows > kMostPointers)
    return absl::UnimplementedError(absl::StrCat(segments, " taps meet an output"));
  const int64_t rows = form.batch * axes[0].count * axes[1].count * axes[2].count;
  const int64_t most = std::min(PanelRows::kMost, kMostPointers / std::max<int64_t>(1, segments));
  KILN_ASSIGN_OR_RETURN(PackedGemm product,
                        PackedGemm::Make(std::move(f), w.constant,
                                         taps * form.in_channels * form.out_channels, session));
  return Phase{std::move(axes), std::move(product), rows, (rows + most - 1) / most};
}

absl::Status Pays(const ConvForm& form) {
  int64_t points = 1, bytes = form.in_channels * form.out_channels * int64_t{sizeof(float)};
  for (const WindowAxis& axis : form.axes) {
    points *= axis.in;
    bytes *= axis.kernel;
  }
  if (form.in_channels < kPanel || form.out_channels < kPanel)
    return absl::UnimplementedError(absl::StrCat("it pays from ", kPanel, " channels to ", kPanel));
  if (points < 2) return absl::UnimplementedError("an image of one point");
  if (bytes < kLeastBytes && form.batch * points > kMostPoints) {
    return absl::UnimplementedError(
        absl::StrCat("the weights have ", bytes, " bytes and the input ", form.batch * points,
                     " points; it pays from ", kLeastBytes, " or up to ", kMostPoints));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeDeconvPhases(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  for (const PostOp& op : request.post_ops) {
    if (FindPostOpRow(op.name) == nullptr)
      return absl::UnimplementedError(absl::StrCat("no loop of rows for post-op ", op.name));
  }
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(WithoutPostOps(request), true));
  KILN_RETURN_IF_ERROR(Pays(form));
  return MakeDeconvPhasesAnyway(request, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeDeconvPhasesAnyway(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  const Request conv = WithoutPostOps(request);
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(conv, /*transposed=*/true));
  const Operand& w = conv.inputs[1];
  KILN_RETURN_IF_ERROR(TakesOneGroup(conv, form));
  const bool has_bias = HasBias(conv);
  std::array<std::vector<AxisPhase>, 3> along;
  size_t count = 1;
  for (size_t i = 0; i < 3; ++i) {
    const WindowAxis axis = Widen(form.axes)[i];
    const auto most = static_cast<int64_t>(kMostPhases / count);
    if (std::min(axis.stride, axis.out) > most) return absl::UnimplementedError("too many phases");
    along[i] = PhasesOf(axis);
    count *= along[i].size();
  }
  std::vector<Phase> phases;
  for (const AxisPhase& d : along[0]) {
    for (const AxisPhase& h : along[1]) {
      for (const AxisPhase& w_axis : along[2]) {
        KILN_ASSIGN_OR_RETURN(Phase phase, MakePhase({d, h, w_axis}, form, w, session));
        phases.push_back(std::move(phase));
      }
    }
  }
  return WithPostOpLoops(std::make_unique<DeconvPhases>(form, std::move(phases), has_bias),
                         request);
}

}  // namespace kiln::library
