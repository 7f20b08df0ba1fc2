#include "networks/language/written_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files/atomic_file.h"
#include "base/test_folder.h"
#include "formats/arrays/safetensors.h"
#include "formats/gguf/gguf.h"
#include "models/json/network_json.h"
#include "networks/imported_network.h"
#include "networks/language/block_network.h"
#include "networks/language/model_file.h"
#include "networks/language/test_model.h"
#include "ops/ops.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

class WrittenModels : public testing::Test {
 protected:
  // The network of a file or folder.
  onnx::ImportedNetwork import_from(const std::filesystem::path& path) {
    const auto file = read_language_model(path);
    EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
    auto network = import_language_model(*file, 16);
    EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
    return std::move(*network);
  }

  onnx::ImportedNetwork import_test_model(const std::string& architecture = "llama") {
    GgufBytes bytes = TestModel::keys(architecture);
    TestModel::add_tokenizer(bytes);
    TestModel().add_tensors(bytes);
    put_file(folder_ / "source.gguf", bytes.bytes());
    return import_from(folder_ / "source.gguf");
  }

  TestFolder folder_;
};

void expect_same_numbers(const onnx::ImportedNetwork& a, const onnx::ImportedNetwork& b) {
  EXPECT_EQ(to_json(a.graph), to_json(b.graph));
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    EXPECT_EQ(a.parameters[i].name, b.parameters[i].name);
    EXPECT_EQ(a.parameters[i].floats, b.parameters[i].floats) << a.parameters[i].name;
  }
}

TEST_F(WrittenModels, ComeBackFromBothKindsOfFiles) {
  for (const char* architecture : {"llama", "qwen2"}) {
    const onnx::ImportedNetwork network = import_test_model(architecture);
    const auto source = read_language_model(folder_ / "source.gguf");
    const auto parameters = named_parameters(network);
    auto model = written_model(network.graph, parameters);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model->tokenizer = &*source->tokenizer;
    model->chat = ChatTemplate{.system = "Be kind."};
    model->architecture = architecture;  // the test's Qwen2 has no biases
    model->positions = 64;
    ASSERT_TRUE(write_gguf_model(folder_ / "out.gguf", *model, "again", WeightType::kF32).ok());
    expect_same_numbers(import_from(folder_ / "out.gguf"), network);
    const auto again = read_language_model(folder_ / "out.gguf");
    EXPECT_EQ(again->positions, 64);
    EXPECT_EQ(again->name, "again");
    EXPECT_EQ(again->tokenizer->tokens(), source->tokenizer->tokens());
    EXPECT_EQ(again->tokenizer->merges(), source->tokenizer->merges());
    EXPECT_EQ(again->tokenizer->options(), source->tokenizer->options());
    EXPECT_EQ(again->chat, model->chat);
    if (model->architecture == "qwen2") continue;
    ASSERT_TRUE(write_model_folder(folder_ / "out", *model, WeightType::kF32).ok());
    expect_same_numbers(import_from(folder_ / "out"), network);
    const auto folder = read_language_model(folder_ / "out");
    EXPECT_EQ(folder->positions, 64);
    EXPECT_EQ(folder->tokenizer->tokens(), source->tokenizer->tokens());
    EXPECT_EQ(folder->tokenizer->merges(), source->tokenizer->merges());
    EXPECT_EQ(folder->tokenizer->options(), source->tokenizer->options());
    EXPECT_EQ(folder->chat, model->chat);
  }
}

// A network with random numbers, of floats or as mantissas of 8 bits with an exponent for each row.
struct Numbers {
  Graph graph;
  std::map<std::string, std::vector<float>> floats = {};
  std::map<std::string, std::vector<int8_t>> mantissas = {};
  std::map<std::string, std::vector<int16_t>> exponents = {};
  std::vector<NamedParameter> parameters = {};

  Numbers(const Graph& network, bool in_bytes) : graph(network) {
    TestModel random;
    for (const Parameter& p : graph.parameters) {
      const auto count = static_cast<uint64_t>(p.shape.count());
      std::vector<float>& numbers = floats[p.name] = random.numbers(count, 127);
      const bool is_bytes = in_bytes && p.storage == Storage::kWeights;
      if (!is_bytes) {
        for (float& number : numbers) number /= 128;
        parameters.push_back({.name = p.name,
                              .type = DataType::kFloat,
                              .shape = p.shape,
                              .numbers = std::as_bytes(std::span(numbers))});
        continue;
      }
      auto& bytes = mantissas[p.name];
      auto& rows = exponents[p.name];
      for (int64_t row = 0; row < p.shape[0]; ++row) {
        rows.push_back(static_cast<int16_t>(-8 - row % 3));
      }
      for (size_t i = 0; i < count; ++i) {
        const auto row = i / static_cast<size_t>(p.shape.last());
        bytes.push_back(static_cast<int8_t>(numbers[i]));
        numbers[i] = std::ldexp(static_cast<float>(bytes[i]), rows[row]);
      }
      parameters.push_back({.name = p.name,
                            .type = DataType::kInt8,
                            .shape = p.shape,
                            .numbers = std::as_bytes(std::span(bytes)),
                            .exponents = std::as_bytes(std::span(rows))});
    }
  }
};

Graph llama_of_32(bool query_bias = false) {
  const DecoderSizes sizes = {.layers = 2,
                            .channels = 32,
                            .heads = 4,
                            .key_heads = 2,
                            .head_channels = 8,
                            .inner = 64,
                            .vocabulary = 260,
                            .tied = false,
                            .query_bias = query_bias};
  return *llama_lm(query_bias ? "qwen2_lm" : "llama_lm", sizes, 16);
}

bool says(const Result<WriterNotes>& notes, const std::string& part) {
  return notes.ok() && std::ranges::any_of(*notes, [&](const std::string& note) {
           return note.find(part) != std::string::npos;
         });
}

// The numbers that a GGUF file gives a parameter, after the import.
TEST_F(WrittenModels, RowsOfBytesAreQ8Exactly) {
  for (const bool query_bias : {false, true}) {
    const Numbers numbers(llama_of_32(query_bias), true);
    auto model = written_model(numbers.graph, numbers.parameters);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->architecture, query_bias ? "qwen2" : "llama");
    const auto source = import_test_model();
    const auto file = read_language_model(folder_ / "source.gguf");
    model->tokenizer = &*file->tokenizer;
    const auto notes = write_gguf_model(folder_ / "q8.gguf", *model, "q8", WeightType::kQ8_0);
    EXPECT_TRUE(says(notes, "16 matrices of 8 bits are in Q8_0 exactly"));
    EXPECT_EQ(notes->size(), 1u);
    const auto written = GgufFile::open(folder_ / "q8.gguf");
    EXPECT_EQ(written->find_tensor("blk.0.attn_q.weight")->type, 8u);
    EXPECT_EQ(written->find_tensor("blk.0.attn_norm.weight")->type, 0u);
    const auto again = import_from(folder_ / "q8.gguf");
    ASSERT_EQ(again.parameters.size(), numbers.parameters.size());
    for (const onnx::ImportedParameter& parameter : again.parameters) {
      EXPECT_EQ(parameter.floats, numbers.floats.at(parameter.name)) << parameter.name;
    }
  }
}

TEST_F(WrittenModels, OtherRowsAreRoundedAndSaidSo) {
  Numbers numbers(llama_of_32(), true);
  numbers.exponents["block1.up.weights"][3] = -25;  // beyond float16
  auto model = written_model(numbers.graph, numbers.parameters);
  ASSERT_TRUE(model.ok());
  const auto notes = write_gguf_model(folder_ / "a.gguf", *model, "a", WeightType::kQ8_0);
  EXPECT_TRUE(says(notes, "15 matrices of 8 bits are in Q8_0 exactly"));
  EXPECT_TRUE(says(notes, "1 matrices are rounded to Q8_0"));
  const onnx::ImportedNetwork small = import_test_model();  // rows of 16
  const auto parameters = named_parameters(small);
  const auto of_small = written_model(small.graph, parameters);
  const auto others = write_gguf_model(folder_ / "b.gguf", *of_small, "b", WeightType::kQ8_0);
  EXPECT_TRUE(says(others, "15 matrices are in F32: their rows are no multiple of 32"));
}

TEST_F(WrittenModels, BlocksGoOutAsTheyAre) {
  for (const bool query_bias : {false, true}) {
    const Graph graph = llama_of_32(query_bias);
    // A kind for each matrix, in turn; one keeps its floats.
    constexpr BlockKind kKinds[] = {BlockKind::kQ8_0, BlockKind::kQ4_0, BlockKind::kQ4_1};
    const auto kind_of = [&](int parameter) {
      const bool stays = graph.parameters[parameter].name == "block1.up.weights";
      return stays ? BlockKind::kNone : kKinds[parameter % 3];
    };
    const auto in_blocks = with_weight_blocks(graph, kind_of);
    ASSERT_TRUE(in_blocks.ok()) << in_blocks.error().message;
    const Numbers numbers(graph, false);
    std::map<std::string, std::vector<std::byte>> blocks;
    std::vector<NamedParameter> parameters = numbers.parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const BlockKind kind = in_blocks->parameters[i].blocks;
      if (in_blocks->parameters[i].storage != Storage::kBlocks) continue;
      auto& own = blocks[parameters[i].name] = packed_blocks(kind, real_numbers(parameters[i]));
      parameters[i].blocks = kind;
      parameters[i].type = DataType::kUint8;
      parameters[i].numbers = own;
    }
    auto model = written_model(*in_blocks, parameters);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto source = import_test_model();
    const auto file = read_language_model(folder_ / "source.gguf");
    model->tokenizer = &*file->tokenizer;
    const auto notes = write_gguf_model(folder_ / "b.gguf", *model, "b", WeightType::kBlocks);
    EXPECT_TRUE(says(notes, std::to_string(blocks.size()) + " matrices are in their blocks"));
    EXPECT_TRUE(says(notes, "1 matrices are rounded to Q8_0"));
    const auto read = read_language_model(folder_ / "b.gguf");
    const auto again = import_language_model(*read, 16, ImportedWeights::kBlocks);
    ASSERT_TRUE(again.ok()) << again.error().message;
    size_t same = 0;
    for (const onnx::ImportedParameter& parameter : again->parameters) {
      const auto found = blocks.find(parameter.name);
      if (found == blocks.end()) continue;
      EXPECT_EQ(parameter.bytes, found->second) << parameter.name;
      ++same;
    }
    EXPECT_EQ(same, blocks.size());
    // As floats they are the same numbers.
    ASSERT_TRUE(write_gguf_model(folder_ / "f.gguf", *model, "f", WeightType::kF32).ok());
    const auto floats = import_from(folder_ / "f.gguf");
    for (const onnx::ImportedParameter& parameter : floats.parameters) {
      const auto found = blocks.find(parameter.name);
      if (found == blocks.end()) continue;
      const auto at = std::ranges::find(parameters, parameter.name, &NamedParameter::name);
      const std::vector<double> wanted = block_numbers(at->blocks, found->second);
      EXPECT_TRUE(std::ranges::equal(parameter.floats, wanted, [](float a, double b) {
        return a == static_cast<float>(b);
      })) << parameter.name;
    }
  }
}

TEST_F(WrittenModels, GroupsGoOutAsQ4_0) {
  const Graph graph = llama_of_32();
  const auto kind_of = [&](int parameter) {
    return parameter % 2 == 0 ? BlockKind::kW3G32 : BlockKind::kQ8_0;
  };
  const auto in_blocks = with_weight_blocks(graph, kind_of);
  ASSERT_TRUE(in_blocks.ok()) << in_blocks.error().message;
  const Numbers numbers(graph, false);
  std::map<std::string, std::vector<std::byte>> blocks;
  std::vector<NamedParameter> parameters = numbers.parameters;
  int64_t groups = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const BlockKind kind = in_blocks->parameters[i].blocks;
    if (in_blocks->parameters[i].storage != Storage::kBlocks) continue;
    auto& own = blocks[parameters[i].name] = packed_blocks(kind, real_numbers(parameters[i]));
    parameters[i].blocks = kind;
    parameters[i].type = DataType::kUint8;
    parameters[i].numbers = own;
    groups += kind == BlockKind::kW3G32;
  }
  ASSERT_GT(groups, 0);
  auto model = written_model(*in_blocks, parameters);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto source = import_test_model();
  const auto file = read_language_model(folder_ / "source.gguf");
  model->tokenizer = &*file->tokenizer;
  const auto notes = write_gguf_model(folder_ / "g.gguf", *model, "g", WeightType::kBlocks);
  EXPECT_TRUE(says(notes, std::to_string(groups) + " matrices are in Q4_0 exactly"));
  const auto read = read_language_model(folder_ / "g.gguf");
  const auto again = import_language_model(*read, 16, ImportedWeights::kBlocks);
  ASSERT_TRUE(again.ok()) << again.error().message;
  int64_t same = 0;
  for (const onnx::ImportedParameter& parameter : again->parameters) {
    if (parameter.blocks != BlockKind::kQ4_0) continue;
    EXPECT_EQ(block_numbers(BlockKind::kQ4_0, parameter.bytes),
              block_numbers(BlockKind::kW3G32, blocks.at(parameter.name)))
        << parameter.name;
    ++same;
  }
  EXPECT_EQ(same, groups);
}

TEST_F(WrittenModels, AdaptersAreMergedOrWrittenApart) {
  const Graph adapted = *with_adapters(llama_of_32(), {.rank = 4, .on = "query,down", .alpha = 6});
  const Numbers numbers(adapted, false);
  auto model = written_model(adapted, numbers.parameters);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto source = import_test_model();
  const auto file = read_language_model(folder_ / "source.gguf");
  model->tokenizer = &*file->tokenizer;
  ASSERT_TRUE(write_gguf_model(folder_ / "merged.gguf", *model, "m", WeightType::kF32).ok());
  const auto merged = import_from(folder_ / "merged.gguf");
  for (const onnx::ImportedParameter& parameter : merged.parameters) {
    std::vector<float> wanted = numbers.floats.at(parameter.name);
    const std::string layer = parameter.name.substr(0, parameter.name.rfind('.'));
    const auto a = numbers.floats.find(layer + ".lora_a.weights");
    if (a != numbers.floats.end()) {
      const auto& b = numbers.floats.at(layer + ".lora_b.weights");
      const size_t columns = a->second.size() / 4;
      for (size_t i = 0; i < wanted.size(); ++i) {
        double sum = wanted[i];
        for (size_t k = 0; k < 4; ++k) {
          sum += 1.5 * b[i / columns * 4 + k] * a->second[k * columns + i % columns];
        }
        wanted[i] = static_cast<float>(sum);
      }
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(parameter.floats[i], wanted[i], 1e-6 * (1 + std::abs(wanted[i])))
          << parameter.name;
    }
  }
  ASSERT_TRUE(write_adapters(folder_ / "peft", adapted, numbers.parameters, "base").ok());
  const auto tensors = read_safetensors(folder_ / "peft" / "adapter_model.safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  EXPECT_EQ(tensors->tensors.size(), 8u);
  const auto* a = tensors->find("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->shape, (std::vector<int64_t>{4, 64}));
  EXPECT_EQ(std::memcmp(a->data.data(), numbers.floats.at("block2.down.lora_a.weights").data(),
                        a->data.size()),
            0);
  const auto text = read_file(folder_ / "peft" / "adapter_config.json", 1 << 20);
  const auto config = nlohmann::json::parse(
      std::string(reinterpret_cast<const char*>(text->data()), text->size()));
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 6);
  EXPECT_EQ(config["target_modules"], (nlohmann::json{"down_proj", "q_proj"}));
  EXPECT_EQ(config["base_model_name_or_path"], "base");
  EXPECT_FALSE(write_adapters(folder_ / "none", llama_of_32(), numbers.parameters, "").ok());
}

TEST_F(WrittenModels, OtherNetworksAreRefused) {
  Graph graph = llama_of_32();
  EXPECT_TRUE(decoder_sizes(graph).ok());
  EXPECT_EQ(decoder_sizes(graph)->inner, 64);
  for (Node& node : graph.nodes) {
    if (node.name != "block2.attention") continue;
    replace_op(node, ops::kAttention,
               {{"heads", 4}, {"kv_heads", 2}, {"causal", 1}, {"window", 3}});
  }
  const auto sizes = decoder_sizes(graph);
  ASSERT_FALSE(sizes.ok());
  EXPECT_NE(sizes.error().message.find("is no decoder in Llama's layout"), std::string::npos);
  const Numbers numbers(llama_of_32(), false);
  auto few = numbers.parameters;
  few.pop_back();
  EXPECT_NE(written_model(llama_of_32(), few).error().message.find("has no parameter"),
            std::string::npos);
}

}  // namespace
}  // namespace mantissa
