// Arrays in a block of memory, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/checked.h"

namespace mantissa {

// Over null it only counts bytes.
class Room {
 public:
  explicit Room(std::byte* base) : base_(base) {}
  template <typename T>
  T* take(int64_t count) {
    T* start = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += round_up<int64_t>(count * int64_t{sizeof(T)}, 64);
    return start;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

}  // namespace mantissa
