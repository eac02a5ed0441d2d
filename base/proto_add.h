// SPDX-License-Identifier: Apache-2.0
// New elements of repeated fields of messages or strings, and new messages of a oneof, where memory
// may run out.
//
//   program::Thunk* const thunk = AddTo(region->mutable_thunks());
//
// protobuf's own add_thunks() and mutable_kernel() say that the message is there before it is made:
// what throws meanwhile leaves a field whose destructor reads garbage (3.21).
#ifndef KILN_BASE_PROTO_ADD_H_
#define KILN_BASE_PROTO_ADD_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <memory>

namespace kiln {

// The element, which the field owns. std::bad_alloc leaves the field as it was.
template <typename T>
T* AddTo(google::protobuf::RepeatedPtrField<T>* field) {
  auto made = std::make_unique<T>();
  field->Reserve(field->size() + 1);
  T* const element = made.get();
  field->AddAllocated(made.release());
  return element;
}

// The same for a message of a oneof, once: `set`, its set_allocated_... of `of`, replaces what is
// there.
//
//   program::KernelThunk* const kernel = Make(thunk, &program::Thunk::set_allocated_kernel);
template <typename Message, typename T>
T* Make(Message* of, void (Message::*set)(T*)) {
  auto made = std::make_unique<T>();
  T* const field = made.get();
  (of->*set)(made.release());
  return field;
}

}  // namespace kiln

#endif  // KILN_BASE_PROTO_ADD_H_
