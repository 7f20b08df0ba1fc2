#include "quantise/weights/input_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "quantise/weights/weighted_rows.h"

namespace mantissa::quantise {
namespace {

constexpr double kDamping = 0.01;
// A piece of the rows that stays in the cache while rows of the sums take it.
constexpr int64_t kPieceRows = 32, kPieceColumns = 64;
constexpr int64_t kSumsOfATask = 16;  // rows
constexpr int64_t kPanel = 32;        // rows of the factor that the others take at once

// Adds the products of all rows x to rows [first, last) of the sums.
void add_to_sums(const double* x, int64_t rows, int64_t features, int64_t first, int64_t last,
                 double* sums) {
  std::array<double, kSumsOfATask * kPieceRows> factors;
  for (int64_t begin = 0; begin < rows; begin += kPieceRows) {
    const int64_t count = std::min(kPieceRows, rows - begin);
    const double* const piece = x + begin * features;
    for (int64_t i = first; i < last; ++i) {
      double* const own = factors.data() + (i - first) * kPieceRows;
      for (int64_t r = 0; r < count; ++r) own[r] = piece[r * features + i];
    }
    for (int64_t j = 0; j < last; j += kPieceColumns) {
      for (int64_t i = std::max(first, j); i < last; ++i) {
        const int64_t columns = std::min(kPieceColumns, i + 1 - j);
        add_weighted_rows(factors.data() + (i - first) * kPieceRows, piece + j, features, count,
                          columns, sums + i * features + j);
      }
    }
  }
}

// From row i, up to its diagonal, takes the products of rows [first, last) of the factor.
void take_products(const double* factor, int64_t features, int64_t first, int64_t last, int64_t i,
                   double* row) {
  std::array<double, kPanel> factors;
  for (int64_t k = first; k < last; ++k) {
    factors[static_cast<size_t>(k - first)] = -factor[k * features + i];
  }
  add_weighted_rows(factors.data(), factor + first * features, features, last - first, i + 1, row);
}

// Row k of the lower triangle becomes column k of R, from the last to the first: R[j][k] for
// j <= k. Products of later columns are taken from the rows before, a panel at a time.
void factorise(int64_t features, ThreadPool& pool, double* matrix) {
  for (int64_t last = features; last > 0;) {
    const int64_t first = std::max<int64_t>(0, last - kPanel);
    for (int64_t k = last - 1; k >= first; --k) {
      double* const row = matrix + k * features;
      take_products(matrix, features, k + 1, last, k, row);
      row[k] = std::sqrt(row[k]);
      for (int64_t j = 0; j < k; ++j) row[j] /= row[k];
    }
    pool.parallel_for(first, [&](int64_t i, int) {
      take_products(matrix, features, first, last, i, matrix + i * features);
    });
    last = first;
  }
}

}  // namespace

InputProducts::InputProducts(int64_t features)
    : features_(features), sums_(static_cast<size_t>(features * features)) {}

void InputProducts::add(std::span<const float> rows, ThreadPool& pool) {
  rows_.assign(rows.begin(), rows.end());
  const int64_t count = std::ssize(rows) / features_;
  const int64_t tasks = (features_ + kSumsOfATask - 1) / kSumsOfATask;
  pool.parallel_for(tasks, [&](int64_t task, int) {
    const int64_t first = task * kSumsOfATask;
    add_to_sums(rows_.data(), count, features_, first, std::min(first + kSumsOfATask, features_),
                sums_.data());
  });
}

Result<InputFactor> InputProducts::factor(ThreadPool& pool) && {
  InputFactor factor{.features = features_, .r = std::move(sums_), .squares = {}};
  const auto diagonal = [&](int64_t i) -> double& {
    return factor.r[static_cast<size_t>(i * (features_ + 1))];
  };
  double sum = 0;
  for (int64_t i = 0; i < features_; ++i) sum += diagonal(i);
  if (!std::isfinite(sum)) return failed("an input of the layer is not finite");
  factor.damping = sum == 0 ? 1 : kDamping * sum / static_cast<double>(features_);
  for (int64_t i = 0; i < features_; ++i) {
    diagonal(i) += factor.damping;
    factor.squares.push_back(diagonal(i));
  }
  factorise(features_, pool, factor.r.data());
  for (int64_t i = 0; i < features_; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      double& below = factor.r[static_cast<size_t>(i * features_ + j)];
      factor.r[static_cast<size_t>(j * features_ + i)] = below;
      below = 0;
    }
  }
  return factor;
}

int64_t InputProducts::predict_bytes(int64_t features, int64_t rows) {
  return (features + rows) * features * int64_t{sizeof(double)};
}

}  // namespace mantissa::quantise
