#include "quantise/sensitivity.h"

#include <algorithm>
#include <cmath>

namespace mantissa::quantise {
namespace {

Status check(double loss, std::span<const LayerLoss> layers, int kept_bits) {
  if (!std::isfinite(loss)) return invalid_input("the loss without quantised layers is not finite");
  if (kept_bits < 1) return invalid_input("layers cannot be kept at less than one bit");
  for (const LayerLoss& layer : layers) {
    if (!std::isfinite(layer.loss)) {
      return invalid_input("the loss with " + layer.name + " quantised is not finite");
    }
    if (layer.bits < 1 || layer.input_bits < 1 || layer.weights < 0) {
      return invalid_input(layer.name + " has less than one bit or less than no weights");
    }
  }
  return {};
}

std::vector<SensitivityAdvice> advice_from(const SensitivityTable& table) {
  std::vector<SensitivityAdvice> advice;
  for (const double wanted : {0.5, 0.8, 0.95}) {
    SensitivityAdvice next;
    for (const SensitivityRow& row : table.rows) {
      if (row.rise <= 0 || !row.has_few_bits || next.won_back >= wanted) continue;
      next.layers.push_back(row.layer);
      next.won_back += row.share;
      next.more_bytes += row.more_bytes;
    }
    const size_t before = advice.empty() ? 0 : advice.back().layers.size();
    if (next.layers.size() > before) advice.push_back(std::move(next));
  }
  return advice;
}

}  // namespace

Result<SensitivityTable> sensitivity_table(double loss, std::span<const LayerLoss> layers,
                                           int kept_bits) {
  MANTISSA_RETURN_IF_ERROR(check(loss, layers, kept_bits));
  SensitivityTable table;
  double rises = 0;
  for (const LayerLoss& layer : layers) {
    const double rise = layer.loss - loss;
    const int64_t more_bits = std::max(kept_bits - layer.bits, 0);
    const int64_t bytes = (layer.weights * more_bits + 7) / 8;
    table.rows.push_back({.layer = static_cast<int64_t>(table.rows.size()),
                          .rise = rise,
                          .more_bytes = bytes,
                          .has_few_bits = std::min(layer.bits, layer.input_bits) < kept_bits});
    rises += std::max(rise, 0.0);
  }
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const auto& a, const auto& b) { return a.rise > b.rise; });
  for (SensitivityRow& row : table.rows) row.share = row.rise > 0 ? row.rise / rises : 0;
  table.advice = advice_from(table);
  return table;
}

}  // namespace mantissa::quantise
