// Embedding: rows of a table, chosen by indices. The gradient of the table is exact sums, rounded
// once.
#include <algorithm>
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/convolutions/weight_attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/sequences/row_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kEmbeddingSchema[] = {
    required_whole<&EmbeddingAttributes::rows>("rows", 1, kMostRows),
    required_whole<&EmbeddingAttributes::channels>("channels", 1, kMostRowChannels),
    kWeightBlocks<&EmbeddingAttributes::weight_blocks>};
constexpr Element kIndices[] = {Element::kIndex};

Result<Shape> infer_embedding(const Attributes& given, std::span<const Shape> inputs) {
  const auto& attributes = given.as<EmbeddingAttributes>();
  if (inputs.size() != 1 || inputs[0].rank >= Shape::kMostDims - 1) {
    return invalid_input("wants one input of indices");
  }
  MANTISSA_RETURN_IF_ERROR(check_blocks(attributes.weight_blocks, attributes.channels));
  Shape output = inputs[0];
  output.dims[static_cast<size_t>(output.rank++)] = attributes.channels;
  return output;
}

std::vector<Parameter> embedding_parameters(const Attributes& given, std::span<const Shape>) {
  const auto& attributes = given.as<EmbeddingAttributes>();
  std::vector<Parameter> parameters = {table_of(attributes.rows, attributes.channels)};
  keep_in_blocks(attributes.weight_blocks, parameters);
  return parameters;
}

// An index beyond the table is a fault of the data, which its readers refuse; here it reads no
// memory that is not the table's.
int64_t row_at(const Tensor& indices, int64_t i, int64_t rows) {
  return std::clamp<int64_t>(indices.as<int32_t>()[i], 0, rows - 1);
}

// A row of a table in blocks, as mantissas at the row's exponent.
void expand_row(const OpContext& c, int64_t row, int8_t* mantissas) {
  const Tensor& table = c.parameters[0].mantissa;
  const BlockKind kind = c.attributes<EmbeddingAttributes>().weight_blocks;
  const int64_t blocks = table.shape[1] / block_weights(kind);
  const int64_t row_bytes = blocks * block_bytes(kind);
  c.kernel.table->blocks->expand({.blocks = table.as<uint8_t>() + row * row_bytes,
                                  .row_bytes = row_bytes,
                                  .kind = ref_kind(kind),
                                  .count = blocks,
                                  .exponents = table.exponent + row,
                                  .out = mantissas},
                                 0, 1);
}

void embedding_forward(const OpContext& c) {
  const Tensor &indices = c.inputs[0], &table = c.parameters[0].mantissa;
  const int64_t rows = table.shape[0], channels = table.shape[1];
  const bool in_blocks = c.attributes<EmbeddingAttributes>().weight_blocks != BlockKind::kNone;
  const int least = least_exponent(table);
  const auto exponent_at = [&](int64_t) { return least; };
  write_rows(c, exponent_at, [&](int64_t at, int exponent, int64_t* wide) {
    const int64_t row = row_at(indices, at, rows);
    const int shift = exponent - table.block_exponent(row);
    if (in_blocks) {
      std::array<int8_t, kMostRowChannels> expanded;
      expand_row(c, row, expanded.data());
      for (int64_t i = 0; i < channels; ++i) wide[i] = rescale_rne(expanded[i], shift);
      return;
    }
    const Mantissas mantissas(table);
    for (int64_t i = 0; i < channels; ++i) {
      wide[i] = rescale_rne(mantissas[row * channels + i], shift);
    }
  });
}

// Positions of the batch by the row that they name. The positions of row r are order[first[r]] up
// to order[first[r + 1]], in their own order.
struct ByRow {
  int32_t *first, *order;
  ByRow(std::byte* base, int64_t rows)
      : first(reinterpret_cast<int32_t*>(base)), order(first + rows + 1) {}
  static int64_t bytes(int64_t rows, int64_t positions) {
    return round_up<int64_t>((rows + 1 + positions) * int64_t{sizeof(int32_t)}, 64);
  }
};

void sort_by_row(const Tensor& indices, int64_t rows, const ByRow& by_row) {
  const int64_t positions = indices.count();
  std::fill_n(by_row.first, rows + 1, 0);
  for (int64_t i = 0; i < positions; ++i) ++by_row.first[row_at(indices, i, rows) + 1];
  for (int64_t row = 0; row < rows; ++row) by_row.first[row + 1] += by_row.first[row];
  for (int64_t i = 0; i < positions; ++i) {
    by_row.order[by_row.first[row_at(indices, i, rows)]++] = static_cast<int32_t>(i);
  }
  // Each begin has become the end of its row, which is the begin of the next.
  for (int64_t row = rows; row > 0; --row) by_row.first[row] = by_row.first[row - 1];
  by_row.first[0] = 0;
}

OpMemory embedding_memory(const OpShapes& s, const PlanningContext&) {
  return {
      .grad_weights = {.workspace_bytes = ByRow::bytes(s.parameters[0][0], s.inputs[0].count())}};
}

// A row's sum has at most one term for each position, since all positions may name it.
SumWidth embedding_sum_width(const OpShapes& s) {
  const int64_t most = INT32_MAX >> (s.wide_gradient.bits - 1);
  return s.inputs[0].count() <= most ? SumWidth::kInt32 : SumWidth::kInt64;
}

// Adds sums to the gradient's from element `first` on, after a shift, which is 0 for 32 bits.
void add_sums(std::span<const int64_t> sums, int shift, const Tensor& gradient, int64_t first) {
  if (gradient.type == DataType::kInt32) {
    auto* totals = gradient.as<int32_t>() + first;
    for (size_t i = 0; i < sums.size(); ++i) totals[i] += static_cast<int32_t>(sums[i]);
    return;
  }
  auto* totals = gradient.as<int64_t>() + first;
  for (size_t i = 0; i < sums.size(); ++i) {
    totals[i] = accumulate(totals[i], rescale_rne(sums[i], shift));
  }
}

void embedding_backward_weights(const OpContext& c) {
  const Tensor& gradient = c.parameters[0].gradient;
  const int64_t rows = gradient.shape[0], channels = gradient.shape[1];
  const ByRow by_row(c.memory.workspace, rows);
  sort_by_row(c.inputs[0], rows, by_row);
  const Mantissas grads(c.grad_output());
  if (gradient.type == DataType::kInt32) *gradient.exponent = *c.grad_output().exponent;
  const int shift = *gradient.exponent - *c.grad_output().exponent;
  kernels::parallel_ranges(*c.kernel.pool, rows, row_grain(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               if (by_row.first[row] == by_row.first[row + 1]) continue;
                               std::array<int64_t, kMostRowChannels> sums;
                               std::fill_n(sums.begin(), channels, int64_t{0});
                               for (int32_t k = by_row.first[row]; k < by_row.first[row + 1]; ++k) {
                                 const int64_t at = by_row.order[k] * channels;
                                 for (int64_t i = 0; i < channels; ++i) sums[i] += grads[at + i];
                               }
                               add_sums(std::span(sums).first(static_cast<size_t>(channels)), shift,
                                        gradient, row * channels);
                             }
                           });
}

}  // namespace

const Op kEmbedding = {.name = "embedding",
                       .traits = {.takes = TakenExponents::kOfRows, .row_by_row = true},
                       .attributes = schema<EmbeddingAttributes>(kEmbeddingSchema),
                       .infer_shape = infer_embedding,
                       .input_elements = kIndices,
                       .parameters = embedding_parameters,
                       .integer = {.memory = embedding_memory,
                                   .forward = {.run = embedding_forward},
                                   .grad_weights = {.run = embedding_backward_weights},
                                   .kernel = kernel_name<&kernels::KernelTable::wide>,
                                   .sum_width = embedding_sum_width},
                       .emit_gradient = emit_weighted_gradient,
                       .fp32 = &fp32::kEmbedding};

}  // namespace mantissa::ops
