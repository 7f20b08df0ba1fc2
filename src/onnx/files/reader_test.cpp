#include "onnx/files/reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include "base/test_folder.h"
#include "onnx/files/test_messages.h"

namespace mantissa::onnx {
namespace {

namespace fs = std::filesystem;

constexpr int kFloatType = 1;
constexpr int kInt64Type = 7;

Result<ModelData> parsed(const std::string& bytes, const fs::path& folder = "nowhere") {
  return parse_model(std::as_bytes(std::span(bytes)), nullptr, folder);
}

std::string fault(const std::string& bytes, const fs::path& folder = "nowhere") {
  const Result<ModelData> model = parsed(bytes, folder);
  return model.ok() ? "" : model.error().message;
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

// x [N, 2] times w, with an attribute of each kind, and an If whose graphs read x.
std::string small_graph() {
  const std::string branch = bytes_field(1, node_message("Relu", {"x"}, {"inner"})) +
                             bytes_field(12, value_message("inner", kFloatType, {}));
  const auto attribute = [](std::string_view name, int type, const std::string& value) {
    return bytes_field(5, bytes_field(1, name) + value + number_field(20, type));
  };
  const std::string attributes =
      attribute("f", 1, float_field(2, 1.5f)) + attribute("i", 2, number_field(3, -7)) +
      attribute("s", 3, bytes_field(4, "text")) +
      attribute("t", 4,
                bytes_field(5, tensor_message("", kInt64Type, {2}, numbers_field(7, {1, -1})))) +
      attribute("fs", 6, float_field(7, 1) + float_field(7, 2)) +
      attribute("is", 7, numbers_field(8, {3, -4, 5})) +
      attribute("ss", 8, bytes_field(9, "a") + bytes_field(9, "b")) + attribute("zero", 2, "") +
      attribute("none", 7, "");
  return bytes_field(1, node_message("MatMul", {"x", "w"}, {"y"}, attributes)) +
         bytes_field(1, node_message("If", {"c"}, {"z"},
                                     attribute("then_branch", 5, bytes_field(6, branch)))) +
         bytes_field(2, "small") +
         bytes_field(5, tensor_message("w", kFloatType, {2, 1}, bytes_field(9, floats({1, 2})))) +
         bytes_field(5, tensor_message("c", 9, {}, bytes_field(9, std::string(1, '\1')))) +
         bytes_field(11, value_message("x", kFloatType, {1, 2})) +
         bytes_field(12, value_message("y", kFloatType, {1, 1}));
}

// A graph of one tensor that is its output.
std::string of_tensor(const std::string& tensor) { return model_message(bytes_field(5, tensor)); }

template <typename T>
const T& attribute(const NodeData& node, size_t index) {
  return std::get<T>(node.attributes.at(index).value);
}

TEST(OnnxReader, ReadsAllThatItsDataHold) {
  const std::string bytes = model_message(small_graph(), 13) + bytes_field(2, "hand") +
                            bytes_field(3, "1.0") +
                            bytes_field(14, bytes_field(1, "key") + bytes_field(2, "value")) +
                            bytes_field(8, bytes_field(1, "ai.other") + number_field(2, 3));
  const Result<ModelData> read = parsed(bytes);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->ir_version, 8);
  EXPECT_EQ(read->opsets, (std::map<std::string, int64_t>{{"", 13}, {"ai.other", 3}}));
  EXPECT_EQ(read->producer_name, "hand");
  EXPECT_EQ(read->producer_version, "1.0");
  EXPECT_EQ(read->metadata.at("key"), "value");
  const GraphData& graph = read->graph;
  EXPECT_EQ(graph.name, "small");
  ASSERT_EQ(graph.nodes.size(), 2u);
  const NodeData& node = graph.nodes[0];
  EXPECT_EQ(node.op_type, "MatMul");
  EXPECT_EQ(node.inputs, (std::vector<std::string>{"x", "w"}));
  EXPECT_EQ(node.outputs, (std::vector<std::string>{"y"}));
  EXPECT_EQ(attribute<float>(node, 0), 1.5f);
  EXPECT_EQ(attribute<int64_t>(node, 1), -7);
  EXPECT_EQ(attribute<std::string>(node, 2), "text");
  const auto& tensor = attribute<TensorData>(node, 3);
  int64_t numbers[2];
  ASSERT_EQ(tensor.bytes.size(), sizeof(numbers));
  std::memcpy(numbers, tensor.bytes.data(), sizeof(numbers));
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(numbers[1], -1);
  EXPECT_EQ(attribute<std::vector<float>>(node, 4), (std::vector<float>{1, 2}));
  EXPECT_EQ(attribute<std::vector<int64_t>>(node, 5), (std::vector<int64_t>{3, -4, 5}));
  EXPECT_EQ(attribute<std::vector<std::string>>(node, 6), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(attribute<int64_t>(node, 7), 0);
  EXPECT_TRUE(attribute<std::vector<int64_t>>(node, 8).empty());
  const auto& branch = *attribute<std::shared_ptr<const GraphData>>(graph.nodes[1], 0);
  EXPECT_EQ(branch.nodes.at(0).op_type, "Relu");
  ASSERT_EQ(graph.initialisers.size(), 2u);
  EXPECT_EQ(graph.initialisers[0].dims, (std::vector<int64_t>{2, 1}));
  ASSERT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(graph.inputs[0].type, ElementType::kFloat);
  ASSERT_EQ(graph.inputs[0].dims.size(), 2u);
  EXPECT_EQ(graph.inputs[0].dims[1].size, 2);
}

TEST(OnnxReader, ReadsNumbersInEveryForm) {
  struct Case {
    int type;
    std::string data;
    std::string bytes;
  };
  const std::string doubles(16, '\0');
  const Case cases[] = {
      {1, bytes_field(4, floats({1, 2})), floats({1, 2})},
      {1, float_field(4, 1) + float_field(4, 2), floats({1, 2})},
      {1, float_field(4, 1) + bytes_field(4, floats({2})), floats({1, 2})},
      {2, numbers_field(5, {200, 3}), "\xc8\x03"},
      {3, numbers_field(5, {-1, 3}), "\xff\x03"},
      {3, number_field(5, -1) + number_field(5, 3), "\xff\x03"},
      {10, numbers_field(5, {0x3c00, 0x1234}), std::string("\x00\x3c\x34\x12", 4)},
      {6, numbers_field(5, {-2, 1}), std::string("\xfe\xff\xff\xff\x01\0\0\0", 8)},
      {12, numbers_field(11, {4294967295, 1}), std::string("\xff\xff\xff\xff\x01\0\0\0", 8)},
      {11, bytes_field(10, doubles), doubles},
      {9, numbers_field(5, {1, 0}), std::string("\1\0", 2)},
      {22, numbers_field(5, {0x21}), "\x21"},
      {22, bytes_field(9, "\x21"), "\x21"},
  };
  for (const Case& test : cases) {
    const Result<ModelData> model =
        parsed(of_tensor(tensor_message("t", test.type, {2}, test.data)));
    ASSERT_TRUE(model.ok()) << test.type << ": " << model.error().message;
    const auto bytes = model->graph.initialisers.at(0).bytes;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), test.bytes)
        << test.type;
  }
}

TEST(OnnxReader, RefusesTensorsThatDisagreeWithTheirDims) {
  const std::string eight = bytes_field(9, std::string(8, '\0'));
  const int64_t most = std::numeric_limits<int64_t>::max();
  const struct {
    std::string tensor;
    const char* words;
  } cases[] = {
      {tensor_message("t", 1, {3}, eight), "has 8 bytes, but its type and dims need 12"},
      {tensor_message("t", 1, {2}, ""), "another number of elements"},
      {tensor_message("t", 1, {2}, bytes_field(4, floats({1}))), "another number of elements"},
      {tensor_message("t", 7, {2}, numbers_field(7, {1, 2, 3})), "another number of elements"},
      {tensor_message("t", 7, {2}, numbers_field(5, {1, 2})), "numbers of another type"},
      {tensor_message("t", 1, {-1}, eight), "negative or too large"},
      {tensor_message("t", 1, {most, most}, eight), "negative or too large"},
      {tensor_message("t", 1, {most / 32, 2}, eight), "negative or too large"},
      {tensor_message("t", 7, {1 << 30}, numbers_field(7, {1})), "bytes of description"},
      {tensor_message("t", 1, {1, 1, 1, 1, 1, 1, 1, 1, 1}, eight), "rank over 8"},
      {tensor_message("t", 17, {1}, eight), "element type 17"},
      {tensor_message("t", 1, {2}, eight + bytes_field(3, "")), "segments"},
  };
  for (const auto& test : cases) {
    EXPECT_NE(fault(of_tensor(test.tensor)).find(test.words), std::string::npos)
        << test.words << " is not in: " << fault(of_tensor(test.tensor));
  }
  EXPECT_NE(fault(of_tensor(tensor_message("t", 1, {most, 0, most}, ""))), "");
  EXPECT_EQ(fault(of_tensor(tensor_message("t", 1, {7, 0, 9}, ""))), "");
}

TEST(OnnxReader, RefusesNamesThatMeanNothing) {
  const std::string w = tensor_message("w", 1, {1}, bytes_field(9, std::string(4, '\0')));
  const std::string x = bytes_field(11, value_message("x", kFloatType, {1}));
  const struct {
    std::string graph;
    const char* words;
  } cases[] = {
      {bytes_field(1, node_message("Relu", {"a"}, {"b"})), "nothing before it makes"},
      {bytes_field(1, node_message("Add", {"x", "b"}, {"a"})) + x +
           bytes_field(1, node_message("Relu", {"a"}, {"b"})),
       "nothing before it makes"},
      {bytes_field(1, node_message("Relu", {"x"}, {"x"})) + x, "is there already"},
      {bytes_field(5, w) + bytes_field(5, w), "is there twice"},
      {x + x, "is there twice"},
      {bytes_field(12, value_message("y", kFloatType, {1})), "made by no node"},
  };
  for (const auto& test : cases) {
    EXPECT_NE(fault(model_message(test.graph)).find(test.words), std::string::npos)
        << test.words << " is not in: " << fault(model_message(test.graph));
  }
}

// A message cut off at any byte is no model, or one that lacks what came last; neither crashes.
TEST(OnnxReader, SurvivesTruncationAtEveryByte) {
  const std::string bytes = model_message(small_graph());
  int refused = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    // Of its own size, so that the address sanitizer sees a byte too many.
    const std::string cut(bytes, 0, size);
    refused += !parsed(cut).ok();
  }
  EXPECT_GT(refused, static_cast<int>(bytes.size()) - 20);
}

TEST(OnnxReader, SurvivesMutations) {
  const std::string bytes = model_message(small_graph());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = bytes;
    for (uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const std::string words = fault(changed);
    refused += !words.empty();
    EXPECT_EQ(words.find('\n'), std::string::npos) << words;
    EXPECT_LT(words.size(), 1000u);
  }
  EXPECT_GT(refused, 1000);
}

TEST(OnnxReader, RefusesWireFaults) {
  const std::string long_number = std::string(10, '\xff') + "\1";
  EXPECT_NE(fault("\x08" + long_number).find("more than 64 bits"), std::string::npos);
  EXPECT_NE(fault("\x0b").find("a type that ONNX does not use"), std::string::npos);  // a group
  EXPECT_NE(fault("").find("no graph"), std::string::npos);
  EXPECT_NE(fault("not an ONNX file").find("damaged"), std::string::npos);
  EXPECT_NE(fault(model_message("") + bytes_field(7, "")).find("several graphs"),
            std::string::npos);
}

TEST(OnnxReader, RefusesBombs) {
  const auto repeat = [](const std::string& text, size_t times) {
    std::string bytes;
    bytes.reserve(text.size() * times);
    for (size_t i = 0; i < times; ++i) bytes += text;
    return bytes;
  };
  const auto refuses = [](const std::string& graph, const char* words) {
    const std::string found = fault(model_message(graph));
    EXPECT_NE(found.find(words), std::string::npos) << words << " is not in: " << found;
  };
  refuses(repeat(bytes_field(1, ""), 200'001), "more than 200000 nodes");
  refuses(repeat(bytes_field(5, ""), 200'001), "more than 200000 tensors");
  refuses(repeat(bytes_field(11, ""), 1'000'001), "more than 1000000 descriptions of values");
  refuses(bytes_field(1, repeat(bytes_field(5, ""), 2'000'001)), "more than 2000000 attributes");
  refuses(bytes_field(1, repeat(bytes_field(5, ""), 1'900'000)), "bytes of description");
  refuses(bytes_field(1, repeat(bytes_field(1, ""), 4097)), "4097 inputs and outputs");
  refuses(repeat(bytes_field(1, repeat(bytes_field(1, ""), 4000)), 251), "1000000 strings");
  const std::string strings = bytes_field(5, repeat(bytes_field(9, ""), 1'000'001));
  refuses(bytes_field(1, strings), "strings");
  refuses(bytes_field(1, bytes_field(5, bytes_field(8, std::string(20'000'000, '\1')))),
          "bytes of description");
  refuses(repeat(number_field(30, 1), 16'000'001), "fields");
  std::string nested;
  for (int i = 0; i < 100; ++i) {
    nested = bytes_field(1, bytes_field(4, "If") + bytes_field(5, bytes_field(6, nested)));
  }
  refuses(nested, "more than 16 deep");
}

class OnnxExternalData : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_.path() / "model";
    fs::create_directories(folder_ / "sub");
    put(folder_ / "data", floats({1, 2, 3, 4}));
    put(folder_ / "sub" / "data", floats({5, 6, 7, 8}));
    put(test_.path() / "outside", floats({9, 9, 9, 9}));
  }

  static void put(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // A model of two floats that lie in another file.
  static std::string model(const std::string& location, const std::string& offset = "",
                           const std::string& length = "") {
    const auto entry = [](std::string_view key, const std::string& value) {
      return value.empty() && key != "location"
                 ? ""
                 : bytes_field(13, bytes_field(1, key) + bytes_field(2, value));
    };
    return of_tensor(tensor_message("t", 1, {2},
                                    entry("location", location) + entry("offset", offset) +
                                        entry("length", length) + number_field(14, 1)));
  }

  std::string fault_of(const std::string& location, const std::string& offset = "",
                       const std::string& length = "") const {
    return fault(model(location, offset, length), folder_);
  }

  TestFolder test_;
  fs::path folder_;
};

TEST_F(OnnxExternalData, IsReadFromItsOffset) {
  for (const auto& [location, offset, first] :
       {std::tuple("data", "", 1.0f), {"data", "8", 3.0f}, {"sub/data", "4", 6.0f}}) {
    const Result<ModelData> read = parsed(model(location, offset, "8"), folder_);
    ASSERT_TRUE(read.ok()) << read.error().message;
    float number = 0;
    std::memcpy(&number, read->graph.initialisers[0].bytes.data(), sizeof(number));
    EXPECT_EQ(number, first);
  }
}

TEST_F(OnnxExternalData, StaysInTheFolder) {
  fs::create_symlink(test_.path() / "outside", folder_ / "link");
  fs::create_symlink(test_.path(), folder_ / "up");
  fs::create_hard_link(test_.path() / "outside", folder_ / "hard");
  for (const char* name : {"../outside", "sub/../../outside", "link", "up/outside", "", "/dev/zero",
                           "/etc/passwd", "sub/.."}) {
    EXPECT_NE(fault_of(name).find("may lead out of the folder"), std::string::npos)
        << name << ": " << fault_of(name);
  }
  // A file with one name alone: of `outside` the hard links are refused already.
  put(test_.path() / "other", "12345678abcdefgh");
  fs::create_symlink(test_.path() / "other", folder_ / "only_link");
  for (const char* name : {"only_link", "up/other"}) {
    EXPECT_NE(fault_of(name).find("may lead out of the folder"), std::string::npos)
        << name << ": " << fault_of(name);
  }
  EXPECT_NE(fault_of(std::string("data\0x", 6)).find("may lead out"), std::string::npos);
  EXPECT_NE(fault_of("hard").find("several hard links"), std::string::npos);
  EXPECT_NE(fault_of("sub").find("not a regular file"), std::string::npos);
  EXPECT_NE(fault_of("missing").find("No such file"), std::string::npos);
}

TEST_F(OnnxExternalData, FitsItsFile) {
  EXPECT_NE(fault_of("data", "12").find("ends outside"), std::string::npos);
  EXPECT_NE(fault_of("data", "17").find("ends outside"), std::string::npos);
  EXPECT_NE(fault_of("data", "9223372036854775807").find("ends outside"), std::string::npos);
  EXPECT_NE(fault_of("data", "9223372036854775808").find("no whole number"), std::string::npos);
  EXPECT_NE(fault_of("data", "-4").find("no whole number"), std::string::npos);
  EXPECT_NE(fault_of("data", "x").find("no whole number"), std::string::npos);
  EXPECT_NE(fault_of("data", "0", "4").find("has 4 bytes"), std::string::npos);
}

// Whoever shortens a file that was read changes nothing of it, and ends nobody.
TEST_F(OnnxExternalData, MayBeCutShortOnceItIsRead) {
  put(folder_ / "net.onnx", model("data", "8"));
  const Result<ModelData> read = read_model(folder_ / "net.onnx");
  ASSERT_TRUE(read.ok()) << read.error().message;
  put(folder_ / "inside.onnx",
      of_tensor(tensor_message("t", 1, {2}, bytes_field(9, floats({7, 8})))));
  const Result<ModelData> inside = read_model(folder_ / "inside.onnx");
  ASSERT_TRUE(inside.ok()) << inside.error().message;
  fs::resize_file(folder_ / "data", 0);
  fs::resize_file(folder_ / "inside.onnx", 0);
  for (const auto& [found, first] : {std::pair{&*read, 3.0f}, {&*inside, 7.0f}}) {
    float number = 0;
    std::memcpy(&number, found->graph.initialisers[0].bytes.data(), sizeof(number));
    EXPECT_EQ(number, first);
  }
}

// Only what tensors name is read: a file of a terabyte without blocks costs nothing.
TEST_F(OnnxExternalData, IsReadInParts) {
  fs::resize_file(folder_ / "data", uintmax_t{1} << 40);
  const Result<ModelData> read =
      parsed(model("data", std::to_string((int64_t{1} << 40) - 8)), folder_);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->graph.initialisers[0].bytes[0], std::byte{0});
}

std::string body_node(std::string_view op, std::initializer_list<std::string_view> in,
                      std::initializer_list<std::string_view> out, bool is_call = false,
                      const std::string& more = "") {
  return bytes_field(7, node_message(op, in, out, more) + (is_call ? bytes_field(7, "my") : ""));
}

std::string graph_of_x(const std::string& nodes) {
  return nodes + bytes_field(11, value_message("x", 1, {2})) +
         bytes_field(12, value_message("y", 1, {2}));
}

TEST(OnnxFunctions, BecomeTheirNodes) {
  // twice(a) = slope(slope(a)), slope(a) = LeakyRelu(a) with the alpha of the call, or 0.5.
  const auto alpha = [](const std::string& value) {
    return bytes_field(5, bytes_field(1, "alpha") + value + number_field(20, 1));
  };
  const std::string slope = function_message(
      "slope", {"a"}, {"b"},
      body_node("LeakyRelu", {"a"}, {"t"}, false, alpha(bytes_field(21, "s"))) +
          body_node("Abs", {"t"}, {"b"}) +
          bytes_field(11, bytes_field(1, "s") + float_field(2, 0.5f) + number_field(20, 1)));
  const std::string twice = function_message(
      "twice", {"a", "unused"}, {"c", "a"},
      body_node("slope", {"a"}, {"t"}, true) +
          body_node(
              "slope", {"t"}, {"c"}, true,
              bytes_field(5, bytes_field(1, "s") + float_field(2, 0.25f) + number_field(20, 1))));
  const std::string graph = graph_of_x(call_node("twice", {"x"}, {"z", "same"}) +
                                       bytes_field(1, node_message("Add", {"z", "same"}, {"y"})));
  const Result<ModelData> model = parsed(model_message(graph) + slope + twice);
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::vector<std::string> ops;
  std::vector<float> slopes;
  for (const NodeData& node : model->graph.nodes) {
    ops.push_back(node.op_type);
    if (node.op_type == "LeakyRelu") slopes.push_back(attribute<float>(node, 0));
  }
  EXPECT_EQ(ops,
            (std::vector<std::string>{"LeakyRelu", "Abs", "LeakyRelu", "Abs", "Identity", "Add"}));
  EXPECT_EQ(slopes, (std::vector<float>{0.5f, 0.25f}));
}

TEST(OnnxFunctions, AreBounded) {
  const auto refuses = [](const std::string& bytes, const char* words) {
    const std::string found = fault(bytes);
    EXPECT_NE(found.find(words), std::string::npos) << words << " is not in: " << found;
  };
  const std::string graph = graph_of_x(call_node("f0", {"x"}, {"y"}));
  refuses(model_message(graph) +
              function_message("f0", {"a"}, {"b"}, body_node("f1", {"a"}, {"b"}, true)) +
              function_message("f1", {"a"}, {"b"}, body_node("f0", {"a"}, {"b"}, true)),
          "\"my.f0\" calls itself");
  // Each calls the next one twice, with a node at the end, with none, and with more than are left.
  const auto chain = [&](int length, const std::string& last, int calls) {
    std::string bytes = model_message(graph);
    for (int i = 0; i < length; ++i) {
      std::string nodes;
      for (int k = 0; k < calls; ++k) {
        nodes += bytes_field(
            7, bytes_field(1, "a") + bytes_field(2, k == 0 ? "b" : "t" + std::to_string(k)) +
                   bytes_field(4, "f" + std::to_string(i + 1)) + bytes_field(7, "my"));
      }
      bytes += function_message("f" + std::to_string(i), {"a"}, {"b"}, nodes);
    }
    return bytes + function_message("f" + std::to_string(length), {"a"}, {"b"}, last);
  };
  EXPECT_EQ(fault(chain(8, body_node("Abs", {"a"}, {"b"}), 2)), "");
  refuses(chain(15, body_node("Abs", {"a"}, {"b"}), 4), "more than 200000 nodes");
  refuses(chain(15, "", 4), "more than 200000 nodes");
  refuses(chain(40, body_node("Abs", {"a"}, {"b"}), 1), "more than 16 deep");
  refuses(model_message(graph) + function_message("f0", {}, {"b"}, ""), "1 inputs and 1 outputs");
  const std::string large =
      bytes_field(5, bytes_field(1, "l") + bytes_field(8, std::string(1 << 20, '\1')));
  refuses(chain(6, body_node("Abs", {"a"}, {"b"}, false, large), 4), "bytes of description");
}

TEST_F(OnnxExternalData, ErrorsNameTheFile) {
  put(folder_ / "net.onnx", model("data", "12"));
  const Result<ModelData> read = read_model(folder_ / "net.onnx");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("net.onnx': tensor \"t\": ends outside"), std::string::npos)
      << read.error().message;
  EXPECT_FALSE(read_model(folder_).ok());
  EXPECT_FALSE(read_model(folder_ / "missing.onnx").ok());
}

}  // namespace
}  // namespace mantissa::onnx
