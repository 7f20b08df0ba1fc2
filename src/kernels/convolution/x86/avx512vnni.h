// The tiles and packing of AVX-512 VNNI and AMX for the drivers of byte products. AMX has tiles of
// its own; the packing is the same.
#pragma once

#include "kernels/convolution/bytes/bytes.h"

namespace mantissa::kernels::convolution_bytes::avx512vnni {

extern const Tiles kAvx512VnniTiles, kAmxTiles;
extern const DotPacking kDotPacking;
extern const GradWeightsPacking kGradWeightsPacking;
extern const GradWeightsTiles kAvx512VnniGradWeightsTiles, kAmxGradWeightsTiles;

// As GradWeightsPacking says.
void sum_inputs(const GradWeightsPlan& plan, const Chunk& chunk, int64_t first);
void sum_grads(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block);
void finish_row(const GradWeightsPlan& plan, const int64_t* sums, int64_t output, int64_t row,
                int64_t count, const ConvolutionGradWeights& args);

}  // namespace mantissa::kernels::convolution_bytes::avx512vnni
