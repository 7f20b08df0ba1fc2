// For tests: small language models of each family as GGUF files, with pseudo-random weights.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/byte_bpe/byte_alphabet.h"
#include "formats/gguf/test_gguf.h"

namespace mantissa {

// Two layers of 16 channels, four heads of four, two of keys and values, 260 tokens.
class TestModel {
 public:
  static constexpr uint64_t kChannels = 16, kInner = 24, kKeys = 8, kTokens = 260;
  static constexpr int kLayers = 2;

  // Uniform in [-scale, scale), by a generator that Python can repeat.
  std::vector<float> numbers(uint64_t count, float scale, float offset = 0) {
    std::vector<float> list;
    for (uint64_t i = 0; i < count; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      const float unit = static_cast<float>(state_ >> 8) / 8388608.0f - 1.0f;
      list.push_back(offset + scale * unit);
    }
    return list;
  }

  static std::vector<std::string> tokens() {
    std::vector<std::string> list;
    for (int byte = 0; byte < 256; ++byte) {
      list.push_back(character_of_byte(static_cast<uint8_t>(byte)));
    }
    for (const char* token : {"<|im_start|>", "<|im_end|>", "ab", "unused"}) list.push_back(token);
    return list;
  }

  // The keys of the network.
  static GgufBytes keys(const std::string& architecture = "llama") {
    GgufBytes file;
    const std::string front = architecture + ".";
    file.add_text("general.architecture", architecture)
        .add_text("general.name", "A small one")
        .add_whole(front + "block_count", kLayers)
        .add_whole(front + "context_length", 64)
        .add_whole(front + "embedding_length", kChannels)
        .add_whole(front + "feed_forward_length", kInner)
        .add_whole(front + "attention.head_count", 4)
        .add_whole(front + "attention.head_count_kv", 2)
        .add_real(front + "rope.freq_base", 100)
        .add_real(front + "attention.layer_norm_rms_epsilon", 1e-5f);
    return file;
  }

  static void add_tokenizer(GgufBytes& file, const std::string& pre = "smollm") {
    std::vector<int32_t> types(tokens().size(), 1);
    types[256] = types[257] = 3;
    file.add_text("tokenizer.ggml.model", "gpt2")
        .add_text("tokenizer.ggml.pre", pre)
        .add_texts("tokenizer.ggml.tokens", tokens())
        .add_wholes("tokenizer.ggml.token_type", types)
        .add_texts("tokenizer.ggml.merges", {"a b"})
        .add_whole("tokenizer.ggml.eos_token_id", 257);
  }

  // The norms of Qwen3's heads.
  void add_head_norms(GgufBytes& file) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string front = "blk." + std::to_string(layer) + ".";
      add(file, front + "attn_q_norm.weight", {kChannels / 4}, 0.5f, 1);
      add(file, front + "attn_k_norm.weight", {kChannels / 4}, 0.5f, 1);
    }
  }

  // A network in GPT-2's layout with a table of 64 positions.
  static GgufBytes gpt2() {
    GgufBytes file;
    file.add_text("general.architecture", "gpt2")
        .add_whole("gpt2.block_count", kLayers)
        .add_whole("gpt2.context_length", 64)
        .add_whole("gpt2.embedding_length", kChannels)
        .add_whole("gpt2.feed_forward_length", kInner)
        .add_whole("gpt2.attention.head_count", 4)
        .add_real("gpt2.attention.layer_norm_epsilon", 1e-5f);
    add_tokenizer(file, "gpt-2");
    TestModel().add_gpt2_tensors(file);
    return file;
  }

  void add_gpt2_tensors(GgufBytes& file) {
    const auto both = [&](const std::string& name, const std::vector<uint64_t>& dims, bool is_norm) {
      add(file, name + ".weight", dims, is_norm ? 0.5f : 0.8f, is_norm ? 1 : 0);
      add(file, name + ".bias", {dims.back()}, 0.3f);
    };
    add(file, "token_embd.weight", {kChannels, kTokens}, 1);
    add(file, "position_embd.weight", {kChannels, 64}, 0.5f);
    both("output_norm", {kChannels}, true);
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string front = "blk." + std::to_string(layer) + ".";
      both(front + "attn_norm", {kChannels}, true);
      both(front + "attn_qkv", {kChannels, 3 * kChannels}, false);
      both(front + "attn_output", {kChannels, kChannels}, false);
      both(front + "ffn_norm", {kChannels}, true);
      both(front + "ffn_up", {kChannels, kInner}, false);
      both(front + "ffn_down", {kInner, kChannels}, false);
    }
  }

  // A file of a family by its name.
  static GgufBytes of(const std::string& family) {
    if (family == "gpt2") return gpt2();
    GgufBytes file = keys(family);
    add_tokenizer(file);
    TestModel().add_tensors(file);
    if (family == "qwen3") TestModel().add_head_norms(file);
    return file;
  }

  // All tensors, with the classifier tied to the embedding.
  void add_tensors(GgufBytes& file) {
    add(file, "token_embd.weight", {kChannels, kTokens}, 1);
    add(file, "output_norm.weight", {kChannels}, 0.5f, 1);
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string front = "blk." + std::to_string(layer) + ".";
      add(file, front + "attn_norm.weight", {kChannels}, 0.5f, 1);
      add(file, front + "attn_q.weight", {kChannels, kChannels}, 0.8f);
      add(file, front + "attn_k.weight", {kChannels, kKeys}, 0.8f);
      add(file, front + "attn_v.weight", {kChannels, kKeys}, 0.8f);
      add(file, front + "attn_output.weight", {kChannels, kChannels}, 0.8f);
      add(file, front + "ffn_norm.weight", {kChannels}, 0.5f, 1);
      add(file, front + "ffn_gate.weight", {kChannels, kInner}, 0.8f);
      add(file, front + "ffn_up.weight", {kChannels, kInner}, 0.8f);
      add(file, front + "ffn_down.weight", {kInner, kChannels}, 0.8f);
    }
  }

  static GgufBytes whole() { return of("llama"); }

 private:
  void add(GgufBytes& file, const std::string& name, const std::vector<uint64_t>& dims, float scale,
           float offset = 0) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    file.add_floats(name, dims, numbers(count, scale, offset));
  }

  uint32_t state_ = 1;
};

}  // namespace mantissa
