// SPDX-License-Identifier: Apache-2.0
// An object of a C library, with the function that ends it. Not thread-safe.
#ifndef KILN_EXEC_CUDA_LIBRARY_OBJECT_H_
#define KILN_EXEC_CUDA_LIBRARY_OBJECT_H_

#include <utility>

namespace kiln::cuda {

template <typename Handle, typename Status>
class LibraryObject {
 public:
  LibraryObject() = default;
  LibraryObject(Handle handle, Status (*destroy)(Handle)) : handle_(handle), destroy_(destroy) {}
  LibraryObject(LibraryObject&& other) noexcept { *this = std::move(other); }
  LibraryObject& operator=(LibraryObject&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~LibraryObject() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Status (*destroy_)(Handle) = nullptr;
};

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_LIBRARY_OBJECT_H_
