// A network of one's own, trained on pictures in memory, kept in a file, and run from there.
#include <mantissa/training.h>

#include <algorithm>
#include <cstdio>

#include "shapes.h"

namespace {

// Two convolutions with a shortcut around the second.
mantissa::Outcome<mantissa::Network> network(int kinds) {
  mantissa::NetworkBuilder net("shapes");
  net.pixels("pixels", {Shapes::kSize, Shapes::kSize, 1});
  net.convolution({.channels = 16});
  net.batch_norm();
  const mantissa::Var shortcut = net.relu();
  net.convolution({.channels = 16});
  const mantissa::Var changed = net.batch_norm();
  net.sum(changed, shortcut);
  net.relu();
  net.global_average_pool();
  const mantissa::Var logits = net.linear(kinds);
  net.cross_entropy(logits, "labels");
  return net.finish({logits});
}

int fail(const std::string& error) {
  std::fprintf(stderr, "%s\n", error.c_str());
  return 1;
}

}  // namespace

int main() {
  constexpr int kKinds = 4;
  const Shapes train(4000, 0, kKinds, 1), test(1000, 0, kKinds, 2);
  auto net = network(kKinds);
  if (!net) return fail(net.error());

  auto trainer = mantissa::Trainer::create(*net, {{"format", "bfp8"}, {"batch-size", "50"}});
  if (!trainer) return fail(trainer.error());
  std::printf("%s\n", trainer->plan().c_str());
  const auto show = [](const mantissa::EpochReport& epoch) {
    std::printf("epoch %lld  loss %.3f  accuracy %.1f %%\n", static_cast<long long>(epoch.epoch),
                epoch.training.loss, 100 * epoch.training.losses[0].accuracy);
    return true;
  };
  auto history = trainer->fit(train.arrays(), {.epochs = 5, .observer = show});
  if (!history) return fail(history.error());

  auto model = trainer->freeze(train.arrays());
  if (!model) return fail(model.error());
  if (auto saved = model->save("shapes.safetensors"); !saved) return fail(saved.error());

  // Whoever has the file needs nothing else.
  auto loaded = mantissa::Model::load("shapes.safetensors");
  if (!loaded) return fail(loaded.error());
  auto logits = loaded->predict(test.arrays());
  if (!logits) return fail(logits.error());
  int right = 0;
  for (size_t n = 0; n < test.labels.size(); ++n) {
    const double* row = (*logits)[0].data() + kKinds * n;
    right += std::max_element(row, row + kKinds) - row == test.labels[n];
  }
  std::printf("test accuracy %.1f %% of %zu\n",
              100.0 * right / static_cast<double>(test.labels.size()), test.labels.size());
  return right > 900 ? 0 : fail("the network did not learn");
}
