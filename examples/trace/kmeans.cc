// SPDX-License-Identifier: Apache-2.0
// k-means of points around known centres: each round is a traced function, and the host looks at
// how far the centres moved, which cuts nothing of the round, for it happens outside of it.
//
//   kmeans [ROUNDS]
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_ops.h"

namespace {

using kiln::Array;

constexpr int64_t kPoints = 3000, kCentres = 3;

// The means of the points that are nearest to each centre; a centre without points stays.
Array Round(const Array& points, const Array& centres) {
  const Array apart =
      kiln::unsqueeze(points, {.axes = {1}}) - kiln::unsqueeze(centres, {.axes = {0}});
  const Array distance = kiln::reduce_sum(apart * apart, {.axes = {2}, .keepdims = 0});
  const Array nearest = distance == kiln::reduce_min(distance, {.axes = {1}, .keepdims = 1});
  const Array member = kiln::cast(nearest, {.to = kiln::DType::kF32});
  const Array count = kiln::reduce_sum(member, {.axes = {0}, .keepdims = 0});
  const Array sum = kiln::reduce_sum(
      kiln::unsqueeze(member, {.axes = {2}}) * kiln::unsqueeze(points, {.axes = {1}}),
      {.axes = {0}, .keepdims = 0});
  const Array some = kiln::unsqueeze(count, {.axes = {1}});
  return kiln::where(some > 0.0f, sum / kiln::max(some, 1.0f), centres);
}

absl::Status Run(int rounds) {
  const std::vector<float> truth = {-4, 0, 3, 3, 2, -5};
  std::mt19937 random(1);
  std::normal_distribution<float> noise(0, 0.5f);
  std::vector<float> points;
  for (int64_t i = 0; i < kPoints; ++i)
    for (size_t d = 0; d < 2; ++d)
      points.push_back(truth[static_cast<size_t>(i % kCentres) * 2 + d] + noise(random));
  const Array x = Array::from(points.data(), {kPoints, 2});
  Array centres = x({kiln::Slice{0, kCentres}});
  auto round = kiln::trace(Round);
  int used = 0;
  for (float moved = 1; used < rounds && moved > 1e-5f; ++used) {
    const Array next = round(x, centres);
    const absl::StatusOr<float> most =
        kiln::reduce_max(kiln::abs(next - centres), {.keepdims = 0}).item<float>();
    if (!most.ok()) return most.status();
    moved = *most;
    centres = next;
  }
  const absl::StatusOr<std::vector<float>> found = centres.to_vector<float>();
  if (!found.ok()) return found.status();
  std::cout << used << " rounds, centres";
  for (size_t i = 0; i < found->size(); i += 2)
    std::cout << " (" << (*found)[i] << ", " << (*found)[i + 1] << ")";
  std::cout << "\n";
  for (size_t i = 0; i < found->size(); ++i)
    if (std::abs((*found)[i] - truth[i]) > 0.1f)
      return absl::InternalError("a centre is not where its points are");
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? std::atoi(argv[1]) : 100);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
