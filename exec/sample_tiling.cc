// SPDX-License-Identifier: Apache-2.0
#include "exec/sample_tiling.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/post_ops.h"

namespace kiln {
namespace {

absl::Status Refuse(const std::string& why) {
  return absl::UnimplementedError(
      absl::StrCat("batch_invariant: ", why, "; run without it, or a batch of 1"));
}

bool IsConstant(const CheckedProgram& program, const ResolvedRef& ref) {
  return ref.buffer >= 0 &&
         program.buffers[static_cast<size_t>(ref.buffer)].kind == program::Buffer::CONSTANT;
}

bool IsSet(const CheckedThunk& thunk, const char* attribute) {
  const auto found = thunk.attributes.find(attribute);
  return found != thunk.attributes.end() && !found->second.empty() && found->second[0] != 0;
}

// The two factors. Batch dims broadcast; without them each row of the left factor is a sample.
absl::Status MarkFactors(const CheckedProgram& program, const CheckedThunk& thunk,
                         const Operands& operands, SampleCut& cut) {
  const size_t ranks[] = {operands.inputs[0].shape.size(), operands.inputs[1].shape.size()};
  const size_t batch_dims = std::max({ranks[0], ranks[1], size_t{2}}) - 2;
  if (batch_dims > 0) {
    for (const size_t i : {size_t{0}, size_t{1}})
      cut.cut[i] = ranks[i] == batch_dims + 2 && operands.inputs[i].shape[0] == cut.samples;
    return absl::OkStatus();
  }
  if (ranks[0] < 2) {  // a vector: one sample
    cut.samples = 0;
    return absl::OkStatus();
  }
  if (IsConstant(program, operands.inputs[0]))
    return Refuse("the left factor is a constant, so that samples are columns of the right one");
  if (IsSet(thunk, "trans_a"))
    return Refuse("the left factor is transposed, so that samples are its columns");
  cut.cut[0] = true;
  return absl::OkStatus();
}

// From a sample to the next lie no elements of another.
bool SamplesFollow(const ResolvedRef& ref) {
  int64_t span = 1;
  for (size_t i = 1; i < ref.shape.size(); ++i) {
    if (ref.strides[i] < 0) return false;
    span += (ref.shape[i] - 1) * ref.strides[i];
  }
  return ref.strides[0] == 0 || ref.strides[0] >= span;
}

}  // namespace

absl::StatusOr<SampleCut> CutIntoSamples(const CheckedProgram& program, const CheckedThunk& thunk,
                                         const Operands& operands) {
  SampleCut cut;
  if (thunk.kind != CheckedThunk::Kind::kLibrary || operands.outputs.empty()) return cut;
  const ResolvedRef& result = operands.outputs[0];
  const bool product = std::string(thunk.op->name) == "matmul";
  if (!(product || thunk.op->by_images) || !IsFloat(operands.inputs[0].type) ||
      result.elements == 0 || result.shape.empty())
    return cut;
  cut.samples = result.shape[0];
  const size_t inputs = operands.inputs.size();
  cut.cut.assign(inputs + operands.outputs.size(), false);
  std::fill(cut.cut.begin() + static_cast<ptrdiff_t>(inputs), cut.cut.end(), true);
  cut.cut[0] = !product;
  if (product) KILN_RETURN_IF_ERROR(MarkFactors(program, thunk, operands, cut));
  if (cut.samples <= 1) return cut;
  const size_t others = std::min(library::CountOperands(thunk.post_ops), inputs - 1);
  for (size_t i = inputs - others; i < inputs; ++i) {
    const std::vector<int64_t>& shape = operands.inputs[i].shape;
    cut.cut[i] = shape.size() == result.shape.size() && shape[0] == cut.samples;
  }
  for (size_t i = 0; i < cut.cut.size(); ++i) {
    const ResolvedRef& ref = i < inputs ? operands.inputs[i] : operands.outputs[i - inputs];
    if (cut.cut[i] && ref.buffer >= 0 && !SamplesFollow(ref)) {
      return Refuse(absl::StrCat(
          "the samples of ", i < inputs ? "input " : "output ", i < inputs ? i : i - inputs,
          " lie among each other in memory, so that how they are read depends on the batch"));
    }
  }
  return cut;
}

void TakeFirstSample(const SampleCut& cut, Operands& operands) {
  if (cut.samples <= 1) return;
  const size_t inputs = operands.inputs.size();
  for (size_t i = 0; i < cut.cut.size(); ++i) {
    ResolvedRef& ref = i < inputs ? operands.inputs[i] : operands.outputs[i - inputs];
    if (!cut.cut[i] || ref.buffer < 0) continue;
    ref.part_bytes = ref.strides[0] * static_cast<int64_t>(SizeOf(ref.type));
    ref.shape[0] = 1;
    ref.elements /= cut.samples;
    ref.end -= (cut.samples - 1) * ref.part_bytes;
  }
}

}  // namespace kiln
