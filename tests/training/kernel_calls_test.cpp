// What the kernels are called for in a step of the warm-up of dynamic fixed point: as much as in a
// later step, and once more for what is run again (DynamicFixed, claims 1 and 2).
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/harness.h"

namespace mantissa::testing {
namespace {

// By kernel: how many elements, rows or images it was called for; or how often, if it takes all.
std::map<std::string, int64_t> work;

template <typename... Arguments>
int64_t size_of_call(const Arguments&... arguments) {
  int64_t begin = 0, end = 0, numbers = 0;
  const auto note = [&](const auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, int64_t>) {
      begin = std::exchange(end, argument);
      ++numbers;
    }
  };
  (note(arguments), ...);
  return numbers >= 2 ? end - begin : 1;
}

// A kernel of a row of the table, in whose place call() is put.
template <auto kKernel, size_t kRow = 0>
struct Counted;
template <typename Family, typename Result, typename... Arguments,
          Result (*Family::*kKernel)(Arguments...) noexcept, size_t kRow>
struct Counted<kKernel, kRow> {
  static inline Result (*real)(Arguments...) noexcept = nullptr;
  static inline std::string name;

  static Result call(Arguments... arguments) noexcept {
    work[name] += size_of_call(arguments...);
    return real(arguments...);
  }
  static void put_into(Family& row, const char* kernel) {
    name = kernel;
    real = row.*kKernel;
    if (real != nullptr) row.*kKernel = call;
  }
};

// A table whose kernels count their calls: those that compute wide values.
class CountingTable {
 public:
  explicit CountingTable(const kernels::KernelTable& table)
      : table_(table),
        elementwise_(*table.elementwise),
        batch_norm_(*table.batch_norm),
        pooling_(*table.pooling),
        softmax_(*table.softmax),
        wide_(*table.wide) {
    put_convolutions(std::make_index_sequence<kMostRows>());
    using E = kernels::ElementwiseKernels;
    Counted<&E::normalise_input>::put_into(elementwise_, "normalise_input");
    Counted<&E::add>::put_into(elementwise_, "add");
    Counted<&E::add_wide>::put_into(elementwise_, "add_wide");
    Counted<&E::multiply>::put_into(elementwise_, "multiply");
    Counted<&E::look_up>::put_into(elementwise_, "look_up or clamp");
    Counted<&E::clamp>::put_into(elementwise_, "look_up or clamp");
    Counted<&E::scale_gradient>::put_into(elementwise_, "scale_gradient");
    using B = kernels::BatchNormKernels;
    Counted<&B::channel_sums>::put_into(batch_norm_, "channel_sums");
    Counted<&B::scale_offset>::put_into(batch_norm_, "scale_offset");
    Counted<&B::gradient>::put_into(batch_norm_, "batch_norm gradient");
    using P = kernels::PoolingKernels;
    Counted<&P::average_pool>::put_into(pooling_, "average_pool");
    Counted<&P::image_sums>::put_into(pooling_, "image_sums");
    Counted<&kernels::SoftmaxKernels::gradient>::put_into(softmax_, "softmax gradient");
    Counted<&kernels::WideKernels::narrow>::put_into(wide_, "narrow");
    table_.elementwise = &elementwise_;
    table_.batch_norm = &batch_norm_;
    table_.pooling = &pooling_;
    table_.softmax = &softmax_;
    table_.wide = &wide_;
  }
  CountingTable(const CountingTable&) = delete;
  CountingTable& operator=(const CountingTable&) = delete;

  const kernels::KernelTable& table() const { return table_; }

 private:
  static constexpr size_t kMostRows = 12;

  template <size_t... kRows>
  void put_convolutions(std::index_sequence<kRows...>) {
    EXPECT_LE(table_.convolution.size(), kMostRows);
    (put_convolution<kRows>(), ...);
  }
  template <size_t kRow>
  void put_convolution() {
    using C = kernels::ConvolutionKernels;
    if (kRow >= table_.convolution.size()) return;
    C& row = convolution_[kRow];
    row = *table_.convolution[kRow];
    Counted<&C::forward, kRow>::put_into(row, "convolution forward");
    Counted<&C::grad_input, kRow>::put_into(row, "convolution grad_input");
    Counted<&C::grad_weights, kRow>::put_into(row, "convolution grad_weights");
    table_.convolution[kRow] = &row;
  }

  kernels::KernelTable table_;
  std::array<kernels::ConvolutionKernels, kMostRows> convolution_;
  kernels::ElementwiseKernels elementwise_;
  kernels::BatchNormKernels batch_norm_;
  kernels::PoolingKernels pooling_;
  kernels::SoftmaxKernels softmax_;
  kernels::WideKernels wide_;
};

constexpr int kWarmUp = 3;

struct Steps {
  std::map<std::string, int64_t> first, warm_up, later;
  int64_t first_re_executions = 0;
};

// The first and the last step of a warm-up, and the step after it.
Steps work_of_steps(HarnessOptions options, const std::string& keys) {
  const CountingTable counting(kernels::select_kernels(options.isa));
  options.kernels = &counting.table();
  options.format = "dfp:warmup=" + std::to_string(kWarmUp) + keys;
  options.first_step = -1;
  Harness harness(options);
  Steps steps;
  const auto step = [&] {
    work.clear();
    const int64_t re_executions = harness.step().re_executions;
    return std::pair(work, re_executions);
  };
  std::tie(steps.first, steps.first_re_executions) = step();
  for (int i = 1; i < kWarmUp; ++i) steps.warm_up = step().first;
  steps.later = step().first;
  return steps;
}

const struct {
  const char *model, *keys;
  double width;
} kNetworks[] = {{"mlp", "", 1},
                 {"lenet5", "", 1},
                 {"lenet5", ",g=8,linear=16", 1},
                 {"resnet8", "", 1},
                 {"resnet8", ",a=12", 0.5},
                 {"mobilenet_v2", "", 0.125},
                 {"inception_small", "", 0.125}};

TEST(KernelCalls, AStepOfTheWarmUpComputesAsMuchAsALaterOne) {
  for (const auto& network : kNetworks) {
    for (const Isa isa : {Isa::kScalar, best_isa()}) {
      const Steps steps = work_of_steps({.model = network.model,
                                         .batch_size = 4,
                                         .micro_batch_size = 2,
                                         .isa = isa,
                                         .width = network.width},
                                        network.keys + std::string(",threshold=255"));
      EXPECT_GT(steps.later.size(), 4u) << network.model;
      EXPECT_EQ(steps.first, steps.later) << network.model << network.keys << isa_name(isa);
      EXPECT_EQ(steps.warm_up, steps.later) << network.model << network.keys << isa_name(isa);
    }
  }
}

TEST(KernelCalls, WhatIsRunAgainIsComputedOnceMore) {
  const Steps steps = work_of_steps({.model = "mlp"}, ",threshold=0,start=-40");
  int64_t more = 0;
  for (const char* kernel : {"convolution forward", "convolution grad_input"}) {
    const int64_t later = steps.later.at(kernel), first = steps.first.at(kernel);
    EXPECT_GT(first, later) << kernel;
    EXPECT_LE(first, 2 * later) << kernel;
    more += first - later;
  }
  EXPECT_LE(more, steps.first_re_executions);
  for (const auto& [kernel, times] : steps.first) {
    EXPECT_LE(times, 2 * steps.later.at(kernel)) << kernel;
  }
  EXPECT_EQ(steps.first.at("convolution grad_weights"), steps.later.at("convolution grad_weights"));
}

}  // namespace
}  // namespace mantissa::testing
