// Optimisers: the lazy update of a parameter. Source: METHODS section 1, BlockFloat [0135]-[0148];
// the order of integer operations stands in reference/training/update.h.
#pragma once

#include "device/training/narrow.h"

REF_BEGIN

void dev_update_sgd(DevStep*, const DevParameter*) REF_NOEXCEPT;
void dev_update_momentum(DevStep*, const DevParameter*) REF_NOEXCEPT;
void dev_update_nesterov(DevStep*, const DevParameter*) REF_NOEXCEPT;
void dev_update_adam(DevStep*, const DevParameter*) REF_NOEXCEPT;
// With the weight decay apart from the moments.
void dev_update_adamw(DevStep*, const DevParameter*) REF_NOEXCEPT;

REF_END
