#include "kernels/depthwise/lines.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/common/mantissa_span.h"

namespace mantissa::kernels::depthwise {
namespace {

size_t aligned(int64_t bytes) { return static_cast<size_t>(round_up<int64_t>(bytes, 64)); }

size_t lines_bytes(const LineLayout& layout) {
  return aligned(layout.slots * layout.line_pairs() * int64_t{sizeof(Pair)});
}

size_t addresses_bytes(const LineLayout& layout) {
  return aligned(layout.slots * int64_t{sizeof(Pair*)});
}

size_t zeros_bytes(const LineLayout& layout) {
  return aligned(layout.padded_channels * int64_t{sizeof(int16_t)});
}

}  // namespace

size_t LineLayout::scratch_bytes() const {
  return lines_bytes(*this) + addresses_bytes(*this) + zeros_bytes(*this);
}

LineRing::LineRing(const RowLoops& loops, const Images& images, const LineLayout& layout,
                   std::byte* scratch)
    : loops_(loops),
      images_(images),
      layout_(layout),
      lines_(reinterpret_cast<Pair*>(scratch)),
      addresses_(reinterpret_cast<const Pair**>(scratch + lines_bytes(layout))),
      zeros_(scratch + lines_bytes(layout) + addresses_bytes(layout)) {
  first_valid_ = std::clamp<int64_t>(-layout.first_column, 0, layout.columns);
  const int64_t stop = std::min(images.width - layout.first_column, layout.columns);
  valid_columns_ = std::max<int64_t>(stop - first_valid_, 0);
  std::memset(scratch + lines_bytes(layout) + addresses_bytes(layout), 0, zeros_bytes(layout));
  for (int64_t i = 0; i < layout.slots; ++i) clear_padding(slot(i));
}

Pair* LineRing::slot(int64_t line) const {
  const int64_t index = (line % layout_.slots + layout_.slots) % layout_.slots;
  return lines_ + index * layout_.line_pairs();
}

// Columns beyond the image, which no line writes.
void LineRing::clear_padding(Pair* line) const {
  const int64_t channels = layout_.padded_channels, stop = first_valid_ + valid_columns_;
  std::fill_n(line, first_valid_ * channels, 0);
  std::fill_n(line + stop * channels, (layout_.columns - stop) * channels, 0);
}

PixelRow LineRing::row(int64_t n, int64_t y, int64_t x) const {
  if (y < 0 || y >= images_.height) return {zeros_, 0};
  const int64_t at = ((n * images_.height + y) * images_.width + x) * images_.channels;
  const auto* data = static_cast<const std::byte*>(images_.data);
  return {data + at * gradient_bytes(images_.bits), images_.channels};
}

void LineRing::fill(int64_t n, int64_t line) {
  if (valid_columns_ == 0) return;
  const int64_t y = line * layout_.stride, x = layout_.first_column + first_valid_;
  loops_.pair({.first = row(n, y, x),
               .second = row(n, y + layout_.apart, x),
               .bits = images_.bits,
               .pixels = valid_columns_,
               .channels = images_.channels,
               .padded_channels = layout_.padded_channels,
               .pairs = slot(line) + first_valid_ * layout_.padded_channels});
}

const Pair* const* LineRing::window(int64_t n, int64_t first, int64_t count) {
  if (n != image_ || next_ < first) next_ = first;
  image_ = n;
  for (; next_ < first + count; ++next_) fill(n, next_);
  for (int64_t i = 0; i < count; ++i) addresses_[i] = slot(first + i);
  return addresses_;
}

}  // namespace mantissa::kernels::depthwise
