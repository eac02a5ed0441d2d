// SPDX-License-Identifier: Apache-2.0
#include "exec/library/packed_gemm.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "exec/library/gemm_block.h"
#include "exec/library/loops.h"
#include "exec/support/caches.h"

namespace kiln::library {
namespace {

// Terms of a piece of a panel: this one, the next and much else lie in the second-level cache.
constexpr int64_t kPieceTerms = kL2Bytes / 16 / (kPanel * int64_t{sizeof(float)});  // speed

int64_t Panels(const PanelForm& f) { return (f.columns + kPanel - 1) / kPanel; }
int64_t Segments(const PanelForm& f) { return static_cast<int64_t>(f.segments.size()); }
int64_t PanelElements(const PanelForm& f) { return Segments(f) * f.terms * kPanel; }

void PackPanel(const PanelForm& f, const float* matrix, int64_t first, int64_t columns, float* to) {
  const int64_t segments = Segments(f);
  if (f.w_column == 1) {
    for (int64_t s = 0; s < segments; ++s) {
      for (int64_t t = 0; t < f.terms; ++t) {
        std::memcpy(to + (s * f.terms + t) * kPanel,
                    matrix + f.segments[static_cast<size_t>(s)] + t * f.w_term + first,
                    static_cast<size_t>(columns) * sizeof(float));
      }
    }
    return;
  }
  const auto pack = [&](int64_t c, int64_t t) {
    const float* const from = matrix + (first + c) * f.w_column + t * f.w_term;
    for (int64_t s = 0; s < segments; ++s)
      to[(s * f.terms + t) * kPanel + c] = from[f.segments[static_cast<size_t>(s)]];
  };
  // Whichever of columns and terms are closer together in memory run inside.
  if (f.w_column < f.w_term) {
    for (int64_t t = 0; t < f.terms; ++t) {
      for (int64_t c = 0; c < columns; ++c) pack(c, t);
    }
  } else {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t t = 0; t < f.terms; ++t) pack(c, t);
    }
  }
}

void PackMatrix(const PanelForm& f, const float* matrix, float* packed) {
  std::fill(packed, packed + f.groups * Panels(f) * PanelElements(f), 0.0F);
  for (int64_t g = 0; g < f.groups; ++g) {
    for (int64_t first = 0; first < f.columns; first += kPanel) {
      PackPanel(f, matrix + g * f.w_group, first, std::min(kPanel, f.columns - first), packed);
      packed += PanelElements(f);
    }
  }
}

}  // namespace

absl::StatusOr<PackedGemm> PackedGemm::Make(PanelForm form, const void* matrix, int64_t elements,
                                            const std::shared_ptr<Session>& session) {
  if (FindRowsTimesPanel(1) == nullptr) return absl::UnimplementedError("needs AVX-512");
  PackedGemm made(std::move(form));
  if (made.packed_bytes() == 0) return made;
  const PanelForm& f = made.form_;
  const std::string layout =
      absl::StrCat("panels of ", kPanel, ": groups ", f.groups, " at ", f.w_group, ", segments at ",
                   absl::StrJoin(f.segments, " "), ", terms ", f.terms, " at ", f.w_term,
                   ", columns ", f.columns, " at ", f.w_column);
  KILN_ASSIGN_OR_RETURN(
      made.packed_, session->Packed(matrix, static_cast<size_t>(elements) * sizeof(float), layout,
                                    static_cast<size_t>(made.packed_bytes()), [&](void* packed) {
                                      PackMatrix(f, static_cast<const float*>(matrix),
                                                 static_cast<float*>(packed));
                                    }));
  return made;
}

int64_t PackedGemm::packed_bytes() const {
  return panels() * PanelElements(form_) * int64_t{sizeof(float)};
}

int64_t PackedGemm::panels() const { return form_.groups * Panels(form_); }

void PackedGemm::Run(int64_t panel, const PanelRows& rows, bool last) const {
  alignas(64) float sums[PanelRows::kMost * kPanel];
  const int64_t group = panel / Panels(form_), first = panel % Panels(form_) * kPanel;
  const auto width = static_cast<size_t>(std::min(kPanel, form_.columns - first)) * sizeof(float);
  std::fill(sums, sums + rows.count * kPanel, 0.0F);
  for (int64_t r = 0; rows.bias != nullptr && r < rows.count; ++r)
    std::memcpy(sums + r * kPanel, rows.bias + first, width);
  Sum(static_cast<const float*>(packed_.get()) + panel * PanelElements(form_), rows, last, sums);
  for (int64_t r = 0; r < rows.count; ++r)
    std::memcpy(rows.y[r] + group * rows.y_group + first, sums + r * kPanel, width);
}

void PackedGemm::Sum(const float* panel, const PanelRows& rows, bool last, float* sums) const {
  const float* x[PanelRows::kMost];
  float* to[PanelRows::kMost];
  const float* piece = panel;
  for (int64_t s = 0; s < Segments(form_); ++s) {
    int64_t count = 0;
    for (int64_t r = 0; r < rows.count; ++r) {
      x[count] = rows.x[s * rows.count + r];
      to[count] = sums + r * kPanel;
      if (x[count] != nullptr) ++count;
    }
    const int64_t blocks = (count + kBlockRows - 1) / kBlockRows;
    for (int64_t t = 0; t < form_.terms; t += kPieceTerms) {
      const int64_t terms = std::min(kPieceTerms, form_.terms - t);
      const float* const next = piece + terms * kPanel;
      const bool end = last && s + 1 == Segments(form_) && t + terms == form_.terms;
      // Each block asks for its part of the next piece, which is taken to be as long as this one.
      const int64_t lines = terms * 2 / Ahead::kStreams * Ahead::kStreams;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t begin = count * b / blocks, size = count * (b + 1) / blocks - begin;
        const float* at[kBlockRows];
        for (int64_t r = 0; r < size; ++r) at[r] = x[begin + r] + t;
        Ahead ahead;
        if (!end) {
          const int64_t line = lines * b / blocks;
          ahead = {reinterpret_cast<const char*>(next), lines / Ahead::kStreams * 64, line,
                   lines * (b + 1) / blocks - line};
        }
        FindRowsTimesPanel(size)({at, terms, piece, to + begin, ahead});
      }
      piece = next;
    }
  }
}

RowsApart::RowsApart(int64_t count, int64_t terms, int64_t step, int64_t stride)
    : count_(count), terms_(terms), step_(step), own_step_(step) {
  constexpr int64_t kAlias = 1024, kLine = 16, kWays = 8;  // correctness
  if (count <= kWays || step * stride % kAlias != 0) return;
  own_step_ = (terms + kLine - 1) / kLine * kLine;
  while (own_step_ * stride % kAlias == 0) own_step_ += kLine;
}

int64_t RowsApart::scratch_bytes() const {
  return own_step_ == step_ ? 0 : count_ * own_step_ * int64_t{sizeof(float)};
}

const float* RowsApart::Get(const float* rows, void* scratch, LaunchContext* context) const {
  if (own_step_ == step_) return rows;
  auto* const apart = static_cast<float*>(scratch);
  ParallelRanges(context, count_, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::copy_n(rows + i * step_, terms_, apart + i * own_step_);
  });
  return apart;
}

}  // namespace kiln::library
