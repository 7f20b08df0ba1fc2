#include "device/operators/half_up.h"

static int64_t odd_of(const void* work, int32_t i, int32_t c) {
  const DevElements* e = (const DevElements*)work;
  return 2 * e->wide(e->work, i, c) + 1;
}

void dev_write_half_up(DevStep* step, const DevElements* e, int wide_exponent) {
  const DevElements odd = {odd_of, e, e->to};
  dev_write_value(step, &odd, wide_exponent - 1, 64 - e->to->bits);
}

RefStatistics dev_pass_half_up(const void* work, int shift, RefWideCounts* counts) {
  const DevElements* e = (const DevElements*)work;
  RefStatistics found = {0, 0}, written = {0, 0};
  for (int32_t i = 0; i < e->to->count; ++i) {
    const int64_t wide = e->wide(e->work, i, i % e->to->channels);
    const uint64_t size = ref_magnitude(wide);
    found.maximum = size > found.maximum ? size : found.maximum;
    dev_put(e->to, i, ref_shift_right_rhu(wide, shift), 0, &written);
    ref_count_wide(counts, wide);
  }
  found.saturated = written.saturated;
  return found;
}
