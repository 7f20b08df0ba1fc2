// The tiles, packing and rounding of AVX2 and AVX-VNNI for the drivers of int16 products.
#pragma once

#include "kernels/convolution/words/words.h"

namespace mantissa::kernels::convolution_words::avx2 {

extern const Tiles kAvx2Tiles, kAvxVnniTiles;
extern const DotPacking kDotPacking;
extern const Stores kStores;
extern const GradWeightsPacking kGradWeightsPacking;

// Rescales sums for one group of a slice and tap, as GradWeightsPacking::finish says.
void finish_sums(const GradWeightsPlan& plan, const Slice& slice, int64_t group, int64_t tap,
                 const void* const* parts, int part_count, const ConvolutionGradWeights& args);

}  // namespace mantissa::kernels::convolution_words::avx2
