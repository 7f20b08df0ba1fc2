#include "quantise/weights/block_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quantise/weights/block_search.h"
#include "quantise/weights/weighted_rows.h"

namespace mantissa::quantise {
namespace {

constexpr int64_t kRowsOfATask = 4;  // share the factor's rows while these are in the cache
constexpr int64_t kSpreadColumns = 64;

using BlockOf = std::array<double, kMostBlockWeights>;

// A row of numbers times R, block by block: the part of each column so far.
class Product {
 public:
  Product(const InputFactor& inputs, int64_t block)
      : inputs_(inputs), block_(block), parts_(static_cast<size_t>(inputs.features)) {}

  const double* parts() const { return parts_.data(); }

  // The number of column k, whose part becomes complete. Columns of the block behind it get theirs.
  void add(int64_t k, double number) {
    const double* const row = inputs_.row(k);
    const int64_t end = (k / block_ + 1) * block_;
    for (int64_t j = k; j < end; ++j) parts_[static_cast<size_t>(j)] += number * row[j];
    const double part = parts_[static_cast<size_t>(k)];
    numbers_[static_cast<size_t>(k % block_)] = number;
    squares_ += part * part;
    own_squares_ += number * number;
  }

  // Adds the block that begins at column k to a piece of the columns behind it.
  void spread(int64_t k, int64_t first, int64_t columns) {
    add_weighted_rows(numbers_.data(), inputs_.row(k) + first, inputs_.features, block_, columns,
                      parts_.data() + first);
  }

  // Without the damping.
  double squares() const { return std::max(0.0, squares_ - inputs_.damping * own_squares_); }

 private:
  const InputFactor& inputs_;
  int64_t block_;  // columns of a block
  std::vector<double> parts_;
  BlockOf numbers_{};  // of the block that is being added
  double squares_ = 0, own_squares_ = 0;
};

struct Squares {
  double outputs = 0, nearest = 0, rounded = 0;
};

// Rounds one row, a block after the other.
class Row {
 public:
  Row(const BlockLayer& layer, const InputFactor& inputs, int64_t row, BlockWeights& out)
      : layer_(layer),
        inputs_(inputs),
        block_(block_weights(layer.kind)),
        weights_(layer.weights.data() + row * inputs.features),
        grids_(out.grids.data() + row * (inputs.features / block_)),
        steps_(out.steps.data() + row * inputs.features),
        outputs_(inputs, block_),
        nearest_(inputs, block_),
        errors_(inputs, block_) {}

  void round_block(int64_t first) {
    BlockOf weights{};
    std::copy_n(weights_ + first, block_, weights.begin());
    const BlockGrid whole = whole_grid(layer_.kind, own(weights));
    const BlockGrid grid = layer_.method == BlockMethod::kNearest
                               ? whole
                               : fitted_grid(first, wanted(first, weights));
    grids_[first / block_] = grid;
    const BlockSteps range = block_steps(layer_.kind);
    for (int64_t k = first; k < first + block_; ++k) {
      const double weight = weights_[k];
      const double step = nearest_step(weight + correction(k), grid, range);
      steps_[k] = static_cast<int8_t>(step);
      outputs_.add(k, weight);
      nearest_.add(k, weight - block_number(nearest_step(weight, whole, range), whole));
      errors_.add(k, weight - block_number(step, grid));
    }
  }

  void spread(int64_t k, int64_t first, int64_t columns) {
    for (Product* product : {&outputs_, &nearest_, &errors_}) product->spread(k, first, columns);
  }

  Squares squares() const { return {outputs_.squares(), nearest_.squares(), errors_.squares()}; }

 private:
  std::span<const double> own(const BlockOf& numbers) const {
    return {numbers.data(), static_cast<size_t>(block_)};
  }
  BlockGrid fitted_grid(int64_t first, const BlockOf& numbers) const {
    const std::span<const double> squares = inputs_.squares;
    return least_squares_grid(layer_.kind, own(numbers),
                              squares.subspan(static_cast<size_t>(first), own(numbers).size()));
  }

  // The correction of weight k for the errors before it.
  double correction(int64_t k) const {
    return layer_.method == BlockMethod::kHessian ? errors_.parts()[k] / inputs_.row(k)[k] : 0;
  }

  // The weights of a block, moved so that without more rounding the errors before would add nothing
  // to the parts of these columns.
  BlockOf wanted(int64_t first, BlockOf weights) const {
    if (layer_.method != BlockMethod::kHessian) return weights;
    BlockOf parts{};
    std::copy_n(errors_.parts() + first, block_, parts.begin());
    for (int64_t i = 0; i < block_; ++i) {
      const double* const row = inputs_.row(first + i) + first;
      const double moved = parts[static_cast<size_t>(i)] / row[i];
      weights[static_cast<size_t>(i)] += moved;
      for (int64_t j = i + 1; j < block_; ++j) parts[static_cast<size_t>(j)] -= moved * row[j];
    }
    return weights;
  }

  const BlockLayer& layer_;
  const InputFactor& inputs_;
  int64_t block_;
  const float* weights_;
  BlockGrid* grids_;
  int8_t* steps_;
  Product outputs_, nearest_, errors_;
};

// Rounds some rows together: pieces of the factor serve all of them.
void round_rows(std::vector<Row>& rows, int64_t features, int64_t block) {
  for (int64_t first = 0; first < features; first += block) {
    for (Row& row : rows) row.round_block(first);
    for (int64_t j = first + block; j < features; j += kSpreadColumns) {
      for (Row& row : rows) row.spread(first, j, std::min(kSpreadColumns, features - j));
    }
  }
}

double relative(double error, double outputs) {
  return outputs == 0 ? 0 : std::sqrt(error / outputs);
}

}  // namespace

BlockWeights round_to_blocks(const BlockLayer& layer, const InputFactor& inputs, ThreadPool& pool) {
  const int64_t features = inputs.features;
  BlockWeights result;
  result.grids.resize(static_cast<size_t>(layer.rows * (features / block_weights(layer.kind))));
  result.steps.resize(static_cast<size_t>(layer.rows * features));
  std::vector<Squares> squares(static_cast<size_t>(layer.rows));
  pool.parallel_for((layer.rows + kRowsOfATask - 1) / kRowsOfATask, [&](int64_t task, int) {
    std::vector<Row> rows;
    const int64_t begin = task * kRowsOfATask, end = std::min(begin + kRowsOfATask, layer.rows);
    for (int64_t r = begin; r < end; ++r) rows.emplace_back(layer, inputs, r, result);
    round_rows(rows, features, block_weights(layer.kind));
    for (int64_t r = begin; r < end; ++r) {
      squares[static_cast<size_t>(r)] = rows[static_cast<size_t>(r - begin)].squares();
    }
  });
  Squares all;
  for (const Squares& row : squares) {
    all.outputs += row.outputs;
    all.nearest += row.nearest;
    all.rounded += row.rounded;
  }
  result.nearest_error = relative(all.nearest, all.outputs);
  result.error = relative(all.rounded, all.outputs);
  return result;
}

}  // namespace mantissa::quantise
