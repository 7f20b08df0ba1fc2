// Group norm in fp32: sums in double, an example at a time.
#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

struct GroupSizes {
  int64_t examples, rows, channels, groups, per_group;
  explicit GroupSizes(const OpContext& c)
      : examples(c.inputs[0].shape[0]),
        rows(c.inputs[0].count() / examples / c.inputs[0].shape.last()),
        channels(c.inputs[0].shape.last()),
        groups(c.attributes<GroupNormAttributes>().groups),
        per_group(channels / groups) {}
  int64_t count() const { return rows * per_group; }
  int64_t first(int64_t example) const { return example * rows * channels; }
};

// Mean and 1 / sigma of a group of one example.
struct Statistics {
  double mean = 0, inverse = 0;
};

// Calls visit(element, channel) for the group's elements, row by row.
template <typename Visit>
void for_group(const GroupSizes& sizes, int64_t example, int64_t group, const Visit& visit) {
  for (int64_t row = 0; row < sizes.rows; ++row) {
    const int64_t at = sizes.first(example) + row * sizes.channels;
    for (int64_t i = group * sizes.per_group; i < (group + 1) * sizes.per_group; ++i) {
      visit(at + i, i);
    }
  }
}

Statistics statistics_of(const OpContext& c, const GroupSizes& sizes, int64_t example,
                         int64_t group) {
  const auto* x = c.inputs[0].as<float>();
  const auto n = static_cast<double>(sizes.count());
  Statistics found;
  for_group(sizes, example, group, [&](int64_t at, int64_t) { found.mean += x[at]; });
  found.mean /= n;
  double squares = 0;
  for_group(sizes, example, group, [&](int64_t at, int64_t) {
    const double centred = x[at] - found.mean;
    squares += centred * centred;
  });
  found.inverse = 1 / std::sqrt(squares / n + c.attributes<GroupNormAttributes>().epsilon);
  return found;
}

void group_norm(const OpContext& c) {
  const GroupSizes sizes(c);
  const auto *x = c.inputs[0].as<float>(), *scale = c.parameters[0].mantissa.as<float>(),
             *offset = c.parameters[1].mantissa.as<float>();
  auto* y = c.output().as<float>();
  const float least = c.mode.relu ? 0.0f : -__builtin_huge_valf();
  for_images(c, sizes.examples * sizes.groups, [&](int64_t i) {
    const int64_t example = i / sizes.groups, group = i % sizes.groups;
    const Statistics of = statistics_of(c, sizes, example, group);
    for_group(sizes, example, group, [&](int64_t at, int64_t channel) {
      const double normed = (x[at] - of.mean) * of.inverse;
      y[at] = std::max(static_cast<float>(normed * scale[channel] + offset[channel]), least);
    });
  });
}

// The gradient that comes in, through the ReLU that is part of the instruction.
float passing(const OpContext& c, int64_t at) {
  const bool stops = c.mode.relu && c.output().as<float>()[at] <= 0;
  return stops ? 0.0f : c.grad_output().as<float>()[at];
}

void group_norm_backward(const OpContext& c) {
  const GroupSizes sizes(c);
  const auto *x = c.inputs[0].as<float>(), *scale = c.parameters[0].mantissa.as<float>();
  auto* dx = c.grad_inputs[0].as<float>();
  const auto n = static_cast<double>(sizes.count());
  for_images(c, sizes.examples * sizes.groups, [&](int64_t i) {
    const int64_t example = i / sizes.groups, group = i % sizes.groups;
    const Statistics of = statistics_of(c, sizes, example, group);
    double sum = 0, sum_normed = 0;
    for_group(sizes, example, group, [&](int64_t at, int64_t channel) {
      const double d = double{passing(c, at)} * scale[channel];
      sum += d;
      sum_normed += d * (x[at] - of.mean) * of.inverse;
    });
    for_group(sizes, example, group, [&](int64_t at, int64_t channel) {
      const double d = double{passing(c, at)} * scale[channel];
      const double normed = (x[at] - of.mean) * of.inverse;
      dx[at] = static_cast<float>((d - sum / n - normed * sum_normed / n) * of.inverse);
    });
  });
}

// Groups shared among threads, so that no two add to one channel.
void group_norm_backward_weights(const OpContext& c) {
  const GroupSizes sizes(c);
  const auto* x = c.inputs[0].as<float>();
  const Tensor &scale = c.parameters[0].gradient, &offset = c.parameters[1].gradient;
  for_images(c, sizes.groups, [&](int64_t group) {
    for (int64_t example = 0; example < sizes.examples; ++example) {
      const Statistics of = statistics_of(c, sizes, example, group);
      for_group(sizes, example, group, [&](int64_t at, int64_t channel) {
        const float grad = passing(c, at);
        const double normed = (x[at] - of.mean) * of.inverse;
        if (!scale.empty()) scale.as<float>()[channel] += static_cast<float>(grad * normed);
        if (!offset.empty()) offset.as<float>()[channel] += grad;
      });
    }
  });
}

}  // namespace

const OpRows kGroupNorm = {.forward = {.run = group_norm},
                           .grad_input = {.run = group_norm_backward},
                           .grad_weights = {.run = group_norm_backward_weights},
                           .kernel = loops_name};

}  // namespace mantissa::ops::fp32
