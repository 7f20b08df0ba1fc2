// Language models in folders of Hugging Face's transformers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "base/test_folder.h"
#include "formats/arrays/safetensors.h"
#include "networks/language/model_file.h"
#include "networks/language/test_model.h"

namespace mantissa {
namespace {

using nlohmann::json;

// A folder of transformers with the same network.
class LanguageModelFolders : public testing::Test {
 protected:
  void SetUp() override {
    config_ = {{"architectures", {"LlamaForCausalLM"}},
               {"model_type", "llama"},
               {"hidden_act", "silu"},
               {"hidden_size", 16},
               {"intermediate_size", 24},
               {"num_hidden_layers", 1},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"max_position_embeddings", 64},
               {"rms_norm_eps", 1e-5},
               {"rope_theta", 100.0},
               {"rope_scaling", nullptr},
               {"attention_bias", false},
               {"tie_word_embeddings", true},
               {"vocab_size", 260}};
    json vocabulary = json::object();
    const std::vector<std::string> tokens = TestModel::tokens();
    for (size_t i = 0; i < tokens.size(); ++i) vocabulary[tokens[i]] = i;
    const json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
    put_file(folder_ / "tokenizer.json",
             json{{"pre_tokenizer", byte_level},
                  {"decoder", byte_level},
                  {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b"}}}}}
                 .dump());
    const std::string front = "model.layers.0.";
    const std::pair<std::string, std::vector<int64_t>> shapes[] = {
        {"model.embed_tokens.weight", {260, 16}},
        {"model.norm.weight", {16}},
        {front + "input_layernorm.weight", {16}},
        {front + "self_attn.q_proj.weight", {16, 16}},
        {front + "self_attn.k_proj.weight", {8, 16}},
        {front + "self_attn.v_proj.weight", {8, 16}},
        {front + "self_attn.o_proj.weight", {16, 16}},
        {front + "post_attention_layernorm.weight", {16}},
        {front + "mlp.gate_proj.weight", {24, 16}},
        {front + "mlp.up_proj.weight", {24, 16}},
        {front + "mlp.down_proj.weight", {16, 24}}};
    for (const auto& [name, shape] : shapes) {
      const int64_t count = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
      numbers_.emplace_back(static_cast<size_t>(count), 0.5f);
      views_.push_back({name, "F32", shape, std::as_bytes(std::span(numbers_.back()))});
    }
    write();
  }

  void write() {
    put_file(folder_ / "config.json", config_.dump());
    ASSERT_TRUE(write_safetensors(folder_ / "model.safetensors", {}, views_).ok());
  }

  std::string refusal() {
    write();
    const auto file = read_language_model(folder_.path());
    if (!file.ok()) return file.error().message;
    const auto network = import_language_model(*file, 16);
    return network.ok() ? "accepted" : network.error().message;
  }

  TestFolder folder_;
  json config_;
  std::vector<std::vector<float>> numbers_;
  std::vector<SafetensorsView> views_;
};

TEST_F(LanguageModelFolders, AreImported) {
  EXPECT_TRUE(*is_model_file(folder_.path()));
  EXPECT_EQ(refusal(), "accepted");
  const auto file = read_language_model(folder_.path());
  const auto network = import_language_model(*file, 0);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->parameters.size(), 11u);
  const Graph& graph = network->graph;
  EXPECT_EQ(graph.values[graph.inputs[0]].shape[0], 64);  // as many as it has positions
  EXPECT_NE(import_language_model(*file, 65).error().message.find("64 positions"),
            std::string::npos);
}

TEST_F(LanguageModelFolders, EntriesThatAskForSomethingAreNamed) {
  const json usual = config_;
  const std::tuple<const char*, json, const char*> cases[] = {
      {"hidden_act", "gelu", "hidden_act = \"gelu\""},
      {"attention_bias", true, "attention_bias = true"},
      {"mlp_bias", true, "mlp_bias = true"},
      {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "rope_scaling = "},
      {"sliding_window", 4096, "sliding_window = 4096"},
      {"quantization_config", {{"bits", 4}}, "quantization_config = "},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor = 0.5"},
      {"logits_scaling", 8.0, "logits_scaling = 8.0"},
      {"layer_types", {"full_attention", "sliding_attention"}, "layer_types = "},
      {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 8.0}}, "rope_scaling = "},
      {"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}, "rope_scaling: factor = 0.5"},
      {"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"more", 1}}, "rope_scaling = "},
      {"rope_parameters",
       {{"rope_type", "llama3"},
        {"factor", 8},
        {"low_freq_factor", 4},
        {"high_freq_factor", 1},
        {"original_max_position_embeddings", 8192}},
       "rope_parameters: low_freq_factor is above 0 and below high_freq_factor"},
      {"model_type", "mistral", "model_type = \"mistral\": llama, qwen2, qwen3 and gpt2"},
      {"model_type", "qwen3", "no tensor for model.layers.0.self_attn.q_norm.weight"},
      {"hidden_size", 1 << 30, "hidden_size is no number"},
      {"num_hidden_layers", 1 << 20, "1048576 layers in 11 tensors"},
      {"vocab_size", 259, "of which the network knows 259"},
      {"vocab_size", 300, "and its sizes say [300, 16]"},
      {"tie_word_embeddings", false, "no tensor for lm_head.weight"},
      {"model_type", 3, "another type"}};
  for (const auto& [key, value, part] : cases) {
    config_ = usual;
    config_[key] = value;
    EXPECT_NE(refusal().find(part), std::string::npos) << part << ": " << refusal();
  }
  config_ = usual;
  views_.push_back({"model.layers.0.self_attn.q_norm.weight", "F32", {16}, views_[1].data});
  EXPECT_NE(refusal().find("tensor \"model.layers.N.self_attn.q_norm.weight\""), std::string::npos);
}

TEST_F(LanguageModelFolders, OthersAreNone) {
  config_["model_type"] = "bert";
  config_["architectures"] = {"BertModel"};
  write();
  EXPECT_FALSE(*is_model_file(folder_.path()));
  put_file(folder_ / "config.json", std::string("["));
  EXPECT_FALSE(*is_model_file(folder_.path()));
  EXPECT_FALSE(*is_model_file(folder_ / "model.safetensors"));
  EXPECT_FALSE(*is_model_file(folder_ / "none.onnx"));
  EXPECT_TRUE(*is_model_file(folder_ / "none.gguf"));
}

}  // namespace
}  // namespace mantissa
