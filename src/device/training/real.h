// Real scalars by the names of this folder.
#pragma once

#include "scalars/real.h"

typedef RefReal DevReal;
#define dev_real ref_real
#define dev_real_of_bits ref_real_of_bits
#define dev_bits_of_real ref_bits_of_real
#define dev_is_finite ref_real_is_finite
#define dev_negative ref_real_negative
#define dev_magnitude ref_real_magnitude
#define dev_sum ref_real_sum
#define dev_difference ref_real_difference
#define dev_product ref_real_product
#define dev_quotient ref_real_quotient
#define dev_root ref_real_root
#define dev_scaled ref_real_scaled
#define dev_power ref_real_power
#define dev_larger ref_real_larger
#define dev_fixed_point_shift ref_fixed_point_shift
#define dev_fixed_point ref_fixed_point
