// Networks for the gradient check (gradient_check.h), and the formats that it takes them in.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/operators/gradient_check.h"

namespace mantissa::testing::gradients {

class Network {
 public:
  explicit Network(Shape shape) : builder_("network", shape) {
    last_ = builder_.add(ops::kNormaliseInput, "normalise", {builder_.input()},
                         {{"means", WholeList(static_cast<size_t>(shape.last()), 128)}});
  }
  int add(const Op& op, Attributes attributes = {}) { return add(op, {last_}, attributes); }
  int add(const Op& op, std::vector<int> inputs, Attributes attributes = {}) {
    return last_ = builder_.add(op, "node" + std::to_string(count_++), std::move(inputs),
                                std::move(attributes));
  }
  int convolution(int64_t channels, int64_t kernel, int64_t stride, int64_t padding, int64_t bias) {
    return add(ops::kConvolution, {{"channels", channels},
                                   {"kernel", kernel},
                                   {"stride", stride},
                                   {"padding", padding},
                                   {"bias", bias}});
  }
  int add_sharing(int with, const Op& op, Attributes attributes = {}) {
    return last_ = builder_.add_sharing(with, op, "node" + std::to_string(count_++), {last_},
                                        std::move(attributes));
  }
  Graph finish(int64_t classes) {
    add(ops::kLinear, {{"channels", classes}, {"classifier", 1}});
    auto graph = builder_.finish(last_);
    EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
    return std::move(*graph);
  }
  int last() const { return last_; }

 private:
  GraphBuilder builder_;
  int last_ = 0;
  int count_ = 1;
};

inline bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// 8 bits; gradients of 32 bits between layers; 16 bits; and linear values that are wider than the
// others, in widths that no integer type has.
inline const std::vector<Format>& formats() {
  static const std::vector<Format> list = {
      {},
      {.grad_weights_bits = 32, .headroom = false},
      {.weight_bits = 16, .activation_bits = 16},
      {.weight_bits = 13, .activation_bits = 11, .linear_bits = 16}};
  return list;
}

// Checks a step of the network in each format.
inline void check_all(const Graph& graph, int64_t batch, const std::vector<const char*>& names,
                      const std::function<void(Checked&)>& prepare = {}) {
  for (const Format& format : formats()) {
    SCOPED_TRACE(to_string(format));
    Checked checked(graph, batch, ops::LossKind::kCrossEntropy, 0, format);
    if (prepare) prepare(checked);
    checked.run();
    const auto found = checked.check();
    for (const char* name : names) EXPECT_TRUE(contains(found, name)) << name;
  }
}

}  // namespace mantissa::testing::gradients
