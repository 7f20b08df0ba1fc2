// Memory for prepared batches, which sources of batches write example by example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/batches/examples.h"
#include "data/batches/length_buckets.h"

namespace mantissa {

// Room for some batches, the slots, of up to batch_size examples each. Allocates only when it is
// made, and may then throw std::bad_alloc. Each slot may have its own length: then its tensors have
// only the first places of sequences.
class BatchBuffers {
 public:
  BatchBuffers(const Examples& examples, int64_t slots, int64_t batch_size,
               const BatchLengths& lengths = {});

  // Examples that are written to the slot from now on are cut to this bucket. At first all are
  // whole.
  void set_bucket(int64_t slot, int bucket) { bucket_of_slot_[static_cast<size_t>(slot)] = bucket; }

  // Writes an example to a place of a slot.
  void write(uint32_t epoch, uint32_t example, int64_t slot, int64_t place);

  // The first `count` examples of a slot.
  Batch batch(int64_t slot, int64_t count) const;

  int64_t bytes() const;

  // The bytes() of such buffers.
  static int64_t predict_bytes(std::span<const TensorSpec> specs, bool has_lengths, int64_t slots,
                               int64_t batch_size, const BatchLengths& lengths = {});

 private:
  Examples examples_;
  int64_t batch_size_;
  std::vector<std::vector<TensorSpec>> specs_;  // of each bucket; the last: the examples' own
  std::vector<int> bucket_of_slot_;
  std::vector<std::byte> whole_;                 // an example before it is cut
  std::vector<std::vector<std::byte>> tensors_;  // for each spec [slots][batch_size][shape]
  std::vector<uint32_t> numbers_;                // [slots][batch_size]
  std::vector<int32_t> lengths_;                 // the same, or empty
  std::vector<const void*> slot_tensors_;        // [slots][specs]: where each slot's tensors begin
  std::vector<std::byte*> places_, cut_places_;  // [specs], used by write() only
};

}  // namespace mantissa
