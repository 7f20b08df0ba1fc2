#include "networks/language/model_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>

#include "base/test_folder.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/gguf_blocks.h"
#include "networks/imported_network.h"
#include "networks/language/test_model.h"

namespace mantissa {
namespace {

class LanguageModelFiles : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "model.gguf"; }

  Result<onnx::ImportedNetwork> import_bytes(const std::string& bytes) {
    put_file(path(), bytes);
    MANTISSA_ASSIGN(const LanguageModelFile file, read_language_model(path()));
    return import_language_model(file, 16);
  }
  // The error of importing: one line that names the file.
  std::string refusal(const std::string& bytes) {
    const auto network = import_bytes(bytes);
    if (network.ok()) return "accepted";
    EXPECT_NE(network.error().message.find("model.gguf"), std::string::npos);
    EXPECT_EQ(network.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(network.error().code, ErrorCode::kInvalidInput);
    return network.error().message;
  }

  TestFolder folder_;
};

// A model with other keys, between the network's and the tokenizer's.
std::string with_keys(const std::function<void(GgufBytes&)>& change,
                      const std::string& architecture = "llama") {
  GgufBytes file = TestModel::keys(architecture);
  change(file);
  TestModel::add_tokenizer(file);
  TestModel().add_tensors(file);
  return file.bytes();
}

TEST_F(LanguageModelFiles, AreDescribed) {
  put_file(path(), TestModel::whole().bytes());
  EXPECT_TRUE(*is_model_file(path()));
  const auto file = read_language_model(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE(file->lacks.empty());
  const std::vector<std::string> lines = describe(*file);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "llama: A small one");
  EXPECT_EQ(lines[1],
            "2 layers of 16 channels, 24 between gated layers; 4 heads of 4, 2 of keys and values; "
            "rotary base 100, epsilon 1e-05; 64 positions");
  EXPECT_EQ(lines[2],
            "20 tensors (20 F32) of 8,080 numbers; the classifier has the embedding's weights");
  EXPECT_EQ(lines[3],
            "tokenizer gpt2, smollm: 260 tokens, 2 of them special, 1 merges; texts begin with "
            "none, end token \"<|im_end|>\"");
  EXPECT_EQ(lines[4], "no chat template");
}

TEST_F(LanguageModelFiles, GiveAllNumbersToTheNetwork) {
  const auto network = import_bytes(TestModel::whole().bytes());
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->graph.name, "llama_lm");
  EXPECT_EQ(network->graph.inputs.size(), 2u);
  ASSERT_EQ(network->parameters.size(), network->graph.parameters.size());
  ASSERT_EQ(network->parameters.size(), 20u);
  const auto file = GgufFile::open(path());
  ASSERT_TRUE(file.ok());
  const auto floats = [&](const char* name) { return *file->floats(*file->find_tensor(name)); };
  for (const onnx::ImportedParameter& parameter : network->parameters) {
    if (parameter.name == "embedding.weights") {
      EXPECT_EQ(parameter.floats, floats("token_embd.weight"));
    }
    if (parameter.name == "block2.down.weights") {
      EXPECT_EQ(parameter.floats, floats("blk.1.ffn_down.weight"));
    }
    if (parameter.name != "block1.key.weights") continue;
    // Rows 0, 1, 2, 3 of a head are pairs (0, 1) and (2, 3); ours are (0, 2) and (1, 3).
    const std::vector<float> rows = floats("blk.0.attn_k.weight");
    const std::array<int, 8> from = {0, 2, 1, 3, 4, 6, 5, 7};
    for (size_t row = 0; row < from.size(); ++row) {
      for (size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(parameter.floats[16 * row + i], rows[16 * static_cast<size_t>(from[row]) + i]);
      }
    }
  }
}

// A layer of 64 channels with tensors of several types, and random blocks with finite scales.
std::string with_blocks() {
  GgufBytes file;
  file.add_text("general.architecture", "llama")
      .add_whole("llama.block_count", 1)
      .add_whole("llama.context_length", 64)
      .add_whole("llama.embedding_length", 64)
      .add_whole("llama.feed_forward_length", 96)
      .add_whole("llama.attention.head_count", 2)
      .add_whole("llama.attention.head_count_kv", 1);
  TestModel::add_tokenizer(file);
  uint32_t state = 5;
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& dims, uint32_t type) {
    const GgufBlockType& kind = *gguf_block_type(type);
    const uint64_t blocks = dims[0] * dims[1] / static_cast<uint64_t>(kind.elements);
    std::string bytes;
    for (uint64_t i = 0; i < blocks * static_cast<uint64_t>(kind.bytes); ++i) {
      state = state * 1664525u + 1013904223u;
      const uint64_t place = i % static_cast<uint64_t>(kind.bytes);
      const bool is_high = place == 1 || (place == 3 && type == 3);
      bytes += static_cast<char>(is_high ? 0x20 | (state >> 24 & 0x8f) : state >> 24);
    }
    file.add_tensor(name, dims, type, bytes);
  };
  const std::vector<float> ones(64, 1);
  add("token_embd.weight", {64, TestModel::kTokens}, 8);
  file.add_floats("output_norm.weight", {64}, ones);
  file.add_floats("blk.0.attn_norm.weight", {64}, ones);
  add("blk.0.attn_q.weight", {64, 64}, 3);
  add("blk.0.attn_k.weight", {64, 32}, 2);
  add("blk.0.attn_v.weight", {64, 32}, 2);
  add("blk.0.attn_output.weight", {64, 64}, 3);
  file.add_floats("blk.0.ffn_norm.weight", {64}, ones);
  add("blk.0.ffn_gate.weight", {64, 96}, 3);
  add("blk.0.ffn_up.weight", {64, 96}, 6);  // Q5_0: float32
  add("blk.0.ffn_down.weight", {96, 64}, 8);
  return file.bytes();
}

TEST_F(LanguageModelFiles, KeepTheirBlocks) {
  put_file(path(), with_blocks());
  const auto file = read_language_model(path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto floats = import_language_model(*file, 16);
  const auto blocks = import_language_model(*file, 16, ImportedWeights::kBlocks);
  ASSERT_TRUE(floats.ok()) << floats.error().message;
  ASSERT_TRUE(blocks.ok()) << blocks.error().message;
  const std::vector<NamedParameter> plain = named_parameters(*floats),
                                    kept = named_parameters(*blocks);
  ASSERT_EQ(plain.size(), kept.size());
  int in_blocks = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const Parameter& parameter = blocks->graph.parameters[i];
    EXPECT_EQ(kept[i].name, plain[i].name);
    EXPECT_EQ(kept[i].shape, plain[i].shape);
    EXPECT_EQ(parameter.name, kept[i].name);
    EXPECT_EQ(parameter.blocks, kept[i].blocks);
    EXPECT_EQ(parameter.trained, kept[i].blocks == BlockKind::kNone);
    EXPECT_TRUE(check_parameter(kept[i]).ok());
    in_blocks += kept[i].blocks != BlockKind::kNone;
    const std::vector<double> expected = real_numbers(plain[i]), found = real_numbers(kept[i]);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(static_cast<float>(found[k]), static_cast<float>(expected[k])) << kept[i].name;
    }
  }
  EXPECT_EQ(in_blocks, 7);
  ASSERT_EQ(blocks->notes.size(), 1u);
  EXPECT_NE(blocks->notes[0].find("2 of q4_0, 3 of q4_1, 2 of q8_0"), std::string::npos)
      << blocks->notes[0];
}

TEST_F(LanguageModelFiles, WithoutBlocksSaySo) {
  put_file(path(), TestModel::whole().bytes());
  const auto network =
      import_language_model(*read_language_model(path()), 16, ImportedWeights::kBlocks);
  ASSERT_FALSE(network.ok());
  EXPECT_NE(network.error().message.find("no tensor of"), std::string::npos);
}

TEST_F(LanguageModelFiles, KeysThatAskForSomethingAreNamed) {
  const std::pair<const char*, std::function<void(GgufBytes&)>> cases[] = {
      {"llama.rope.scaling.type = \"yarn\"",
       [](GgufBytes& f) { f.add_text("llama.rope.scaling.type", "yarn"); }},
      {"llama.rope.scaling.factor = 0.5: factors are from 1 to 2^20",
       [](GgufBytes& f) { f.add_real("llama.rope.scaling.factor", 0.5); }},
      {"llama.rope.scale_linear = 4",
       [](GgufBytes& f) { f.add_real("llama.rope.scale_linear", 4); }},
      {"llama.attention.sliding_window = 4096",
       [](GgufBytes& f) { f.add_whole("llama.attention.sliding_window", 4096); }},
      {"llama.expert_count = 8", [](GgufBytes& f) { f.add_whole("llama.expert_count", 8); }},
      {"llama.attn_logit_softcapping = 50",
       [](GgufBytes& f) { f.add_real("llama.attn_logit_softcapping", 50); }},
      {"llama.attention.causal = false",
       [](GgufBytes& f) { f.add_truth("llama.attention.causal", false); }},
      {"llama.rope.dimension_count = 2",
       [](GgufBytes& f) { f.add_whole("llama.rope.dimension_count", 2); }},
      {"has no tensor for model.layers.2.input_layernorm.weight",
       [](GgufBytes& f) {
         f.header.replace(f.header.find("llama.block_count") + 21, 1, "\3");
         f.add_floats("a", {1}, {0}).add_floats("b", {1}, {0}).add_floats("c", {1}, {0});
         f.add_floats("d", {1}, {0}).add_floats("e", {1}, {0}).add_floats("f", {1}, {0});
         f.add_floats("g", {1}, {0});
       }},
      {"tensor rope_freqs.weight with other than 2 numbers of F32",
       [](GgufBytes& f) { f.add_floats("rope_freqs.weight", {3}, {1, 1, 1}); }},
      {"rope_freqs.weight = 0: factors are from 1 to 2^20",
       [](GgufBytes& f) { f.add_floats("rope_freqs.weight", {2}, {1, 0}); }},
      {"rope_freqs.weight = nan: factors are from 1 to 2^20",
       [](GgufBytes& f) {
         f.add_floats("rope_freqs.weight", {2}, {std::nanf(""), 2});
       }},
      {"tensor rope_freqs.weight beside a rope.scaling.factor",
       [](GgufBytes& f) {
         f.add_real("llama.rope.scaling.factor", 2);
         f.add_floats("rope_freqs.weight", {2}, {1, 8});
       }},
      {"tensor \"blk.N.attn_q_norm.weight\" of 2 layers", [](GgufBytes& f) {
         f.add_floats("blk.0.attn_q_norm.weight", {4}, {1, 1, 1, 1});
         f.add_floats("blk.1.attn_q_norm.weight", {4}, {1, 1, 1, 1});
       }}};
  for (const auto& [part, change] : cases) {
    const std::string message = refusal(with_keys(change));
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  }
  EXPECT_EQ(refusal(with_keys([](GgufBytes& f) {
              f.add_text("llama.rope.scaling.type", "none");
              f.add_whole("llama.attention.sliding_window", 0);
              f.add_whole("llama.rope.dimension_count", 4);
              f.add_whole("llama.vocab_size", 260);
            })),
            "accepted");
  EXPECT_NE(refusal(with_keys([](GgufBytes&) {}, "gemma3")).find("\"gemma3\": llama, qwen2, qwen3"),
            std::string::npos);
}

TEST_F(LanguageModelFiles, MuchThatIsAskedForIsCutShort) {
  const std::string bytes = with_keys([](GgufBytes& f) {
    for (int i = 0; i < 1000; ++i) f.add_text("llama.k" + std::to_string(i), std::string(500, 'x'));
    f.header.replace(f.header.find("A small one"), 11, std::string(11, '\xff'));
  });
  const std::string message = refusal(bytes);
  EXPECT_LT(message.size(), 4000u);
  EXPECT_NE(message.find("; 990 more"), std::string::npos);
  const std::vector<std::string> lines = describe(*read_language_model(path()));
  EXPECT_EQ(lines.size(), 16u);
  EXPECT_EQ(lines.back(), "asks for what is not there: 990 more");
}

TEST_F(LanguageModelFiles, HostileSizesAreRefused) {
  const auto with = [](const char* key, const std::string& value) {
    std::string bytes = TestModel::whole().bytes();
    const std::string name = std::string("llama.") + key;
    return bytes.replace(bytes.find(name) + name.size() + 4, 4, value);
  };
  const std::string zero(4, '\0'), huge("\xff\xff\xff\xff"), many("\xff\xff\xff\0", 4);
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length",
                          "attention.head_count", "attention.head_count_kv"}) {
    EXPECT_NE(refusal(with(key, zero)).find(std::string(key) + " is 0"), std::string::npos);
    EXPECT_NE(refusal(with(key, huge)).find("is 4294967295"), std::string::npos);
    EXPECT_NE(refusal(with(key, many)), "accepted");
    EXPECT_NE(refusal(with(key, std::string("\3\0\0\0", 4))), "accepted") << key;
  }
  EXPECT_NE(refusal(with("block_count", many)).find("16777215 layers in 20 tensors"),
            std::string::npos);
}

TEST_F(LanguageModelFiles, WithoutATokenizerThatIsReadAreRefused) {
  GgufBytes file = TestModel::keys();
  TestModel::add_tokenizer(file, "deepseek-llm");
  TestModel().add_tensors(file);
  EXPECT_NE(refusal(file.bytes()).find("its pre-tokenizer is \"deepseek-llm\""), std::string::npos);
  GgufBytes none = TestModel::keys();
  TestModel().add_tensors(none);
  EXPECT_NE(refusal(none.bytes()).find("no tokenizer"), std::string::npos);
}

TEST_F(LanguageModelFiles, NumbersThatAreNotFiniteAreRefused) {
  GgufBytes file = TestModel::whole();
  file.data.replace(2, 2, "\x80\x7f");
  EXPECT_NE(refusal(file.bytes()).find("not finite"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
