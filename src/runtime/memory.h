// A block of memory aligned to cache lines, allocated once.
#pragma once

#include <sys/mman.h>

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
  // Contents undefined. Memory that is never written costs nothing but the rest of its page, 4 KiB
  // or in large blocks 2 MiB. If there is no memory: an error that names `thing`.
  static Result<AlignedMemory> create(int64_t bytes, const char* thing = "the arena") {
    const bool huge = bytes >= kHugePage;
    const size_t alignment = huge ? kHugePage : 4096;
    const size_t size = round_up<size_t>(static_cast<size_t>(bytes) + 1, 4096);
    void* data = nullptr;
    if (posix_memalign(&data, alignment, size) != 0) return out_of_memory(thing, bytes);
    // Fewer page faults and TLB misses. A hint: all works without such pages.
    if (huge) madvise(data, size, MADV_HUGEPAGE);
    return AlignedMemory(data, static_cast<size_t>(bytes));
  }

  std::byte* data() const { return data_.get(); }
  std::span<std::byte> span() const { return {data_.get(), size_}; }

 private:
  static constexpr int64_t kHugePage = int64_t{2} << 20;

  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  AlignedMemory(void* data, size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}

  std::unique_ptr<std::byte, Free> data_;
  size_t size_;
};

}  // namespace mantissa
