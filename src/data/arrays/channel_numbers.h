// Numbers with channels, [T, C] to [D, H, W, C], or rows of columns, [F]: the order of an array's
// elements, and the mean and deviation of each channel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/readers.h"
#include "data/tables/table_schema.h"
#include "formats/arrays/npy.h"

namespace mantissa {

// The dimensions of an example without channels: positions, or depth, height and width.
std::vector<int64_t> places_of(const Shape& shape);

// "[N, 28, 28]".
std::string dims_text(const std::vector<int64_t>& dims);

// Whether the channels of the array's examples come first; an error if they have not that shape.
Result<bool> has_channels_first(const FoundSplit& split, const NpyArray& x, const Shape& shape,
                                ChannelAxis wanted);

// Elements of an example in the order of the network: [..., C].
struct ChannelOrder {
  int64_t channels, places;
  bool channels_first;

  ChannelOrder(const Shape& shape, bool first)
      : channels(shape.last()), places(shape.count() / shape.last()), channels_first(first) {}
  int64_t count() const { return channels * places; }
  int64_t channel(int64_t i) const { return i % channels; }
  int64_t stored(int64_t i) const {
    return channels_first ? i % channels * places + i / channels : i;
  }
};

// An array of numbers, of whose examples perhaps only the first positions count. A view.
struct ChannelArray {
  const NpyArray& array;
  ChannelOrder order;
  std::span<const int32_t> lengths = {};  // [N]; empty: all positions count

  // How many elements of an example count, in the order of the network.
  int64_t counted(int64_t example) const {
    return lengths.empty() ? order.count()
                           : lengths[static_cast<size_t>(example)] * order.channels;
  }
};

// Mean and deviation of each channel over the examples of the split's part. NaN is a missing
// number. Errors: infinite numbers, nothing but NaN.
Result<std::vector<TableColumn>> channel_columns(const FoundSplit& split, const ChannelArray& x);

// Numbers of an array that are not taken as they are.
struct ChangedNumbers {
  int64_t clipped = 0, missing = 0;
};

// Appends the examples of the split's part, standardised by channel; NaN and what does not count
// become 0. An error for infinite numbers. May throw std::bad_alloc.
Result<ChangedNumbers> append_standardised(const FoundSplit& split, const ChannelArray& x,
                                           const std::vector<TableColumn>& columns,
                                           std::vector<int16_t>& numbers);

// "3 numbers of 'x' lie 8 deviations or more from the mean of their channel, ...", and how many are
// missing. Nothing without such numbers.
std::vector<std::string> notes_about(const ChangedNumbers& changed, const NpyArray& x);

}  // namespace mantissa
