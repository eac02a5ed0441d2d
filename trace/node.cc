// SPDX-License-Identifier: Apache-2.0
#include "trace/node.h"

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/dim.h"

namespace kiln::tracing {
namespace {

// Nodes of one thread that wait for their next use.
class FreeNodes {
 public:
  FreeNodes() { free_.reserve(kMost); }
  ~FreeNodes();
  Node* Take() {
    if (free_.empty()) return nullptr;
    Node* const node = free_.back();
    free_.pop_back();
    return node;
  }
  // Takes no memory.
  bool Keep(Node* node) noexcept {
    if (free_.size() == kMost) return false;
    if (node->ready()) node->DropTensor(none_);
    if (node->never_ready()) node->error = absl::OkStatus();
    if (free_.size() == kMost) return false;  // an owner of memory freed others
    free_.push_back(node);
    return true;
  }

 private:
  static constexpr size_t kMost = 4096;
  const Tensor none_ = Tensor::View(nullptr, DType::kF32, {});
  std::vector<Node*> free_;
};

// Null before the first node of the thread, and when the thread ends.
thread_local FreeNodes* free_nodes = nullptr;
thread_local bool ended = false;

FreeNodes::~FreeNodes() {
  free_nodes = nullptr;
  ended = true;
  for (Node* const node : free_) delete node;
}

FreeNodes* OfThread() {
  if (free_nodes != nullptr || ended) return free_nodes;
  static thread_local FreeNodes owned;
  return free_nodes = &owned;
}

}  // namespace

std::string ValueType::ToString() const {
  return absl::StrCat(Name(type), " ", kiln::ToString(ToShape(shape())));
}

Node* NewNode() {
  FreeNodes* const nodes = OfThread();
  Node* const node = nodes != nullptr ? nodes->Take() : nullptr;
  if (node == nullptr) return new Node;
  node->refs.store(1, std::memory_order_relaxed);
  node->state.store(Node::State::kPending, std::memory_order_relaxed);
  node->log.store(nullptr, std::memory_order_relaxed);
  return node;
}

// Where there is no memory for a node: one for all, which is never freed; null, an empty array,
// where there is none for that either.
[[gnu::cold, gnu::noinline]] Node* OutOfMemoryNode() noexcept {
  try {
    static Node* const node = [] {
      auto* const made = new Node;  // never freed: arrays may outlive all else
      made->type = ValueType(DType::kF32);
      made->SetError(absl::Status(absl::StatusCode::kResourceExhausted, ""));
      return made;
    }();
    return Share(node);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Node* NewErrorNode(absl::Status status) noexcept {
  Node* node = nullptr;
  try {
    node = NewNode();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryNode();
  }
  node->type = ValueType(DType::kF32);
  node->SetError(std::move(status));
  return node;
}

void FreeNode(Node* node) {
  // A thread that made none has no list, and gets none: it may be closing the library.
  if (free_nodes == nullptr || !free_nodes->Keep(node)) delete node;
}

}  // namespace kiln::tracing
