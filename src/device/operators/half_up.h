// Narrowing that rounds half up, floor(x + 1/2): formats with ties=up (docs/decisions/0138).
#pragma once

#include "device/training/narrow.h"

REF_BEGIN

// A value of wide values: twice one, plus one, is odd, so never halfway between mantissas.
void dev_write_half_up(DevStep*, const DevElements*, int wide_exponent) REF_NOEXCEPT;
// A DevPass over a DevElements, whose wide values are rounded half up themselves.
RefStatistics dev_pass_half_up(const void* work, int shift, RefWideCounts* counts) REF_NOEXCEPT;

REF_END
