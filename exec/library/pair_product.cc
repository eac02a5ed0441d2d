// SPDX-License-Identifier: Apache-2.0
#include "exec/library/pair_product.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "exec/library/loops.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

std::string DigestOf(const void* data, int64_t bytes) {
  return ToHex(Sha256({static_cast<const char*>(data), static_cast<size_t>(bytes)}));
}

template <typename Byte>
void PackPairs(const PairProduct& product, const Byte* w, PackPairFn<Byte> pack,
               const int16_t* zeros, int64_t columns, int16_t* to) {
  const PairForm& f = product.form();
  const int64_t width = 2 * product.loops().columns;
  const auto at = [&](size_t term) { return f.terms[term] < 0 ? nullptr : w + f.terms[term]; };
  for (size_t t = 0; t < f.terms.size(); t += 2, to += width) {
    pack({.even = at(t),
          .odd = at(t + 1),
          .step = f.w_column,
          .n = columns,
          .zeros = zeros,
          .to = to});
    std::fill(to + 2 * columns, to + width, int16_t{0});
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const void>> PackedOnce(const Operand& w, const Operand* zeros,
                                                       const std::string& layout, int64_t bytes,
                                                       const std::shared_ptr<Session>& session,
                                                       absl::FunctionRef<void(void* to)> pack) {
  const int64_t span = Span(w), zero_span = zeros == nullptr ? 0 : Span(*zeros);
  const bool constant = w.constant != nullptr && span > 0 && bytes > 0 &&
                        (zeros == nullptr || (zeros->constant != nullptr && zero_span > 0));
  if (!constant) return nullptr;
  return session->Packed(
      w.constant, static_cast<size_t>(span),
      absl::StrCat(Name(w.type), " strides ", absl::StrJoin(w.strides, ","), " ", layout, " less ",
                   DigestOf(zeros == nullptr ? nullptr : zeros->constant, zero_span)),
      static_cast<size_t>(bytes), pack);
}

void Widen(const PairLoops& loops, const Bytes& from, int64_t step, int64_t n, int zero,
           int16_t* to) {
  if (step != 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(from[i * step] - zero);
  } else if (from.is_signed()) {
    loops.widen_i8(static_cast<const int8_t*>(from.data()), n, zero, to);
  } else {
    loops.widen_u8(static_cast<const uint8_t*>(from.data()), n, zero, to);
  }
}

void PairProduct::Pack(const Bytes& w, const Bytes& zeros, int64_t panel, int16_t* to) const {
  const int64_t first = first_column(panel), columns = this->columns(panel);
  int16_t centers[kMostPairColumns];
  for (int64_t c = 0; c < columns; ++c)
    centers[c] = static_cast<int16_t>(zeros[(first + c) * form_.zero_column]);
  const Bytes from = w + first * form_.w_column;
  if (from.is_signed()) {
    PackPairs(*this, static_cast<const int8_t*>(from.data()), loops_->pack_i8, centers, columns,
              to);
  } else {
    PackPairs(*this, static_cast<const uint8_t*>(from.data()), loops_->pack_u8, centers, columns,
              to);
  }
}

void PairProduct::Run(const int16_t* packed, int64_t panel, int64_t columns,
                      const int16_t* const* rows, int64_t count, int32_t* const* y,
                      int64_t y_step) const {
  const bool direct = columns == loops_->columns && y_step == 1;
  alignas(64) int32_t tile[kMostPairRows][kMostPairColumns];
  int32_t* sums[kMostPairRows];
  for (int64_t r = 0; r < count; r += loops_->rows) {
    const int64_t block = std::min(loops_->rows, count - r);
    for (int64_t i = 0; i < block; ++i) sums[i] = direct ? y[r + i] : tile[i];
    loops_->blocks[static_cast<size_t>(block - 1)]({.rows = rows + r,
                                                    .offsets = form_.offsets.data(),
                                                    .segments = form_.segments(),
                                                    .pairs = form_.pairs,
                                                    .panel = packed + panel * panel_elements(),
                                                    .sums = sums});
    if (direct) continue;
    for (int64_t i = 0; i < block; ++i) {
      for (int64_t c = 0; c < columns; ++c) y[r + i][c * y_step] = tile[i][c];
    }
  }
}

absl::StatusOr<PairMatrices> PairMatrices::Make(const PairProduct& product, const Operand& w,
                                                const Operand* zeros, std::vector<int64_t> starts,
                                                std::vector<int64_t> zero_starts,
                                                const std::shared_ptr<Session>& session) {
  PairMatrices m;
  m.type_ = w.type;
  m.starts_ = std::move(starts);
  m.zero_starts_ = std::move(zero_starts);
  m.bytes_ = static_cast<int64_t>(m.starts_.size()) * product.matrix_bytes();
  const PairForm& f = product.form();
  const std::string layout = absl::StrCat(
      "pairs in panels of ", product.loops().columns, ": ", f.columns, " columns ", f.w_column,
      " apart, terms ",
      DigestOf(f.terms.data(), static_cast<int64_t>(f.terms.size() * sizeof f.terms[0])), " at ",
      absl::StrJoin(m.starts_, ","), ", zeros ", f.zero_column, " apart at ",
      absl::StrJoin(m.zero_starts_, ","));
  KILN_ASSIGN_OR_RETURN(m.packed_, PackedOnce(w, zeros, layout, m.bytes_, session, [&](void* to) {
                          m.PackAll(product, w.constant,
                                    zeros == nullptr ? nullptr : zeros->constant,
                                    static_cast<int16_t*>(to), nullptr);
                        }));
  return m;
}

void PairMatrices::PackAll(const PairProduct& product, const void* w, const void* zeros,
                           int16_t* to, LaunchContext* context) const {
  const int64_t panels = product.panels();
  ParallelRanges(context, static_cast<int64_t>(starts_.size()) * panels,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const auto matrix = static_cast<size_t>(i / panels);
                     product.Pack(Bytes(w, type_) + starts_[matrix],
                                  Bytes(zeros, type_) + zero_starts_[matrix], i % panels,
                                  to + i * product.panel_elements());
                   }
                 });
}

const int16_t* PairMatrices::Get(const PairProduct& product, const void* w, const void* zeros,
                                 void* scratch, LaunchContext* context) const {
  if (packed_ != nullptr) return static_cast<const int16_t*>(packed_.get());
  auto* const to = static_cast<int16_t*>(scratch);
  PackAll(product, w, zeros, to, context);
  return to;
}

}  // namespace kiln::library
