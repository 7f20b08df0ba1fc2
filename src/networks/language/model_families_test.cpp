// The families of language models: what their files become, scaled positions, and the way back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files/atomic_file.h"
#include "base/test_folder.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "formats/arrays/safetensors.h"
#include "formats/gguf/gguf.h"
#include "models/json/network_json.h"
#include "networks/adapters.h"
#include "networks/imported_network.h"
#include "networks/language/model_file.h"
#include "networks/language/rotary_scaling.h"
#include "networks/language/test_model.h"
#include "networks/language/written_model.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/sequences/angles.h"

namespace mantissa {
namespace {

class ModelFamilies : public testing::Test {
 protected:
  Result<onnx::ImportedNetwork> import_from(const std::filesystem::path& path) {
    MANTISSA_ASSIGN(const LanguageModelFile file, read_language_model(path));
    return import_language_model(file, 16);
  }
  Result<onnx::ImportedNetwork> import_bytes(const GgufBytes& bytes) {
    put_file(folder_ / "source.gguf", bytes.bytes());
    return import_from(folder_ / "source.gguf");
  }
  std::string refusal(const GgufBytes& bytes) {
    const auto network = import_bytes(bytes);
    return network.ok() ? "accepted" : network.error().message;
  }

  // Written as both kinds of files, the network comes back with the same numbers.
  void expect_both_ways(const onnx::ImportedNetwork& network, const std::string& architecture) {
    const std::vector<NamedParameter> parameters = named_parameters(network);
    auto model = written_model(network.graph, parameters);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->architecture, architecture);
    const auto source = read_language_model(folder_ / "source.gguf");
    model->tokenizer = &*source->tokenizer;
    ASSERT_TRUE(write_gguf_model(folder_ / "out.gguf", *model, "again", WeightType::kF32).ok());
    const auto written = write_model_folder(folder_ / "out", *model, WeightType::kF32);
    ASSERT_TRUE(written.ok()) << written.error().message;
    for (const char* path : {"out.gguf", "out"}) {
      const auto again = import_from(folder_ / path);
      ASSERT_TRUE(again.ok()) << path << ": " << again.error().message;
      EXPECT_EQ(to_json(again->graph), to_json(network.graph)) << path;
      ASSERT_EQ(again->parameters.size(), network.parameters.size());
      for (size_t i = 0; i < network.parameters.size(); ++i) {
        EXPECT_EQ(again->parameters[i].floats, network.parameters[i].floats)
            << path << ": " << network.parameters[i].name;
      }
    }
  }

  TestFolder folder_;
};

const Node& node_called(const Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.nodes, name, &Node::name);
}

const WholeList& factors_of(const onnx::ImportedNetwork& network) {
  return node_called(network.graph, "block2.turned_key")
      .attributes.as<ops::RotaryAttributes>()
      .factors;
}

TEST_F(ModelFamilies, Qwen3HasNormsWithinHeads) {
  const auto network = import_bytes(TestModel::of("qwen3"));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->graph.name, "qwen3_lm");
  EXPECT_EQ(network->parameters.size(), 24u);
  const Node& norm = node_called(network->graph, "block1.key_norm");
  EXPECT_EQ(norm.op, &ops::kRmsNorm);
  EXPECT_EQ(norm.attributes.as<ops::RowNormAttributes>().heads, 2);
  const Parameter& scale = network->graph.parameters[static_cast<size_t>(norm.parameters[0])];
  EXPECT_EQ(scale.shape, Shape{4});
  const auto file = read_language_model(folder_ / "source.gguf");
  EXPECT_NE(describe(*file)[1].find("4 heads of 4, 2 of keys and values, with norms;"),
            std::string::npos);
  expect_both_ways(*network, "qwen3");
  // Biases of queries are Qwen2's.
  GgufBytes biased = TestModel::of("qwen3");
  biased.add_floats("blk.0.attn_q.bias", {16}, std::vector<float>(16, 1));
  EXPECT_NE(refusal(biased).find("tensor \"blk.N.attn_q.bias\""), std::string::npos);
}

TEST_F(ModelFamilies, Gpt2HasItsTableAndOneLayerForThreeValues) {
  const auto network = import_bytes(TestModel::gpt2());
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->graph.name, "gpt2_lm");
  EXPECT_EQ(network->parameters.size(), 28u);
  const GgufFile file = *GgufFile::open(folder_ / "source.gguf");
  for (const onnx::ImportedParameter& parameter : network->parameters) {
    const char* const theirs = parameter.name == "block2.qkv.weights"   ? "blk.1.attn_qkv.weight"
                               : parameter.name == "positions.weights"  ? "position_embd.weight"
                               : parameter.name == "block1.norm2.offset" ? "blk.0.ffn_norm.bias"
                                                                        : nullptr;
    if (theirs == nullptr) continue;
    EXPECT_EQ(parameter.floats, *file.floats(*file.find_tensor(theirs)));
  }
  const auto model = read_language_model(folder_ / "source.gguf");
  EXPECT_EQ(describe(*model)[1],
            "2 layers of 16 channels, 24 of inner layers; 4 heads; a table of positions, epsilon "
            "1e-05; 64 positions");
  EXPECT_NE(import_language_model(*model, 65).error().message.find("64 positions"),
            std::string::npos);
  expect_both_ways(*network, "gpt2");
  // Folders have the matrices of Conv1D as [inputs, outputs].
  const auto written = read_safetensors(folder_ / "out" / "model.safetensors");
  EXPECT_EQ(written->find("transformer.h.0.attn.c_attn.weight")->shape,
            (std::vector<int64_t>{16, 48}));
  EXPECT_EQ(written->find("transformer.wpe.weight")->shape, (std::vector<int64_t>{64, 16}));
}

// Names of a folder may lack "transformer.", and there may be masks.
TEST_F(ModelFamilies, Gpt2FoldersHaveTwoKindsOfNames) {
  const auto network = import_bytes(TestModel::gpt2());
  const std::vector<NamedParameter> parameters = named_parameters(*network);
  auto model = written_model(network->graph, parameters);
  const auto source = read_language_model(folder_ / "source.gguf");
  model->tokenizer = &*source->tokenizer;
  ASSERT_TRUE(write_model_folder(folder_ / "out", *model, WeightType::kF32).ok());
  const auto written = read_safetensors(folder_ / "out" / "model.safetensors");
  const std::vector<float> mask(64 * 64, 1);
  std::vector<SafetensorsView> views;
  for (const SafetensorsTensor& tensor : written->tensors) {
    views.push_back({tensor.name.substr(std::string("transformer.").size()), tensor.dtype,
                     tensor.shape, tensor.data});
  }
  views.push_back({"h.0.attn.bias", "F32", {1, 1, 64, 64}, std::as_bytes(std::span(mask))});
  const auto write = [&] {
    ASSERT_TRUE(write_safetensors(folder_ / "out" / "model.safetensors", {}, views).ok());
  };
  write();
  const auto again = import_from(folder_ / "out");
  ASSERT_TRUE(again.ok()) << again.error().message;
  for (size_t i = 0; i < network->parameters.size(); ++i) {
    EXPECT_EQ(again->parameters[i].floats, network->parameters[i].floats);
  }
  // The same tensor under both names.
  views.push_back({"transformer." + views[0].name, views[0].dtype, views[0].shape, views[0].data});
  write();
  EXPECT_NE(import_from(folder_ / "out").error().message.find("with and without 'transformer.'"),
            std::string::npos);
  views.pop_back();
  views.back().shape = {64, 64};
  write();
  EXPECT_NE(import_from(folder_ / "out").error().message.find("tensor \"h.N.attn.bias\""),
            std::string::npos);
}

TEST_F(ModelFamilies, Gpt2RefusesByName) {
  const auto with = [&](const auto& change) {
    GgufBytes file = TestModel::gpt2();
    change(file);
    return refusal(file);
  };
  EXPECT_NE(with([](GgufBytes& f) { f.add_real("gpt2.rope.freq_base", 100); })
                .find("gpt2.rope.freq_base = 100"),
            std::string::npos);
  EXPECT_NE(with([](GgufBytes& f) {
              f.tensor_list.replace(f.tensor_list.find("position_embd"), 13, "position_none");
            }).find("no tensor position_embd.weight"),
            std::string::npos);
  const auto network = import_bytes(TestModel::gpt2());
  const std::vector<NamedParameter> parameters = named_parameters(*network);
  auto model = written_model(network->graph, parameters);
  const auto source = read_language_model(folder_ / "source.gguf");
  model->tokenizer = &*source->tokenizer;
  ASSERT_TRUE(write_model_folder(folder_ / "out", *model, WeightType::kF32).ok());
  const auto text = read_file(folder_ / "out" / "config.json", 1 << 20);
  const auto config = nlohmann::json::parse(
      std::string(reinterpret_cast<const char*>(text->data()), text->size()));
  const std::tuple<const char*, nlohmann::json, const char*> cases[] = {
      {"activation_function", "relu", "activation_function = \"relu\""},
      {"scale_attn_weights", false, "scale_attn_weights = false"},
      {"scale_attn_by_inverse_layer_idx", true, "scale_attn_by_inverse_layer_idx = true"},
      {"rope_scaling", {{"type", "linear"}, {"factor", 2}}, "rope_scaling = "},
      {"n_positions", 65, "and its sizes say [65, 16]"},
      {"n_head", 5, "heads"},
      {"n_layer", 1 << 20, "1048576 layers in 28 tensors"}};
  for (const auto& [key, value, part] : cases) {
    nlohmann::json changed = config;
    changed[key] = value;
    put_file(folder_ / "out" / "config.json", changed.dump());
    const auto again = import_from(folder_ / "out");
    ASSERT_FALSE(again.ok()) << key;
    EXPECT_NE(again.error().message.find(part), std::string::npos) << again.error().message;
  }
}

TEST_F(ModelFamilies, ScaledPositionsOfGgufFiles) {
  const auto factors = [&](const std::string& family, const auto& change) {
    GgufBytes file = TestModel::of(family);
    change(file);
    const auto network = import_bytes(file);
    EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
    if (network.ok()) expect_both_ways(*network, family);
    return network.ok() ? factors_of(*network) : WholeList{-1};
  };
  constexpr int64_t kOne = ops::kFactorUnit;
  EXPECT_EQ(factors("llama", [](GgufBytes&) {}), WholeList());
  for (const std::string family : {"llama", "qwen3"}) {
    EXPECT_EQ(factors(family, [&](GgufBytes& f) {
                f.add_text(family + ".rope.scaling.type", "linear");
                f.add_real(family + ".rope.scaling.factor", 2.5f);
              }),
              WholeList{kOne * 5 / 2});
  }
  EXPECT_EQ(factors("llama", [](GgufBytes& f) { f.add_real("llama.rope.scaling.factor", 4); }),
            WholeList{4 * kOne});
  EXPECT_EQ(factors("llama",
                    [](GgufBytes& f) {
                      f.add_text("llama.rope.scaling.type", "none");
                      f.add_real("llama.rope.scaling.factor", 4);
                    }),
            WholeList());
  EXPECT_EQ(factors("llama", [](GgufBytes& f) { f.add_floats("rope_freqs.weight", {2}, {8, 8}); }),
            WholeList{8 * kOne});
  const auto network = import_bytes([] {
    GgufBytes file = TestModel::whole();
    file.add_floats("rope_freqs.weight", {2}, {1, 31.7f});
    return file;
  }());
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(factors_of(*network), (WholeList{kOne, std::llrint(std::ldexp(31.7f, 23))}));
  EXPECT_NE(describe(*read_language_model(folder_ / "source.gguf"))[1].find(
                "rotary base 100, angles divided by up to 31.7, epsilon"),
            std::string::npos);
  // Only files of llama have a tensor of factors, and only Llama 3's rule is in folders.
  EXPECT_NE(refusal([] {
              GgufBytes file = TestModel::of("qwen3");
              file.add_floats("rope_freqs.weight", {2}, {1, 8});
              return file;
            }()).find("tensor \"rope_freqs.weight\""),
            std::string::npos);
}

// The rule of transformers (modeling_rope_utils.py): a network with four pairs and more.
TEST_F(ModelFamilies, Llama3sRuleGoesBothWays) {
  DecoderSizes sizes = {.channels = 32,
                        .heads = 2,
                        .key_heads = 1,
                        .head_channels = 64,
                        .inner = 24,
                        .vocabulary = 260,
                        .rotary_base = 500000,
                        .epsilon = 1e-5f};  // as GGUF files have it
  const Llama3Scaling rules[] = {{8, 1, 4, 8192}, {32, 1, 4, 8192}, {3.7, 1, 2.3, 1000},
                                 {5, 2, 8, 4096}, {1.5, 1, 64, 100000}};
  for (const Llama3Scaling& rule : rules) {
    const auto factors = llama3_factors(rule, 32, sizes.rotary_base);
    ASSERT_TRUE(factors.ok());
    ASSERT_EQ(factors->size(), 32u);
    for (size_t i = 0; i < 32; ++i) {
      const double inverse = std::pow(sizes.rotary_base, -static_cast<double>(i) / 32);
      const double wavelength = 2 * std::acos(-1.0) / inverse;
      double wanted = 1;
      if (wavelength > rule.positions / rule.low) {
        wanted = rule.factor;
      } else if (wavelength > rule.positions / rule.high) {
        const double smooth =
            (rule.positions / wavelength - rule.low) / (rule.high - rule.low);
        wanted = 1 / ((1 - smooth) / rule.factor + smooth);
      }
      EXPECT_NEAR(real_factor((*factors)[i]), wanted, 1e-6 * wanted) << i;
    }
    const auto found = llama3_scaling(*factors, sizes.rotary_base);
    ASSERT_TRUE(found.has_value()) << rule.factor;
    EXPECT_NEAR(found->positions / found->low, rule.positions / rule.low, 1e-3 * rule.positions);
    EXPECT_NEAR(found->high / found->low, rule.high / rule.low, 1e-3 * rule.high);
  }
  const auto first = llama3_scaling(*llama3_factors(rules[1], 32, 500000), 500000);
  EXPECT_EQ(first->positions, 8192);
  EXPECT_EQ(first->high, 4);
  WholeList others = *llama3_factors(rules[0], 32, 500000);
  std::swap(others[3], others[25]);
  EXPECT_FALSE(llama3_scaling(others, 500000).has_value());

  // A whole network, into both kinds of files; factors by no rule into one.
  ASSERT_TRUE(import_bytes(TestModel::whole()).ok());
  sizes.rotary_factors = *llama3_factors(rules[1], 32, sizes.rotary_base);
  for (const bool is_a_rule : {true, false}) {
    if (!is_a_rule) std::swap(sizes.rotary_factors[3], sizes.rotary_factors[25]);
    onnx::ImportedNetwork network;
    network.graph = *decoder_lm("llama_lm", sizes, 16);
    TestModel random;
    for (const Parameter& p : network.graph.parameters) {
      network.parameters.push_back(
          {p.name, p.shape, random.numbers(static_cast<uint64_t>(p.shape.count()), 1), {}});
    }
    if (is_a_rule) {
      expect_both_ways(network, "llama");
      continue;
    }
    const std::vector<NamedParameter> parameters = named_parameters(network);
    const auto model = written_model(network.graph, parameters);
    EXPECT_TRUE(write_gguf_model(folder_ / "a.gguf", *model, "a", WeightType::kF32).ok());
    const auto refused = write_model_folder(folder_ / "no", *model, WeightType::kF32);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("not by Llama 3's rule"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "no"));
  }
  sizes.query_bias = true;
  onnx::ImportedNetwork qwen;
  qwen.graph = *decoder_lm("qwen2_lm", sizes, 16);
  for (const Parameter& p : qwen.graph.parameters) {
    qwen.parameters.push_back({p.name, p.shape, std::vector<float>(p.shape.count(), 1), {}});
  }
  const std::vector<NamedParameter> parameters = named_parameters(qwen);
  const auto model = written_model(qwen.graph, parameters);
  const auto refused = write_gguf_model(folder_ / "no.gguf", *model, "a", WeightType::kF32);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("GGUF files of qwen2 have not"), std::string::npos);
}

// The network is imported; who asks for conversations is told why there are none.
TEST_F(ModelFamilies, AChatTemplateThatIsNotKnownIsANote) {
  GgufBytes file = TestModel::keys();
  file.add_text("tokenizer.chat_template", "{%- if tools %}{{ messages }}");
  TestModel::add_tokenizer(file);
  TestModel().add_tensors(file);
  const auto network = import_bytes(file);
  ASSERT_TRUE(network.ok()) << network.error().message;
  ASSERT_EQ(network->notes.size(), 1u);
  EXPECT_NE(network->notes[0].find("is not taken over, and the network goes on with texts alone: "
                                   "tokenizer.chat_template: \"{%- if tools %}"),
            std::string::npos)
      << network->notes[0];
  const auto model = read_language_model(folder_ / "source.gguf");
  EXPECT_TRUE(model->lacks.empty());
  EXPECT_NE(describe(*model)[4].find("no chat template that is known: "), std::string::npos);
  const auto entry = parse_byte_bpe(*tokenizer_entry(*model));
  EXPECT_FALSE(entry->chat.has_value());
  EXPECT_EQ(entry->chat_refused, model->chat_refused);
}

// PEFT finds layers by the ends of their names: GPT-2 has two called c_proj.
TEST_F(ModelFamilies, AdaptersOfGpt2HaveWholeNames) {
  const auto plain = import_bytes(TestModel::gpt2());
  const Graph adapted = *with_adapters(plain->graph, {.rank = 2, .on = "qkv,project"});
  TestModel random;
  std::vector<std::vector<float>> numbers;
  std::vector<NamedParameter> parameters;
  for (const Parameter& p : adapted.parameters) {
    numbers.push_back(random.numbers(static_cast<uint64_t>(p.shape.count()), 1));
    parameters.push_back({.name = p.name,
                          .type = DataType::kFloat,
                          .shape = p.shape,
                          .numbers = std::as_bytes(std::span(numbers.back()))});
  }
  const auto written = write_adapters(folder_ / "peft", adapted, parameters, "");
  ASSERT_TRUE(written.ok()) << written.error().message;
  const auto text = read_file(folder_ / "peft" / "adapter_config.json", 1 << 20);
  const auto config = nlohmann::json::parse(
      std::string(reinterpret_cast<const char*>(text->data()), text->size()));
  EXPECT_EQ(config["target_modules"], (nlohmann::json{"attn.c_attn", "attn.c_proj"}));
  EXPECT_EQ(config["fan_in_fan_out"], true);
  const auto tensors = read_safetensors(folder_ / "peft" / "adapter_model.safetensors");
  const auto* b =
      tensors->find("base_model.model.transformer.h.1.attn.c_attn.lora_B.weight");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{48, 2}));
}

}  // namespace
}  // namespace mantissa
