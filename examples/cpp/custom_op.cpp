// An operator of one's own with its gradient, in integers: a smooth ReLU without exponentials,
// y = x * clamp(x + 3, 0, 6) / 6 (hard swish), and a network that trains with it.
#include <mantissa/own_operator.h>
#include <mantissa/training.h>

#include <algorithm>
#include <cstdio>

#include "shapes.h"

namespace {

// 3 in the unit of x, 2^exponent; 0 or a huge number if the unit is far too large or small.
int64_t three(int exponent) {
  if (exponent > 1) return 0;
  return exponent < -40 ? int64_t{3} << 40 : int64_t{3} << -std::min(exponent, 0);
}

mantissa::OwnOperator swish() {
  mantissa::OwnOperator op;
  op.name = "six_swish";
  // A sixth is 10923 / 2^16: exact enough, and the same everywhere.
  op.forward = [](const mantissa::OperatorCall& call) {
    const mantissa::MantissaView x = call.inputs[0];
    const int64_t t = three(x.exponent);
    return mantissa::Wide{2 * x.exponent - 16, [x, t](int64_t i) {
                            return x[i] * std::clamp<int64_t>(x[i] + t, 0, 2 * t) * 10923;
                          }};
  };
  // dy/dx = (2 x + 3) / 6 between -3 and 3, 0 below, 1 above.
  op.gradient = [](const mantissa::OperatorCall& call, int) {
    const mantissa::MantissaView x = call.inputs[0], g = call.gradient;
    const int64_t t = three(x.exponent);
    return mantissa::Wide{x.exponent + g.exponent - 16, [x, g, t](int64_t i) {
                            if (x[i] <= -t) return int64_t{0};
                            if (x[i] >= t) return g[i] * 2 * t * 10923;
                            return g[i] * (2 * x[i] + t) * 10923;
                          }};
  };
  return op;
}

int fail(const std::string& error) {
  std::fprintf(stderr, "%s\n", error.c_str());
  return 1;
}

}  // namespace

int main() {
  if (auto done = mantissa::register_operator(swish()); !done) return fail(done.error());
  constexpr int kKinds = 4;
  const Shapes train(4000, 0, kKinds, 1), test(1000, 0, kKinds, 2);

  mantissa::NetworkBuilder net("swish");
  net.pixels("pixels", {Shapes::kSize, Shapes::kSize, 1});
  for (int i = 0; i < 2; ++i) {
    net.convolution({.channels = 16});
    net.batch_norm();
    net.add("six_swish", {{}});
  }
  net.global_average_pool();
  const mantissa::Var logits = net.linear(kKinds);
  net.cross_entropy(logits, "labels");
  auto network = net.finish({logits});
  if (!network) return fail(network.error());

  auto trainer = mantissa::Trainer::create(*network, {{"batch-size", "50"}});
  if (!trainer) return fail(trainer.error());
  auto history = trainer->fit(train.arrays(), {.epochs = 5});
  if (!history) return fail(history.error());
  auto model = trainer->freeze(train.arrays());
  if (!model) return fail(model.error());
  auto report = model->evaluate(test.arrays());
  if (!report) return fail(report.error());
  const double accuracy = report->losses[0].accuracy;
  std::printf("with %s: loss %.3f, test accuracy %.1f %%\n", "six_swish", report->loss,
              100 * accuracy);
  return accuracy > 0.9 ? 0 : fail("the network did not learn");
}
