// The grids of QuantizeLinear and DequantizeLinear, and the kinds of `quantise` nodes with them.
#pragma once

#include <cstdint>
#include <optional>

#include "onnx/import/context.h"

namespace mantissa::onnx {

// Numbers scale * q, q from `low` to `high`, without the zero point.
struct Grid {
  double scale = 1;
  int64_t low = 0, high = 0, zero = 0;
};

// The grid of the node; an error if its scale or zero point is no constant, or not one for all.
Result<Grid> grid_of(const ImportContext& context, const NodeData& node);
// Narrows the grid to the limits of a Clip of its whole numbers.
Status clip_grid(const ImportContext& context, const NodeData& node, Grid& grid);

// The kind of `quantise` node with that grid; an error if none has it.
struct GridKind {
  int64_t bits, steps;  // the steps that the range has
  bool is_signed;
};
Result<GridKind> kind_of(ImportContext& context, const Grid& grid);

// Whether the rows are on that grid already: a `quantise` node of the same grid made them, and
// nodes that only move numbers lie between.
bool is_on_grid(const ImportContext& context, const Imported& rows, const Grid& grid,
                const GridKind& kind);

// Attention's scores or probabilities, which the node quantises, go on without that; an error if
// the grid cuts some.
Status pass_scores(ImportContext& context, const NodeData& node, const Grid& grid);

// The DequantizeLinear must match the grid whose whole numbers it reads.
Status check_pair(const ImportContext& context, const NodeData& node, const Grid& grid);

}  // namespace mantissa::onnx
