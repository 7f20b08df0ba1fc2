#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

#include "base/test_folder.h"
#include "data/datasets/dataset.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;
using Labels = std::vector<Label>;

constexpr int kPicturePixels = 3072;

uint8_t value(int64_t record, int64_t byte) {
  return static_cast<uint8_t>(record * 31 + byte * 7 + byte / 1024);
}

// Records `first` ... `first + count - 1`, whose label is their number modulo `classes`.
Bytes records(int first, int count, int classes, bool coarse) {
  Bytes bytes;
  for (int record = first; record < first + count; ++record) {
    if (coarse) bytes.push_back(19);
    bytes.push_back(static_cast<uint8_t>(record % classes));
    for (int byte = 0; byte < kPicturePixels; ++byte) bytes.push_back(value(record, byte));
  }
  return bytes;
}

class Cifar : public testing::Test {
 protected:
  void make_cifar10(const fs::path& folder) {
    fs::create_directories(folder);
    for (int batch = 1; batch <= 5; ++batch) {
      put_file(folder / ("data_batch_" + std::to_string(batch) + ".bin"),
               records(2 * (batch - 1), 2, 10, false));
    }
    put_file(folder / "test_batch.bin", records(10, 3, 10, false));
  }
  void make_cifar100(const fs::path& folder) {
    fs::create_directories(folder);
    put_file(folder / "train.bin", records(95, 8, 100, true));
    put_file(folder / "test.bin", records(0, 2, 100, true));
  }
  std::string refusal() {
    const auto set = load_dataset(folder_.path().string(), true, true);
    return set.ok() ? "accepted" : set.error().message;
  }
  TestFolder folder_;
};

// Planes of red, green and blue become pixels.
void expect_record(const ExampleSet& set, int64_t place, int64_t record) {
  for (int64_t at = 0; at < 1024; ++at) {
    for (int64_t c = 0; c < 3; ++c) {
      ASSERT_EQ(set.pixels()[static_cast<size_t>(place * kPicturePixels + 3 * at + c)],
                value(record, 1024 * c + at));
    }
  }
}

TEST_F(Cifar, TenClassesAreRead) {
  make_cifar10(folder_ / "cifar-10-batches-bin");  // one level down, as the archive unpacks
  put_file(folder_ / "cifar-10-batches-bin" / "batches.meta.txt",
           std::string("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"));
  const auto set = load_dataset(folder_.path().string(), true, true);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->info.kind, "CIFAR-10, binary");
  EXPECT_EQ(set->info.target.names[9], "truck");
  EXPECT_EQ(set->info.specs[0].shape, (Shape{32, 32, 3}));
  EXPECT_EQ(set->info.target.classes, 10);
  EXPECT_EQ(set->info.train_count, 10);
  EXPECT_EQ(set->train.labels(), (Labels{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(set->test.labels(), (Labels{0, 1, 2}));
  for (int i = 0; i < 10; ++i) expect_record(set->train, i, i);
  for (int i = 0; i < 3; ++i) expect_record(set->test, i, 10 + i);
}

TEST_F(Cifar, HundredClassesAreRead) {
  make_cifar100(folder_.path());
  const auto set = load_dataset(folder_.path().string(), true, false);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->info.kind, "CIFAR-100, binary");
  EXPECT_EQ(set->info.target.classes, 100);
  EXPECT_EQ(set->info.target.names[99], "99");  // no file with names
  EXPECT_EQ(set->train.labels(), (Labels{95, 96, 97, 98, 99, 0, 1, 2}));
  EXPECT_TRUE(set->test.pixels().empty());
  expect_record(set->train, 7, 102);
}

TEST_F(Cifar, IsBroughtToAnotherForm) {
  make_cifar10(folder_.path());
  DataOptions options;
  options.size = {28, 28};
  options.channels = 1;
  const auto set = load_dataset(folder_.path().string(), true, true, options);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->train.pixels().size(), 10u * 784);
  EXPECT_EQ(set->test.picture_form().bytes(), 784);
}

TEST_F(Cifar, DamageIsFound) {
  make_cifar10(folder_.path());
  const fs::path batch = folder_ / "data_batch_3.bin";
  Bytes bytes = records(4, 2, 10, false);
  bytes[kPicturePixels + 1] = 10;
  put_file(batch, bytes);
  EXPECT_NE(refusal().find("label 10 in record 1"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("data_batch_3.bin"), std::string::npos);
  bytes.pop_back();
  put_file(batch, bytes);
  EXPECT_NE(refusal().find("cut short"), std::string::npos) << refusal();
  fs::remove(batch);
  EXPECT_NE(refusal().find("data_batch_3.bin"), std::string::npos);
  put_file(batch, Bytes());
  EXPECT_NE(refusal().find("cut short"), std::string::npos);
  make_cifar10(folder_.path());
  put_file(folder_ / "batches.meta.txt", std::string("one\ntwo\n"));
  EXPECT_NE(refusal().find("has 2 names"), std::string::npos);
}

TEST_F(Cifar, ThePythonVersionsAreNotReadAndSayWhatIs) {
  const fs::path ten = folder_ / "cifar-10-batches-py";
  fs::create_directory(ten);
  for (const char* name : {"data_batch_1", "data_batch_5", "test_batch", "batches.meta"}) {
    put_file(ten / name, std::string("pickle"));
  }
  EXPECT_NE(refusal().find("get the binary version, cifar-10-binary.tar.gz"), std::string::npos)
      << refusal();
  fs::remove_all(ten);
  for (const char* name : {"train", "test", "meta"}) {
    put_file(folder_ / name, std::string("pickle"));
  }
  EXPECT_NE(refusal().find("get the binary version, cifar-100-binary.tar.gz"), std::string::npos)
      << refusal();
  make_cifar100(folder_.path());  // beside it, the one that can be read
  EXPECT_EQ(refusal(), "accepted");
}

RC_GTEST_PROP(CifarOfAnything, IsADataSetOrAnError, ()) {
  const TestFolder folder;
  Bytes train = records(0, 2, 100, true), test = records(0, 1, 100, true);
  for (Bytes* bytes : {&train, &test}) {
    if (*rc::gen::arbitrary<bool>()) bytes->resize(*rc::gen::inRange<size_t>(0, bytes->size() + 1));
    for (int i = *rc::gen::inRange(0, 3); i > 0 && !bytes->empty(); --i) {
      (*bytes)[*rc::gen::inRange<size_t>(0, bytes->size())] = *rc::gen::arbitrary<uint8_t>();
    }
  }
  put_file(folder / "train.bin", train);
  put_file(folder / "test.bin", test);
  const auto set = load_dataset(folder.path().string(), true, true);
  if (set.ok()) {
    // A file that ends with a record may have had more.
    constexpr size_t kRecord = 2 + kPicturePixels;
    RC_ASSERT(train.size() % kRecord == 0);
    RC_ASSERT(set->train.pixels().size() == train.size() / kRecord * kPicturePixels);
    for (const Label label : set->train.labels()) RC_ASSERT(label < 100);
  } else {
    RC_ASSERT(set.error().message.find(".bin") != std::string::npos);
  }
}

}  // namespace
}  // namespace mantissa
