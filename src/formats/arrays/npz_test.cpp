#include "formats/arrays/npz.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/test_folder.h"

namespace mantissa {
namespace {

// numpy.savez_compressed(counts=int32 arange(6) as [2, 3], flag=True, f=float64 arange(6) as [2, 3]
// in Fortran's order), numpy 2.4.
constexpr uint8_t kCompressed[] = {
    0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x50, 0xb4,
    0x4d, 0x84, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0a, 0x00, 0x14, 0x00, 0x63, 0x6f,
    0x75, 0x6e, 0x74, 0x73, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x98, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x55, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea,
    0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5,
    0xa0, 0x6e, 0x93, 0x69, 0xa2, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17,
    0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24,
    0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x46, 0x3a, 0x0a, 0xc6, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x64, 0x03,
    0x2e, 0x06, 0x20, 0x60, 0x04, 0x62, 0x26, 0x20, 0x66, 0x06, 0x62, 0x16, 0x20, 0x66, 0x05, 0x62,
    0x00, 0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x82,
    0x2d, 0xf8, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x08, 0x00, 0x14, 0x00, 0x66,
    0x6c, 0x61, 0x67, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x81, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b,
    0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0,
    0x5e, 0x93, 0x64, 0xa8, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f,
    0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24, 0x16,
    0xa4, 0x02, 0xf9, 0x1a, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x14, 0x01, 0x2e, 0x46, 0x00, 0x50, 0x4b,
    0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0xe4, 0xc8, 0x06, 0x60,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x66, 0x2e, 0x6e, 0x70,
    0x79, 0x01, 0x00, 0x10, 0x00, 0xb0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x57, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50,
    0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x66, 0xa1, 0xae, 0xa3,
    0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x0f,
    0x29, 0x2a, 0x4d, 0x05, 0x0a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xb9, 0x1a, 0x46, 0x3a, 0x0a,
    0xc6, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0xe4, 0x03, 0x2e, 0x06, 0x14, 0xc0, 0xe1, 0x00, 0xa1, 0x3f,
    0xd8, 0x43, 0x68, 0x01, 0x28, 0x9f, 0x01, 0x4a, 0x8b, 0x38, 0x00, 0x00, 0x50, 0x4b, 0x01, 0x02,
    0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x50, 0xb4, 0x4d, 0x84,
    0x55, 0x00, 0x00, 0x00, 0x98, 0x00, 0x00, 0x00, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x63, 0x6f, 0x75, 0x6e, 0x74, 0x73,
    0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00,
    0x00, 0x00, 0x21, 0x00, 0x82, 0x2d, 0xf8, 0xd3, 0x43, 0x00, 0x00, 0x00, 0x81, 0x00, 0x00, 0x00,
    0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x91, 0x00,
    0x00, 0x00, 0x66, 0x6c, 0x61, 0x67, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x01, 0x02, 0x2d, 0x03,
    0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0xe4, 0xc8, 0x06, 0x60, 0x57, 0x00,
    0x00, 0x00, 0xb0, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x80, 0x01, 0x0e, 0x01, 0x00, 0x00, 0x66, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b, 0x05,
    0x06, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x03, 0x00, 0xa1, 0x00, 0x00, 0x00, 0x9c, 0x01, 0x00,
    0x00, 0x00, 0x00};

// numpy.savez(x=int16 [1, -2]), numpy 2.4. The array's file begins at byte 55.
constexpr uint8_t kStored[] = {
    0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x21, 0x00, 0xa1, 0x73,
    0x8e, 0xaf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x78, 0x2e,
    0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x84,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 0x01, 0x00, 0x76,
    0x00, 0x7b, 0x27, 0x64, 0x65, 0x73, 0x63, 0x72, 0x27, 0x3a, 0x20, 0x27, 0x3c, 0x69, 0x32, 0x27,
    0x2c, 0x20, 0x27, 0x66, 0x6f, 0x72, 0x74, 0x72, 0x61, 0x6e, 0x5f, 0x6f, 0x72, 0x64, 0x65, 0x72,
    0x27, 0x3a, 0x20, 0x46, 0x61, 0x6c, 0x73, 0x65, 0x2c, 0x20, 0x27, 0x73, 0x68, 0x61, 0x70, 0x65,
    0x27, 0x3a, 0x20, 0x28, 0x32, 0x2c, 0x29, 0x2c, 0x20, 0x7d, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20,
    0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20,
    0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20,
    0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x20,
    0x20, 0x20, 0x20, 0x20, 0x20, 0x20, 0x0a, 0x01, 0x00, 0xfe, 0xff, 0x50, 0x4b, 0x01, 0x02, 0x2d,
    0x03, 0x2d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x21, 0x00, 0xa1, 0x73, 0x8e, 0xaf, 0x84,
    0x00, 0x00, 0x00, 0x84, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x78, 0x2e, 0x6e, 0x70, 0x79, 0x50, 0x4b,
    0x05, 0x06, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x33, 0x00, 0x00, 0x00, 0xbb, 0x00,
    0x00, 0x00, 0x00, 0x00};

template <typename T>
std::vector<T> numbers(const NpyArray& array) {
  std::vector<T> result(array.data.size() / sizeof(T));
  std::memcpy(result.data(), array.data.data(), array.data.size());
  return result;
}

std::string text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An NPY file around any header text.
std::string file_of(const std::string& header, const std::string& data) {
  const std::string length = {static_cast<char>(header.size() & 0xff),
                              static_cast<char>(header.size() >> 8)};
  return std::string("\x93NUMPY\1\0", 8) + length + header + data;
}

Result<NpyArray> array_of(const std::string& file) {
  return parse_npy(std::as_bytes(std::span(file)));
}

std::string refusal(const std::string& file) {
  const auto array = array_of(file);
  return array.ok() ? "accepted" : array.error().message;
}

class Npz : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "arrays.npz"; }

  Result<std::vector<NpyArray>> read(const std::string& bytes, const NpzLimits& limits = {}) {
    put_file(path(), bytes);
    return read_npz(path(), limits);
  }

  // The error of reading `bytes`, which must name the file.
  std::string refused(const std::string& bytes, const NpzLimits& limits = {}) {
    const auto arrays = read(bytes, limits);
    if (arrays.ok()) return "accepted";
    EXPECT_NE(arrays.error().message.find("arrays.npz"), std::string::npos);
    EXPECT_EQ(arrays.error().message.find('\n'), std::string::npos);
    return arrays.error().message;
  }

  TestFolder folder_;
};

TEST_F(Npz, ReadsWhatNumpyCompressed) {
  const auto arrays = read(text_of(kCompressed));
  ASSERT_TRUE(arrays.ok()) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 3u);
  const NpyArray &counts = (*arrays)[0], &flag = (*arrays)[1], &f = (*arrays)[2];
  EXPECT_EQ(counts.name, "counts");
  EXPECT_EQ(counts.type, NpyType::kInt32);
  EXPECT_EQ(counts.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(numbers<int32_t>(counts), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(flag.type, NpyType::kBool);
  EXPECT_TRUE(flag.shape.empty());
  EXPECT_EQ(numbers<uint8_t>(flag), (std::vector<uint8_t>{1}));
  EXPECT_EQ(f.type, NpyType::kDouble);
  EXPECT_EQ(numbers<double>(f), (std::vector<double>{0, 1, 2, 3, 4, 5})) << "transposed";
}

TEST_F(Npz, ReadsWhatNumpyStored) {
  const auto arrays = read(text_of(kStored));
  ASSERT_TRUE(arrays.ok()) << arrays.error().message;
  ASSERT_EQ(arrays->size(), 1u);
  EXPECT_EQ((*arrays)[0].name, "x");
  EXPECT_EQ(numbers<int16_t>((*arrays)[0]), (std::vector<int16_t>{1, -2}));
}

TEST_F(Npz, WritesTheHeadersThatNumpyWrites) {
  const std::vector<int16_t> numbers = {1, -2};
  const auto header = npy_header({"x", NpyType::kInt16, {2}, std::as_bytes(std::span(numbers))});
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(*header, text_of(kStored).substr(55, header->size()));
}

RC_GTEST_FIXTURE_PROP(Npz, GivesBackWhatWasWritten, ()) {
  std::vector<NpyArray> arrays;
  const auto count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    NpyArray array;
    array.name = "layer/ü " + std::to_string(i);
    array.type = static_cast<NpyType>(*rc::gen::inRange(0, 11));
    array.shape = *rc::gen::resize(
        4, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 5)));
    int64_t bytes = npy_element_bytes(array.type);
    for (const int64_t dim : array.shape) bytes *= dim;
    for (const auto byte : *rc::gen::container<std::vector<uint8_t>>(
             static_cast<size_t>(bytes), rc::gen::arbitrary<uint8_t>())) {
      array.data.push_back(static_cast<std::byte>(byte));
    }
    arrays.push_back(std::move(array));
  }
  std::vector<NpyView> views;
  for (const NpyArray& array : arrays) views.push_back(array.view());
  RC_ASSERT(write_npz(path(), views).ok());
  const std::string file = get_file(path());
  RC_ASSERT(write_npz(path(), views).ok());
  RC_ASSERT(get_file(path()) == file);
  const auto back = read_npz(path());
  RC_ASSERT(back.ok());
  RC_ASSERT(back->size() == arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    RC_ASSERT((*back)[i].name == arrays[i].name);
    RC_ASSERT((*back)[i].type == arrays[i].type);
    RC_ASSERT((*back)[i].shape == arrays[i].shape);
    RC_ASSERT((*back)[i].data == arrays[i].data);
  }
}

TEST_F(Npz, RefusesToWrite) {
  const std::vector<float> two(2);
  const auto bytes = std::as_bytes(std::span(two));
  const auto written = [&](std::vector<NpyView> views) {
    const Status status = write_npz(path(), views);
    return status.ok() ? "written" : status.error().message;
  };
  EXPECT_EQ(written({{"x", NpyType::kFloat, {3}, bytes}}),
            "the array 'x' has not the bytes of its shape");
  EXPECT_EQ(written({{"x", NpyType::kFloat, {-1}, bytes}}),
            "the array 'x' has not the bytes of its shape");
  EXPECT_EQ(written({{"x", NpyType::kFloat, {2}, bytes}, {"x", NpyType::kFloat, {2}, bytes}}),
            "two arrays are named 'x'");
  EXPECT_EQ(written({{"", NpyType::kFloat, {2}, bytes}}),
            "an array of an NPZ file needs a name, without zero bytes");
  EXPECT_EQ(written({}), "an NPZ file needs an array");
  EXPECT_NE(written({{"\xff", NpyType::kFloat, {2}, bytes}}).find("cannot be added"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST(Npy, TakesHeadersInOtherWords) {
  const std::string data(12, 'x');
  for (const char* header : {"{'shape':(2,3),'fortran_order':False,'descr':'<i2'}",
                             "{\"descr\": \"<i2\", \"fortran_order\": False, \"shape\": (2, 3,)}\n",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (12,), }   \n",
                             "{'descr': '<i1', 'fortran_order': True, 'shape': (12,), }"}) {
    EXPECT_TRUE(array_of(file_of(header, data)).ok()) << header;
  }
}

TEST(Npy, ReadsBigEndianNumbers) {
  const auto header = [](const char* descr, const char* shape) {
    return std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': " + shape +
           "}";
  };
  const auto whole = array_of(file_of(header(">i2", "(2,)"), std::string("\1\2\xff\xfe", 4)));
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(whole->data,
            (std::vector<std::byte>{std::byte{2}, std::byte{1}, std::byte{0xfe}, std::byte{0xff}}));
  const auto real = array_of(file_of(header(">f8", "()"), std::string("\x3f\xf8\0\0\0\0\0\0", 8)));
  ASSERT_TRUE(real.ok());
  double number = 0;
  std::memcpy(&number, real->data.data(), sizeof number);
  EXPECT_EQ(number, 1.5);
  EXPECT_EQ(array_of(file_of(header(">u1", "(1,)"), "a"))->data[0], std::byte{'a'});
  const std::string fortran = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2)}";
  const auto turned = array_of(file_of(fortran, std::string("\0\1\0\3\0\2\0\4", 8)));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(turned->data[2 * i], std::byte(i + 1));
}

TEST(Npy, RefusesHostileHeaders) {
  const auto header = [](const std::string& descr, const std::string& shape) {
    return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}";
  };
  const std::string data(4, 'x');
  const std::pair<std::string, const char*> cases[] = {
      {"", "does not begin with"},
      {"\x93NUMPY", "cut short in its first bytes"},
      {std::string("\x93NUMPY\7\0\0\0", 10), "version 7"},
      {std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14), "4294967295 bytes is cut short"},
      {file_of("[]", data), "no dictionary"},
      {file_of("{}", data), "lacks descr"},
      {file_of(header("'<i4'", "(1,)") + "x", data), "something follows"},
      {file_of("{'descr': '<i4', 'descr': '<i4'}", data), "'descr' that is unknown, or twice"},
      {file_of("{'descr", data), "without a name"},
      {file_of(header("[('x', '<i4')]", "(1,)"), data), "records"},
      {file_of(header("'|O'", "(1,)"), data), "'|O'"},
      {file_of(header("'<c8'", "(1,)"), data), "'<c8'"},
      {file_of(header("'<i4'", "(-1,)"), data), "dimension that is no number"},
      {file_of(header("'<i4'", "(9223372036854775808,)"), data), "dimension that is no number"},
      {file_of(header("'<i4'", "(4294967296,4294967296)"), data), "not so many"},
      {file_of(header("'<i4'", "(2,)"), data), "4 bytes follow its header, not 8"},
      {file_of(header("'<i4'", "()"), data + "x"), "5 bytes follow its header, not 4"},
      {file_of(header("'<i4'", "(1"), data), "its shape does not end"},
      {file_of(header("'<i4'", "[1]"), data), "no tuple"}};
  for (const auto& [file, expected] : cases) {
    EXPECT_NE(refusal(file).find(expected), std::string::npos) << refusal(file);
  }
  std::string deep = "(";
  for (int i = 0; i < 33; ++i) deep += "1,";
  EXPECT_NE(refusal(file_of(header("'<i4'", deep + ")"), data)).find("32 dimensions"),
            std::string::npos);
}

// An entry's type is told before it is unpacked, and so is one that is larger than its array.
TEST_F(Npz, PassesOverArraysOfOtherTypes) {
  std::string other = text_of(kStored);
  const size_t at = other.find("<i2");
  other.replace(at, 3, "<U1");
  put_file(path(), other);
  std::vector<OtherArray> others;
  const auto arrays = read_npz(path(), {}, &others);
  ASSERT_TRUE(arrays.ok()) << arrays.error().message;
  EXPECT_TRUE(arrays->empty());
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].name, "x");
  EXPECT_EQ(others[0].type, "<U1");
  EXPECT_NE(read_npz(path()).error().message.find("have the type '<U1'"), std::string::npos);
  std::string large = text_of(kStored);
  large.replace(large.find("(2,)"), 4, "(1,)");
  put_file(path(), large);
  EXPECT_NE(read_npz(path()).error().message.find("4 bytes follow its header, not 2"),
            std::string::npos);
}

TEST_F(Npz, RefusesDamagedArchives) {
  const std::string whole = text_of(kStored);
  EXPECT_NE(refused("").find("not an NPZ file"), std::string::npos);
  EXPECT_NE(refused("PK\3\4").find("not an NPZ file"), std::string::npos);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refused(whole.substr(0, length)), "accepted") << length;
  }
  // Every byte of the array is under the checksum.
  for (size_t at = 55; at < 55 + 132; ++at) {
    std::string flipped = whole;
    flipped[at] ^= 1;
    EXPECT_NE(refused(flipped), "accepted") << at;
  }
  EXPECT_NE(refused(whole, {.bytes = 131}).find("left of the limit"), std::string::npos);
  EXPECT_NE(refused(whole, {.arrays = 0}).find("it has 1 arrays; 0 are allowed"),
            std::string::npos);
  EXPECT_FALSE(read_npz(folder_ / "none.npz").ok());
  EXPECT_FALSE(read_npz(folder_.path()).ok());
}

// Reading any file ends, with arrays or with an error.
RC_GTEST_FIXTURE_PROP(Npz, ReadsChangedFiles, ()) {
  std::string file = text_of(kCompressed);
  const auto changes = *rc::gen::inRange(1, 8);
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, file.size());
    file[at] = static_cast<char>(*rc::gen::arbitrary<uint8_t>());
  }
  const auto arrays = read(file, {.bytes = 1 << 20, .arrays = 10});
  if (!arrays.ok()) RC_ASSERT(arrays.error().message.find("arrays.npz") != std::string::npos);
}

// The file, whose directory now claims `size` bytes for its first array.
std::string with_claimed_size(std::string file, uint32_t size) {
  const size_t directory = file.find("PK\1\2");
  std::memcpy(file.data() + directory + 24, &size, sizeof size);
  return file;
}

TEST_F(Npz, BelievesNoClaimedSize) {
  EXPECT_NE(refused(with_claimed_size(text_of(kStored), 0x7fffffff)), "accepted");
  EXPECT_NE(refused(with_claimed_size(text_of(kStored), 10)), "accepted");
}

TEST_F(Npz, RefusesANameTwice) {
  const std::vector<int8_t> one(1);
  const auto bytes = std::as_bytes(std::span(one));
  const NpyView views[] = {{"aa", NpyType::kInt8, {}, bytes}, {"ab", NpyType::kInt8, {}, bytes}};
  ASSERT_TRUE(write_npz(path(), views).ok());
  std::string file = get_file(path());
  for (size_t at = file.find("ab.npy"); at != std::string::npos; at = file.find("ab.npy", at)) {
    file[at + 1] = 'a';
  }
  EXPECT_NE(refused(file).find("two arrays named 'aa'"), std::string::npos);
  file = get_file(path());
  for (size_t at = file.find(".npy"); at != std::string::npos; at = file.find(".npy", at)) {
    file[at + 1] = 'N';
  }
  EXPECT_NE(refused(file).find("its name does not end with .npy"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
