// SPDX-License-Identifier: Apache-2.0
// Staging: copies between a device and ordinary memory of the host, which goes on meanwhile.
//
//   Staging staging(gpu);
//   KILN_RETURN_IF_ERROR(staging.CopyIn(to, from, bytes, stream));   // `from` may change now
//   KILN_RETURN_IF_ERROR(staging.CopyOut(to, from, bytes, stream));
//   ... cuStreamSynchronize(stream) ...
//   staging.Deliver();                                               // now `to` has it
//
// A copy goes through chunks of pinned memory, piece by piece; the host fills or empties one while
// the device copies another. Chunks are taken in turn, and one that comes round again is waited for
// by an event. Where no memory can be pinned the driver copies and the host waits. One caller at a
// time, with the device's context current.
#ifndef KILN_EXEC_CUDA_STAGING_H_
#define KILN_EXEC_CUDA_STAGING_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/cuda/gpu.h"

namespace kiln::cuda {

class Staging {
 public:
  explicit Staging(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  absl::Status CopyIn(DevicePointer to, const void* from, size_t bytes, Stream stream);
  absl::Status CopyOut(void* to, DevicePointer from, size_t bytes, Stream stream);
  // Whether something that was copied out is not delivered yet; and to these bytes.
  bool pending() const { return pending_ > 0; }
  bool PendingIn(const void* begin, size_t bytes) const;
  // The device has done all that was asked for: puts what was copied out where it belongs.
  void Deliver();
  // The same, and what was copied out is thrown away.
  void Drop();

 private:
  struct Piece {
    void* to;
    const void* from;
    size_t bytes;
  };
  struct Chunk {
    std::shared_ptr<PinnedMemory> memory;
    std::shared_ptr<DeviceEvent> done;  // recorded when the next chunk was taken
    size_t used = 0;
    std::vector<Piece> pieces;  // to be delivered
  };
  static constexpr size_t kChunks = 4;  // speed: one is filled, one copied, and as many for outputs

  // The chunk in use, with room for a piece; null: nothing can be pinned. Takes the next one where
  // it is full.
  absl::StatusOr<Chunk*> WithRoom(Stream stream);
  void Deliver(Chunk& chunk);

  const std::shared_ptr<Gpu> gpu_;
  std::array<Chunk, kChunks> chunks_;
  size_t now_ = 0;
  size_t pending_ = 0;  // pieces
  bool refused_ = false;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_STAGING_H_
