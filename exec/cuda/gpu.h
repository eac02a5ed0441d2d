// SPDX-License-Identifier: Apache-2.0
// Gpu: one device, and what is made on it: memory, streams, events, modules.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<Gpu> gpu, Gpu::Open(driver, 0));
//   KILN_ASSIGN_OR_RETURN(auto memory, DeviceMemory::Allocate(gpu, 1 << 20));
//   KILN_ASSIGN_OR_RETURN(auto stream, DeviceStream::Make(gpu));
//   KILN_RETURN_IF_ERROR(gpu->CopyIn(memory->address(), host, 64, stream->handle()));
//   KILN_RETURN_IF_ERROR(stream->Wait());
//
// The device's primary context is used, the one that the host's CUDA runtime uses too. Whatever
// context the calling thread had is current again when a call returns. A device that is lost
// (driver.h) stays so: calls answer with the error that lost it, and nothing else of the process is
// harmed. Everything here is thread-safe; handles keep their Gpu alive.
#ifndef KILN_EXEC_CUDA_GPU_H_
#define KILN_EXEC_CUDA_GPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/fork.h"
#include "base/mutex.h"
#include "exec/cuda/driver.h"

namespace kiln::cuda {

// Addresses of a device as the rest of Kiln tells them.
inline void* AsPointer(DevicePointer address) { return reinterpret_cast<void*>(address); }
inline DevicePointer AddressOf(const void* pointer) {
  return reinterpret_cast<DevicePointer>(pointer);
}

class Gpu {
 public:
  struct Facts {
    std::string name;
    int major = 0, minor = 0;  // of the compute capability
    int multiprocessors = 0;
    int64_t memory_bytes = 0, l2_bytes = 0;
    int shared_bytes = 0;       // of a block, without asking
    int most_shared_bytes = 0;  // where a function has asked for it
    int clock_khz = 0;
    int registers = 0, multiprocessor_shared_bytes = 0, threads = 0;  // of a multiprocessor
  };

  // kUnavailable: there is no such device; the message has the number of those that there are.
  static absl::StatusOr<std::shared_ptr<Gpu>> Open(std::shared_ptr<const Driver> driver,
                                                   int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Driver& driver() const { return *driver_; }
  const Facts& facts() const { return facts_; }
  int ordinal() const { return ordinal_; }
  // OK, or what lost the device. kFailedPrecondition: this process is a child of the one that
  // opened it, and the driver serves that alone.
  absl::Status alive() const;

  // call() with the device's context; its result as a status. What loses the device is remembered,
  // and later calls are not made.
  absl::Status Call(absl::string_view what, absl::FunctionRef<Result()> call);
  // The same in two: the context is current for the calling thread from Enter to Leave, and what
  // the driver answers meanwhile becomes a status here.
  absl::Status Enter();
  void Leave();
  absl::Status Check(Result result, absl::string_view what);
  // Whether it is a stream, and one of the device's context. As Call.
  absl::StatusOr<bool> Owns(Stream stream);

  // Copies in the order of the stream; host memory must stay until then. Pinned memory is copied
  // while the caller goes on.
  absl::Status CopyIn(DevicePointer to, const void* from, size_t bytes, Stream stream);
  absl::Status CopyOut(void* to, DevicePointer from, size_t bytes, Stream stream);
  absl::Status CopyOver(DevicePointer to, DevicePointer from, size_t bytes, Stream stream);

 private:
  Gpu(std::shared_ptr<const Driver> driver, int ordinal)
      : driver_(std::move(driver)), ordinal_(ordinal) {}
  absl::Status Init();
  absl::Status ReadFacts();

  const std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  const uint32_t process_ = ForkGeneration();
  Device device_ = 0;
  Context context_ = nullptr;  // null: not retained
  Facts facts_;
  mutable Mutex mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

// Memory of the device, 256-byte aligned.
class DeviceMemory {
 public:
  // kResourceExhausted names the bytes and what is free.
  static absl::StatusOr<std::shared_ptr<DeviceMemory>> Allocate(std::shared_ptr<Gpu> gpu,
                                                                size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DevicePointer address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceMemory(std::shared_ptr<Gpu> gpu, DevicePointer address, size_t bytes)
      : gpu_(std::move(gpu)), address_(address), bytes_(bytes) {}
  const std::shared_ptr<Gpu> gpu_;
  const DevicePointer address_;
  const size_t bytes_;
};

// Memory of the host that the device reads and writes by itself.
class PinnedMemory {
 public:
  static absl::StatusOr<std::shared_ptr<PinnedMemory>> Allocate(std::shared_ptr<Gpu> gpu,
                                                                size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  PinnedMemory(std::shared_ptr<Gpu> gpu, void* data, size_t bytes)
      : gpu_(std::move(gpu)), data_(data), bytes_(bytes) {}
  const std::shared_ptr<Gpu> gpu_;
  void* const data_;
  const size_t bytes_;
};

class DeviceStream {
 public:
  static absl::StatusOr<std::shared_ptr<DeviceStream>> Make(std::shared_ptr<Gpu> gpu);
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  Stream handle() const { return stream_; }
  // Until all that was put into it has ended. An error may be of a launch long before.
  absl::Status Wait();

 private:
  DeviceStream(std::shared_ptr<Gpu> gpu, Stream stream) : gpu_(std::move(gpu)), stream_(stream) {}
  const std::shared_ptr<Gpu> gpu_;
  const Stream stream_;
};

// A point of time in a stream.
class DeviceEvent {
 public:
  static absl::StatusOr<std::shared_ptr<DeviceEvent>> Make(std::shared_ptr<Gpu> gpu,
                                                           bool timed = false);
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  Event handle() const { return event_; }

 private:
  DeviceEvent(std::shared_ptr<Gpu> gpu, Event event) : gpu_(std::move(gpu)), event_(event) {}
  const std::shared_ptr<Gpu> gpu_;
  const Event event_;
};

class DeviceModule {
 public:
  // PTX, which ends with a zero, or a cubin. kDataLoss: neither; kFailedPrecondition: for another
  // device.
  static absl::StatusOr<std::shared_ptr<DeviceModule>> Load(std::shared_ptr<Gpu> gpu,
                                                            const std::string& image);
  ~DeviceModule();
  DeviceModule(const DeviceModule&) = delete;
  DeviceModule& operator=(const DeviceModule&) = delete;
  // A function that may take `shared_bytes` of dynamic shared memory. kNotFound: there is none of
  // this name; kResourceExhausted: no block has so much.
  absl::StatusOr<Function> Find(const std::string& name, int64_t shared_bytes);
  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }

 private:
  DeviceModule(std::shared_ptr<Gpu> gpu, Module module) : gpu_(std::move(gpu)), module_(module) {}
  const std::shared_ptr<Gpu> gpu_;
  const Module module_;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_GPU_H_
