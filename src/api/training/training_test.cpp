// Networks of one's own through the public interface alone.
#include "mantissa/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "api/training/test_problem.h"
#include "base/test_folder.h"

namespace mantissa {
namespace {

Network picture_network(int64_t classes = 3) {
  NetworkBuilder net("pictures");
  net.pixels("pixels", {6, 6, 1}, {100});
  net.convolution({.channels = 8});
  net.batch_norm();
  net.relu();
  net.max_pool(2);
  net.convolution({.channels = 16, .bias = true});
  net.relu();
  net.flatten();
  const Var logits = net.linear(classes, {}, "classifier");
  net.cross_entropy(logits, "labels");
  return built(net.finish({logits}));
}

TEST(OwnNetworks, LearnAndPredict) {
  const Problem train(960), test(96, 7);
  for (const char* format : {"bfp8", "dfp8", "fp32", "bfp:w=4,a=4,ends=8"}) {
    SCOPED_TRACE(format);
    Settings settings = kSmall;
    settings["format"] = format;
    Trainer trainer = trainer_of(picture_network(), settings);
    const auto history = trainer.fit(train.pictures(), {.epochs = 4});
    ASSERT_TRUE(history.ok()) << history.error();
    ASSERT_EQ(history->size(), 4u);
    EXPECT_LT(history->back().training.loss, history->front().training.loss);
    EXPECT_EQ(trainer.steps_done(), 120);
    auto model = trainer.freeze(train.pictures());
    ASSERT_TRUE(model.ok()) << model.error();
    const auto report = model->evaluate(test.pictures());
    ASSERT_TRUE(report.ok()) << report.error();
    EXPECT_GT(report->losses[0].accuracy, 0.95);
    const auto predictions = model->predict(test.pictures());
    ASSERT_TRUE(predictions.ok()) << predictions.error();
    ASSERT_EQ(predictions->size(), 1u);
    int right = 0;
    for (int64_t n = 0; n < test.count; ++n) {
      const double* row = (*predictions)[0].data() + 3 * n;
      right += std::max_element(row, row + 3) - row == test.labels[static_cast<size_t>(n)];
    }
    EXPECT_DOUBLE_EQ(report->losses[0].accuracy, right / 96.0);
  }
}

// Tokens whose rows have an exponent each: what predict() gives has the loss that evaluate() finds.
TEST(OwnNetworks, PredictRowsWithExponentsOfTheirOwn) {
  constexpr int64_t kExamples = 32, kTokens = 6, kClasses = 3;
  NetworkBuilder net("rows");
  const Var indices = net.indices("tokens", {kTokens});
  net.add("embedding", {indices}, {{"rows", int64_t{20}}, {"channels", int64_t{8}}});
  const Var logits = net.linear(kClasses);
  net.cross_entropy(logits, "labels");
  const Network network = built(net.finish({logits}));
  Numbers random(3);
  std::vector<int32_t> tokens, labels;
  for (int64_t i = 0; i < kExamples * kTokens; ++i) {
    tokens.push_back(static_cast<int32_t>(random.next() % 20));
    labels.push_back(tokens.back() % static_cast<int32_t>(kClasses));
  }
  const ArraySet examples = {kExamples,
                             {{"tokens", Elements::kInt32, {kTokens}, tokens.data()},
                              {"labels", Elements::kInt32, {kTokens}, labels.data()}}};
  Settings settings = kSmall;
  settings["format"] = "bfp:block=channel,blocks=token";
  Trainer trainer = trainer_of(network, settings);
  std::vector<double> table;  // rows of six sizes
  for (int row = 0; row < 20; ++row) {
    for (int c = 0; c < 8; ++c) table.push_back(std::ldexp(random.between(-4, 4), -(row % 6)));
  }
  ASSERT_TRUE(trainer.set_parameter(network.parameters()[0].name, table).ok());
  auto model = trainer.freeze(examples);
  ASSERT_TRUE(model.ok()) << model.error();
  const auto report = model->evaluate(examples);
  const auto predictions = model->predict(examples);
  ASSERT_TRUE(report.ok() && predictions.ok()) << report.error() << predictions.error();
  double loss = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const double* of_row = (*predictions)[0].data() + row * kClasses;
    double sum = 0;
    for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(of_row[c]);
    loss += std::log(sum) - of_row[labels[row]];
  }
  EXPECT_NEAR(loss / static_cast<double>(labels.size()), report->loss, 1e-3);
}

// Two inputs, two outputs with a loss each, weights that two layers share.
Network network_with_two_heads() {
  NetworkBuilder net("heads");
  const Var pixels = net.pixels("pixels", {6, 6, 1});
  const Var numbers = net.numbers("numbers", {4}, exponent_for(1));
  net.linear(12, net.flatten(pixels));
  const Var seen = net.relu();
  net.linear(12, numbers);
  const Var known = net.relu();
  const Var first = net.linear(12, seen, "shared");
  const Var second =
      net.add_sharing(first, "linear", {known}, {{"channels", int64_t{12}}}, "again");
  net.sum(first, second);
  const Var hidden = net.relu();
  const Var logits = net.linear(3, hidden);
  const Var results = net.linear(2, hidden);
  net.cross_entropy(logits, "labels");
  net.squared_error(results, "targets", exponent_for(4));
  return built(net.finish({logits, results}));
}

TEST(OwnNetworks, HaveSeveralInputsOutputsAndLosses) {
  const Problem train(960);
  Settings settings = kSmall;
  settings["learning-rate"] = "0.03";
  Trainer trainer = trainer_of(network_with_two_heads(), settings);
  const auto history = trainer.fit(train.all(), {.epochs = 12});
  ASSERT_TRUE(history.ok()) << history.error();
  const StepReport &first = history->front().training, &last = history->back().training;
  ASSERT_EQ(last.loss_count, 2);
  EXPECT_GT(last.losses[0].accuracy, 0.95);
  EXPECT_EQ(last.losses[1].accuracy, -1);
  EXPECT_LT(last.losses[1].mean, first.losses[1].mean / 4);
  EXPECT_DOUBLE_EQ(last.loss, last.losses[0].mean + last.losses[1].mean);
  // The targets themselves come out, near what they are.
  auto model = trainer.freeze(train.all());
  ASSERT_TRUE(model.ok()) << model.error();
  const auto predictions = model->predict(train.all());
  ASSERT_TRUE(predictions.ok()) << predictions.error();
  ASSERT_EQ(predictions->size(), 2u);
  double squares = 0;
  for (size_t i = 0; i < train.targets.size(); ++i) {
    squares += std::pow((*predictions)[1][i] - static_cast<double>(train.targets[i]), 2);
  }
  EXPECT_LT(squares / static_cast<double>(train.targets.size()), 0.1);
}

TEST(OwnNetworks, HaveAThousandClasses) {
  Problem train(64);
  for (size_t i = 0; i < train.labels.size(); ++i) train.labels[i] = static_cast<int32_t>(15 * i);
  Trainer trainer = trainer_of(picture_network(1000), kSmall);
  const auto history = trainer.fit(train.pictures(), {.epochs = 40});
  ASSERT_TRUE(history.ok()) << history.error();
  EXPECT_NEAR(history->front().training.loss, std::log(1000), 1);
  EXPECT_LT(history->back().training.loss, 3);
}

TEST(OwnNetworks, StepByStepGivesTheBitsOfFit) {
  const Problem train(96);
  Settings settings = kSmall;
  settings["lr-schedule"] = "constant";
  settings["warmup"] = "0";
  settings["learning-rate"] = "0.01";
  // One batch of all examples: the order within it is fit's, so that sums are the same.
  settings["batch-size"] = "96";
  Trainer fitted = trainer_of(picture_network(), settings);
  ASSERT_TRUE(fitted.fit(train.pictures(), {.epochs = 3}).ok());
  Trainer stepped = trainer_of(picture_network(), settings);
  for (int i = 0; i < 3; ++i) {
    const auto step = stepped.step(train.batch(0, 96), 0.01);
    ASSERT_TRUE(step.ok()) << step.error();
  }
  EXPECT_EQ(stepped.weights_sha256(), fitted.weights_sha256());
}

TEST(OwnNetworks, GoOnFromAFileWithTheSameBits) {
  const TestFolder folder;
  const Problem train(320);
  Trainer all = trainer_of(picture_network(), kSmall);
  for (int64_t i = 0; i < 10; ++i) ASSERT_TRUE(all.step(train.batch(32 * i, 32), 0.02).ok());
  Trainer half = trainer_of(picture_network(), kSmall);
  for (int64_t i = 0; i < 5; ++i) ASSERT_TRUE(half.step(train.batch(32 * i, 32), 0.02).ok());
  const std::string path = folder / "state.safetensors";
  ASSERT_TRUE(half.save(path).ok());
  Trainer rest = trainer_of(picture_network(), kSmall);
  ASSERT_TRUE(rest.load(path).ok());
  EXPECT_EQ(rest.steps_done(), 5);
  for (int64_t i = 5; i < 10; ++i) ASSERT_TRUE(rest.step(train.batch(32 * i, 32), 0.02).ok());
  EXPECT_EQ(rest.weights_sha256(), all.weights_sha256());
  Settings other = kSmall;
  other["seed"] = "2";
  EXPECT_FALSE(trainer_of(picture_network(), other).load(path).ok());
  EXPECT_FALSE(trainer_of(network_with_two_heads(), kSmall).load(path).ok());
}

// A network that no program knows by name runs from its file alone.
TEST(OwnNetworks, ModelsCarryTheirNetwork) {
  const TestFolder folder;
  const Problem train(96);
  Trainer trainer = trainer_of(network_with_two_heads(), kSmall);
  ASSERT_TRUE(trainer.fit(train.all(), {.epochs = 2}).ok());
  auto model = trainer.freeze(train.all());
  ASSERT_TRUE(model.ok());
  const std::string path = folder / "model.safetensors";
  ASSERT_TRUE(model->save(path).ok());
  auto loaded = Model::load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error();
  EXPECT_EQ(loaded->network().to_json(), network_with_two_heads().to_json());
  ArraySet unlabelled = train.all();
  std::erase_if(unlabelled.arrays,
                [](const Array& a) { return a.name == "labels" || a.name == "targets"; });
  EXPECT_EQ(*loaded->predict(unlabelled), *model->predict(train.all()));
  // A network that makes no classes of pictures is refused where these are wanted.
  const Outcome<Evaluation> evaluated = evaluate({{"checkpoint", path}});
  EXPECT_EQ(evaluated.failure().exit, Exit::kInvalidInput);
  EXPECT_NE(evaluated.error().find("a network of pictures has"), std::string::npos);
}

TEST(OwnNetworks, AreTheirJson) {
  const Network network = picture_network();
  const auto again = Network::from_json(network.to_json());
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(again->to_json(), network.to_json());
  const Problem train(96);
  const auto hash = [&](const Network& trained) {
    Trainer trainer = trainer_of(trained, kSmall);
    EXPECT_TRUE(trainer.fit(train.pictures(), {.epochs = 2}).ok());
    return trainer.weights_sha256();
  };
  EXPECT_EQ(hash(*again), hash(network));
}

TEST(Parameters, AreReadAndSet) {
  const Problem train(96);
  for (const char* format : {"bfp8", "bfp:w=12", "fp32", "bfp:block=channel"}) {
    SCOPED_TRACE(format);
    Settings settings = kSmall;
    settings["format"] = format;
    Trainer trainer = trainer_of(picture_network(), settings);
    ASSERT_TRUE(trainer.step(train.batch(0, 32), 0.01).ok());
    auto weights = trainer.parameter("classifier.weights");
    ASSERT_TRUE(weights.ok()) << weights.error();
    EXPECT_EQ(weights->dims, (Dims{3, 144}));
    ASSERT_EQ(weights->numbers.size(), 432u);
    for (size_t i = 0; i < weights->mantissas.size(); ++i) {
      const int exponent = weights->exponents[i * weights->exponents.size() / 432];
      EXPECT_EQ(weights->numbers[i], std::ldexp(weights->mantissas[i], exponent));
    }
    std::vector<double> numbers(432);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i) / 512 - 0.4;
    ASSERT_TRUE(trainer.set_parameter("classifier.weights", numbers).ok());
    const auto found = trainer.parameter("classifier.weights");
    for (size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(found->numbers[i], numbers[i], 0.004);
    // Numbers that mantissas hold come back as they are.
    ASSERT_TRUE(trainer.set_parameter("classifier.weights", found->numbers).ok());
    EXPECT_EQ(trainer.parameter("classifier.weights")->numbers, found->numbers);
    ASSERT_TRUE(trainer.step(train.batch(32, 32), 0.01).ok());
  }
}

TEST(Parameters, StayWhereTheyAreFrozen) {
  const Problem train(96);
  const auto network = picture_network().with_frozen("conv*");
  ASSERT_TRUE(network.ok()) << network.error();
  Trainer trainer = trainer_of(*network, kSmall);
  const auto before = trainer.parameter("convolution1.weights")->mantissas;
  const auto classifier = trainer.parameter("classifier.weights")->mantissas;
  ASSERT_TRUE(trainer.fit(train.pictures(), {.epochs = 3}).ok());
  EXPECT_EQ(trainer.parameter("convolution1.weights")->mantissas, before);
  EXPECT_NE(trainer.parameter("classifier.weights")->mantissas, classifier);
}

TEST(Parameters, AreFrozenByTheRulesOfTheSetting) {
  const auto refusal = [](const char* patterns) {
    return picture_network().with_frozen(patterns).error();
  };
  EXPECT_NE(refusal("stem*").find("'stem*' fits no parameter of "), std::string::npos);
  EXPECT_NE(refusal("stem*").find("it has convolution1.weights, "), std::string::npos);
  EXPECT_NE(refusal("classifier.weights").find("a node trains all of its parameters or none"),
            std::string::npos);
  EXPECT_NE(refusal("*").find("leaves nothing of "), std::string::npos);
  EXPECT_TRUE(picture_network().with_frozen("conv*,batch_norm1.*").ok());
}

TEST(OwnNetworks, ErrorsSayWhatWouldBePossible) {
  NetworkBuilder nothing("nothing");
  nothing.relu();
  EXPECT_NE(nothing.error().find("add an input before it"), std::string::npos);
  NetworkBuilder unknown("unknown");
  unknown.pixels("pixels", {6, 6, 1});
  unknown.add("convolusion", {{}});
  EXPECT_NE(unknown.error().find("there are normalise_input"), std::string::npos);
  EXPECT_FALSE(unknown.finish({{}}).ok());
  NetworkBuilder misspelt("misspelt");
  misspelt.pixels("pixels", {6, 6, 1});
  misspelt.add("convolution", {{}}, {{"chanels", int64_t{3}}}, "conv1");
  EXPECT_NE(misspelt.error().find("conv1"), std::string::npos) << misspelt.error();
  EXPECT_NE(misspelt.error().find("chanels"), std::string::npos) << misspelt.error();

  const Problem train(96);
  Trainer trainer = trainer_of(picture_network(), kSmall);
  const auto error = [&](ArraySet set) { return trainer.step(set, 0.1).error(); };
  EXPECT_NE(error({32, {}}).find("wants 'pixels'"), std::string::npos);
  EXPECT_NE(error(train.batch(0, 31)).find("batch-size 32"), std::string::npos);
  ArraySet other = train.batch(0, 32);
  other.arrays[0].dims = {36};
  EXPECT_NE(error(other).find("[36]"), std::string::npos);
  other = train.batch(0, 32);
  other.arrays[0].elements = Elements::kDouble;
  EXPECT_NE(error(other).find("wants uint8"), std::string::npos);
  Problem wrong(32);
  wrong.labels[5] = 3;
  EXPECT_NE(error(wrong.pictures()).find("label 3"), std::string::npos);
  EXPECT_EQ(trainer.steps_done(), 0);

  Trainer heads = trainer_of(network_with_two_heads(), kSmall);
  Problem large(32);
  large.numbers[3] = 5e6F;
  EXPECT_NE(heads.step(large.all(), 0.1).error().find("'numbers'"), std::string::npos);
  large.numbers[3] = std::nanf("");
  EXPECT_FALSE(heads.step(large.all(), 0.1).ok());
  EXPECT_NE(Trainer::create(picture_network(), {{"model", "mlp"}}).error().find("'model'"),
            std::string::npos);
  EXPECT_NE(Trainer::create(picture_network(), {{"freeze", "conv*"}}).error().find("'freeze'"),
            std::string::npos);
  EXPECT_NE(
      Trainer::create(picture_network(), {{"lr-schedule", "plateau"}}).error().find("plateau"),
      std::string::npos);
  EXPECT_NE(
      Trainer::create(picture_network(), {{"stages", "2"}}).error().find("only a run of `train`"),
      std::string::npos);
  EXPECT_FALSE(Trainer::create(picture_network(), {{"format", "bfp9"}}).ok());
  const auto over = Trainer::create(picture_network(), {{"memory-budget", "1KiB"}});
  EXPECT_EQ(over.failure().exit, Exit::kOverBudget);
}

// The other spellings of labels say the same.
TEST(Arrays, AreConvertedWhereTheyFit) {
  const Problem train(32);
  std::vector<int64_t> wide(train.labels.begin(), train.labels.end());
  std::vector<uint8_t> bytes(train.labels.begin(), train.labels.end());
  const auto hash = [&](Elements elements, const void* labels) {
    ArraySet set = train.pictures();
    set.arrays[1].elements = elements;
    set.arrays[1].data = labels;
    Trainer trainer = trainer_of(picture_network(), kSmall);
    EXPECT_TRUE(trainer.step(set, 0.01).ok());
    return trainer.weights_sha256();
  };
  const std::string expected = hash(Elements::kInt32, train.labels.data());
  EXPECT_EQ(hash(Elements::kInt64, wide.data()), expected);
  EXPECT_EQ(hash(Elements::kUint8, bytes.data()), expected);
  wide[3] = int64_t{1} << 40;
  ArraySet set = train.pictures();
  set.arrays[1] = {"labels", Elements::kInt64, {}, wide.data()};
  EXPECT_NE(trainer_of(picture_network(), kSmall).step(set, 0.1).error().find("does not fit"),
            std::string::npos);
}

TEST(Arrays, HaveTheExponentOfTheirLargest) {
  EXPECT_EQ(exponent_for(1), -14);
  EXPECT_EQ(exponent_for(32767), 0);
  EXPECT_EQ(exponent_for(32768), 1);
  EXPECT_EQ(exponent_for(0), -128);
}

// The same data, network and settings through the command line's `train`.
TEST(OwnNetworks, TrainAsTheCommandLineDoes) {
  const TestFolder folder;
  const Problem train(320), test(64, 9);
  const auto write_idx = [&](const char* name, std::vector<uint8_t> header,
                             const std::vector<uint8_t>& bytes) {
    std::ofstream file(folder / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(header.data()), std::ssize(header));
    file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  };
  for (const auto& [problem, pictures, labels] :
       {std::tuple{&train, "train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
        std::tuple{&test, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}}) {
    const auto high = static_cast<uint8_t>(problem->count >> 8);
    const auto low = static_cast<uint8_t>(problem->count & 255);
    write_idx(pictures, {0, 0, 8, 3, 0, 0, high, low, 0, 0, 0, 6, 0, 0, 0, 6}, problem->pixels);
    write_idx(labels, {0, 0, 8, 1, 0, 0, high, low},
              {problem->labels.begin(), problem->labels.end()});
  }
  const Network network = picture_network();
  std::ofstream(folder / "net.json") << network.to_json();
  const Outcome<TrainedRun> run = mantissa::train({{"model", folder / "net.json"},
                                                   {"data", folder / ""},
                                                   {"epochs", "2"},
                                                   {"batch-size", "32"},
                                                   {"learning-rate", "0.05"},
                                                   {"out", folder / "run"}});
  ASSERT_TRUE(run.ok()) << run.error();
  Settings settings = kSmall;
  settings["learning-rate"] = "0.05";
  Trainer trainer = trainer_of(network, settings);
  ASSERT_TRUE(trainer.fit(train.pictures(), {.epochs = 2}).ok());
  EXPECT_NE(run->summary_json.find(trainer.weights_sha256()), std::string::npos);
}

}  // namespace
}  // namespace mantissa
