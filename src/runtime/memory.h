// A block of memory aligned to cache lines, allocated once.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/checked.h"
#include "base/result.h"
#include "base/sizes.h"

namespace mantissa {

class AlignedMemory {
 public:
  // Contents undefined; pages cost nothing until they are written. An error where there is no
  // memory.
  static Result<AlignedMemory> create(int64_t bytes) {
    const size_t size = round_up<size_t>(static_cast<size_t>(bytes) + 1, 4096);
    void* data = std::aligned_alloc(4096, size);
    if (data == nullptr) {
      return make_error(ErrorCode::kOverBudget,
                        "the system gave no " + format_bytes(bytes) + " of memory");
    }
    return AlignedMemory(data, static_cast<size_t>(bytes));
  }

  std::byte* data() const { return data_.get(); }
  std::span<std::byte> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  AlignedMemory(void* data, size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}

  std::unique_ptr<std::byte, Free> data_;
  size_t size_;
};

}  // namespace mantissa
