// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/library/few_rows.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/library/few_rows_block.h"
#include "kiln/exec/library/loops.h"

namespace kiln::library {
namespace {

// Measured on x86-64-v4: with more rows, or a matrix that the second-level cache holds, what is
// fetched is no longer what one waits for.
constexpr int64_t kMostRows = 64;
constexpr int64_t kLeastBytes = int64_t{1} << 19;
// Terms of a piece of a panel, 64 KiB: this one and the next lie in the second-level cache.
constexpr int64_t kPieceTerms = 512;

int64_t Panels(const FewRowsForm& f) { return (f.columns + kPanel - 1) / kPanel; }
int64_t PanelElements(const FewRowsForm& f) { return f.segments * f.terms * kPanel; }

void PackPanel(const FewRowsForm& f, const float* matrix, int64_t first, int64_t columns,
               float* to) {
  // Whichever of columns and terms are neighbours in memory run innermost.
  if (f.w_column == 1) {
    for (int64_t s = 0; s < f.segments; ++s) {
      for (int64_t t = 0; t < f.terms; ++t) {
        std::memcpy(to + (s * f.terms + t) * kPanel,
                    matrix + s * f.w_segment + t * f.w_term + first,
                    static_cast<size_t>(columns) * sizeof(float));
      }
    }
    return;
  }
  for (int64_t c = 0; c < columns; ++c) {
    const float* const column = matrix + (first + c) * f.w_column;
    for (int64_t t = 0; t < f.terms; ++t) {
      for (int64_t s = 0; s < f.segments; ++s)
        to[(s * f.terms + t) * kPanel + c] = column[s * f.w_segment + t * f.w_term];
    }
  }
}

void PackMatrix(const FewRowsForm& f, const float* matrix, float* packed) {
  std::fill(packed, packed + f.groups * Panels(f) * PanelElements(f), 0.0F);
  for (int64_t g = 0; g < f.groups; ++g) {
    for (int64_t first = 0; first < f.columns; first += kPanel) {
      PackPanel(f, matrix + g * f.w_group, first, std::min(kPanel, f.columns - first), packed);
      packed += PanelElements(f);
    }
  }
}

}  // namespace

absl::StatusOr<FewRows> FewRows::Make(const FewRowsForm& f, const void* matrix, int64_t elements,
                                      const std::shared_ptr<Session>& session) {
  if (f.rows < 2 || f.rows > kMostRows)
    return absl::UnimplementedError(absl::StrCat(f.rows, " rows; it pays from 2 to ", kMostRows));
  const int64_t bytes = elements * int64_t{sizeof(float)};
  if (bytes < kLeastBytes || f.terms < kPanel || f.columns < kPanel) {
    return absl::UnimplementedError(absl::StrCat("the matrix has ", bytes, " bytes; it pays from ",
                                                 kLeastBytes, " in rows and columns of ", kPanel));
  }
  if (FindRowsTimesPanel(1) == nullptr) return absl::UnimplementedError("needs AVX-512");
  FewRows made(f, session->threads());
  const std::string layout =
      absl::StrCat("panels of ", kPanel, ": groups ", f.groups, " at ", f.w_group, ", segments ",
                   f.segments, " at ", f.w_segment, ", terms ", f.terms, " at ", f.w_term,
                   ", columns ", f.columns, " at ", f.w_column);
  KILN_ASSIGN_OR_RETURN(
      made.packed_, session->Packed(matrix, static_cast<size_t>(bytes), layout,
                                    static_cast<size_t>(made.packed_bytes()), [&](void* packed) {
                                      PackMatrix(f, static_cast<const float*>(matrix),
                                                 static_cast<float*>(packed));
                                    }));
  return made;
}

int64_t FewRows::packed_bytes() const {
  return form_.groups * Panels(form_) * PanelElements(form_) * int64_t{sizeof(float)};
}

void FewRows::Run(const float* const* rows, const float* bias, float* y,
                  LaunchContext* context) const {
  const int64_t panels = Panels(form_), all = form_.groups * panels;
  ParallelRanges(context, threads_, [&](int64_t first, int64_t last) {
    const int64_t end = all * last / threads_;
    for (int64_t i = all * first / threads_; i < end; ++i)
      RunPanel(i / panels, i % panels, i + 1 == end, rows, bias, y);
  });
}

void FewRows::RunPanel(int64_t group, int64_t panel, bool last, const float* const* rows,
                       const float* bias, float* y) const {
  const FewRowsForm& f = form_;
  alignas(64) float sums[kMostRows * kPanel];
  const int64_t first = panel * kPanel, columns = std::min(kPanel, f.columns - first);
  const auto width = static_cast<size_t>(columns) * sizeof(float);
  std::fill(sums, sums + f.rows * kPanel, 0.0F);
  for (int64_t r = 0; bias != nullptr && r < f.rows; ++r)
    std::memcpy(sums + r * kPanel, bias + first, width);
  const float* piece =
      static_cast<const float*>(packed_.get()) + (group * Panels(f) + panel) * PanelElements(f);
  const int64_t blocks = (f.rows + kBlockRows - 1) / kBlockRows;
  for (int64_t s = 0; s < f.segments; ++s) {
    const float* const* const of_segment = rows + s * f.rows;
    for (int64_t t = 0; t < f.terms; t += kPieceTerms) {
      const int64_t terms = std::min(kPieceTerms, f.terms - t);
      const float* const next = piece + terms * kPanel;
      const bool end = last && s + 1 == f.segments && t + terms == f.terms;
      // Each block asks for its part of the next piece, which is taken to be as long as this one.
      const int64_t lines = terms * 2 / Ahead::kStreams * Ahead::kStreams;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t begin = f.rows * b / blocks, count = f.rows * (b + 1) / blocks - begin;
        const float* at[kBlockRows];
        for (int64_t r = 0; r < count; ++r) at[r] = of_segment[begin + r] + t;
        Ahead ahead;
        if (!end) {
          const int64_t line = lines * b / blocks;
          ahead = {reinterpret_cast<const char*>(next), lines / Ahead::kStreams * 64, line,
                   lines * (b + 1) / blocks - line};
        }
        FindRowsTimesPanel(count)({at, terms, piece, sums + begin * kPanel, ahead});
      }
      piece = next;
    }
  }
  for (int64_t r = 0; r < f.rows; ++r)
    std::memcpy(y + group * f.y_group + r * f.y_row + first, sums + r * kPanel, width);
}

}  // namespace kiln::library
