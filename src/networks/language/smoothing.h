// Smoothing of language models for integers: powers of two move from the channels of values into
// the weights behind them, so that the largest channels of a token are closer to the others. Real
// numbers stay what they are (0151; for the balance of the two sides: Xiao et al. 2023).
#pragma once

#include <string>
#include <vector>

#include "models/decoder.h"
#include "onnx/import/import.h"

namespace mantissa {

// The largest magnitudes of a block's values, by channel.
struct BlockMaxima {
  std::vector<float> normed, inner;  // results of the two norms
  std::vector<float> queries, keys;  // turned
  std::vector<float> heads;          // attention's result
  std::vector<float> gated;          // the product of the gated layers
};

// The nodes that make these values, by their names in a block.
struct SmoothedValue {
  const char* name;
  std::vector<float> BlockMaxima::* maxima;
};
inline constexpr SmoothedValue kSmoothedValues[] = {
    {"norm1", &BlockMaxima::normed},           {"norm2", &BlockMaxima::inner},
    {"turned_query", &BlockMaxima::queries},   {"turned_key", &BlockMaxima::keys},
    {"attention", &BlockMaxima::heads},        {"multiply", &BlockMaxima::gated}};

// Moves powers of two in all blocks of a network of llama_lm, whose sizes are in Llama's layout. The power of a channel is the rounded
// half of log2(largest of the value / largest weight behind it), less the median of all channels:
//   norms: the scale is divided, columns of query, key and value, or of gate and up, multiplied;
//   gated layers: rows of up divided, columns of down multiplied;
//   heads: rows of value divided, columns of project multiplied, for all heads that share a value;
//   queries and keys: rows of queries divided, of keys multiplied, a power for each turned pair. If
//   their heads have norms, these scales in place of rows, with the same powers for all heads.
// Returns the range of each kind, a text for people.
std::string smooth(const DecoderSizes& sizes, const std::vector<BlockMaxima>& blocks,
                   onnx::ImportedNetwork& network);

}  // namespace mantissa
