#include "run/settings/derived_settings.h"

#include <algorithm>

#include "models/models.h"

namespace mantissa {
namespace {

constexpr DerivedSetting kDerived[] = {
    {"micro-batch-size",
     {"batch-size", "accumulate"},
     [](const RunConfig& c) { return c.micro_batch_size == 0; },
     [](RunConfig& c) {
       c.micro_batch_size =
           std::max<int64_t>(1, c.batch_size / std::max<int64_t>(1, c.pipeline.accumulate));
     }},
    {"learning-rate",
     {"model", "optimizer"},
     [](const RunConfig& c) { return c.learning_rate == 0; },
     [](RunConfig& c) {
       const double of_optimizer = optimizer(c.optimizer).learning_rate;
       c.learning_rate = of_optimizer > 0 ? of_optimizer : default_learning_rate(c.model);
     }},
    {"weight-decay",
     {"optimizer"},
     [](const RunConfig& c) { return c.weight_decay < 0; },
     [](RunConfig& c) { c.weight_decay = optimizer(c.optimizer).weight_decay; }}};

}  // namespace

bool DerivedSetting::follows_from(std::string_view setting) const {
  return std::any_of(from.begin(), from.end(),
                     [&](const char* base) { return base != nullptr && setting == base; });
}

std::span<const DerivedSetting> derived_settings() { return kDerived; }

}  // namespace mantissa
