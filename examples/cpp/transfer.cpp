// From one task to another: the layers of a trained network, kept as they are, under a new last
// layer that learns other kinds of pictures from few examples.
#include <mantissa/training.h>

#include <cstdio>

#include "shapes.h"

namespace {

mantissa::Outcome<mantissa::Network> network(int kinds, const char* last) {
  mantissa::NetworkBuilder net("shapes");
  net.pixels("pixels", {Shapes::kSize, Shapes::kSize, 1});
  for (int i = 0; i < 2; ++i) {
    net.convolution({.channels = 16});
    net.batch_norm();
    net.relu();
  }
  net.global_average_pool();
  const mantissa::Var logits = net.linear(kinds, {}, last);
  net.cross_entropy(logits, "labels");
  return net.finish({logits});
}

int fail(const std::string& error) {
  std::fprintf(stderr, "%s\n", error.c_str());
  return 1;
}

// Test accuracy after `epochs` more epochs. On an error prints its message, and gives -1.
double accuracy_after(mantissa::Trainer& trainer, const Shapes& train, const Shapes& test,
                      int epochs) {
  auto history = trainer.fit(train.arrays(), {.epochs = epochs});
  if (!history) return fail(history.error()), -1;
  auto model = trainer.freeze(train.arrays());
  if (!model) return fail(model.error()), -1;
  auto report = model->evaluate(test.arrays());
  if (!report) return fail(report.error()), -1;
  return report->losses[0].accuracy;
}

}  // namespace

int main() {
  const mantissa::Settings settings = {{"batch-size", "20"}};
  auto first = network(4, "kinds");
  if (!first) return fail(first.error());
  auto teacher = mantissa::Trainer::create(*first, settings);
  if (!teacher) return fail(teacher.error());
  const double learned = accuracy_after(*teacher, Shapes(4000, 0, 4, 1), Shapes(1000, 0, 4, 2), 5);
  std::printf("four kinds, 4000 pictures: test accuracy %.1f %%\n", 100 * learned);

  // Two other kinds, 60 pictures. Everything but the new last layer stays.
  const Shapes few(60, 4, 2, 3), test(1000, 4, 2, 4);
  auto second = network(2, "others");
  if (!second) return fail(second.error());
  auto fresh = mantissa::Trainer::create(*second, settings);
  auto frozen = second->with_frozen("convolution*");
  if (frozen) frozen = frozen->with_frozen("batch_norm*");
  if (!fresh || !frozen) return fail(fresh.error() + frozen.error());
  auto student = mantissa::Trainer::create(*frozen, settings);
  if (!student) return fail(student.error());
  for (const mantissa::ParameterInfo& parameter : frozen->parameters()) {
    auto numbers = teacher->parameter(parameter.name);
    if (!numbers) continue;  // the new layer
    auto set = student->set_parameter(parameter.name, numbers->numbers);
    if (!set) return fail(set.error());
  }
  const double alone = accuracy_after(*fresh, few, test, 8);
  const double taught = accuracy_after(*student, few, test, 8);
  std::printf(
      "two other kinds, 60 pictures: from scratch %.1f %%, from the trained layers %.1f %%\n",
      100 * alone, 100 * taught);
  return taught > alone && alone >= 0 ? 0 : fail("the trained layers did not help");
}
