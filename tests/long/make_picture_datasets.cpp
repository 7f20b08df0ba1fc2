// Makes data sets of every kind from Fashion-MNIST:
//
//   make_picture_datasets OUT [TRAIN TEST]      how many examples (all: 60000 10000)
//
// OUT/grey-idx, grey-png and grey-jpeg hold the pictures, OUT/colour-idx, colour-cifar, colour-png
// and colour-jpeg the same in 32x32x3, each tinted. All have the same examples in the same order,
// by class; apart from the JPEG files, they have the same pixels.
#include <cstdio>
#include <cstdlib>

#include "tests/training/picture_datasets.h"

int main(int argc, char** argv) {
  using namespace mantissa;
  if (argc != 2 && argc != 4) {
    std::fprintf(stderr, "usage: make_picture_datasets OUT [TRAIN TEST]\n");
    return 2;
  }
  const auto source = load_dataset("fashion-mnist", true, true);
  if (!source.ok()) {
    std::fprintf(stderr, "%s\n", source.error().message.c_str());
    return 1;
  }
  const int64_t train = argc == 4 ? std::atoll(argv[2]) : source->train.count;
  const int64_t test = argc == 4 ? std::atoll(argv[3]) : source->test.count;
  Dataset grey, colour;
  grey.train = testing::by_class(source->train, train);
  grey.test = testing::by_class(source->test, test);
  colour.train = testing::coloured(grey.train);
  colour.test = testing::coloured(grey.test);
  const std::filesystem::path out = argv[1];
  testing::put_idx_dataset(out / "grey-idx", grey);
  testing::put_folder_dataset(out / "grey-png", grey, false);
  testing::put_folder_dataset(out / "grey-jpeg", grey, true);
  testing::put_idx_dataset(out / "colour-idx", colour);
  testing::put_cifar_dataset(out / "colour-cifar", colour);
  testing::put_folder_dataset(out / "colour-png", colour, false);
  testing::put_folder_dataset(out / "colour-jpeg", colour, true);
  return 0;
}
