// Rows by their places in fp32.
#include "ops/fp32.h"
#include "ops/shapes/row_places.h"

namespace mantissa::ops::fp32 {
namespace {

void gather_backward(const OpContext& c) {
  const RowsOfPlaces by_place = rows_of_places(c);
  const Tensor& to = c.grad_inputs[0];
  const auto* grads = c.grad_output().as<float>();
  const int64_t channels = to.shape.last(), positions = positions_of(to.shape),
                rows = positions_of(c.grad_output().shape);
  for_each(c, to.count(), [&](int64_t i) {
    const int64_t first = i / channels / positions * rows;
    float sum = 0;
    for (int32_t row = by_place.first[i / channels]; row >= 0; row = by_place.next[first + row]) {
      sum += grads[(first + row) * channels + i % channels];
    }
    to.as<float>()[i] = sum;
  });
}

}  // namespace

const OpRows kGatherRows = {.memory = gather_memory,
                            .forward = {.run = gather_all},
                            .grad_input = {.run = gather_backward},
                            .kernel = loops_name};
const OpRows kScatterRows = {.memory = scatter_memory,
                             .forward = {.run = scatter_all},
                             .grad_input = {.run = scatter_all_backward},
                             .kernel = loops_name};

}  // namespace mantissa::ops::fp32
