// Parameters that the state keeps in blocks (Storage::kBlocks): their bytes, and in integer formats
// an exponent for each row, which follows from them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "numerics/block_grid.h"
#include "runtime/state.h"

namespace mantissa {

// The kind of a tensor that holds rows of blocks (block_dims); kNone: it is no such tensor.
BlockKind block_kind_of(const StateTensor& tensor);
BlockKind block_kind_of(DataType type, std::span<const int64_t> shape);

// Whether all scales are finite. Whole blocks.
bool has_finite_scales(BlockKind kind, std::span<const std::byte> blocks);

// The numbers of whole blocks.
std::vector<double> block_numbers(BlockKind kind, std::span<const std::byte> blocks);

// Sets the exponents of a parameter's rows from its blocks: a row gets the one that weights of 8
// bits would get from the same numbers, at most kMostChannelSpread below the largest.
void set_row_exponents(const ParameterState& tensors, State& state);

// Takes blocks with finite scales, as many bytes as the parameter has, and sets the exponents.
void set_blocks(std::span<const std::byte> blocks, const ParameterState& tensors, State& state);

// Whether the exponents in the state are the ones that follow from the blocks.
bool has_own_exponents(const State& state, const ParameterState& tensors);

// Numbers up to kLargestInBlocks as blocks that clip nothing (whole_grid), rounded to nearest.
std::vector<std::byte> packed_blocks(BlockKind kind, std::span<const double> numbers);

// Blocks of these grids and steps, as many steps for each as a block has weights.
std::vector<std::byte> packed_blocks(BlockKind kind, std::span<const BlockGrid> grids,
                                     std::span<const int8_t> steps);

// Whole blocks of 3 or 4 bits without least numbers as q4_0, exactly: the scale of a group stands
// before each 32 of its weights.
std::vector<std::byte> as_q4_0(BlockKind kind, std::span<const std::byte> blocks);

}  // namespace mantissa
