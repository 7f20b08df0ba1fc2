#include "networks/language/layout_names.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace mantissa {
namespace {

// A tensor, of a layer or of the whole network.
struct TensorNames {
  std::string_view ours, layout, gguf;
};
constexpr TensorNames kLlamaLayers[] = {
    {"norm1.scale", "input_layernorm.weight", "attn_norm.weight"},
    {"query.weights", "self_attn.q_proj.weight", "attn_q.weight"},
    {"key.weights", "self_attn.k_proj.weight", "attn_k.weight"},
    {"value.weights", "self_attn.v_proj.weight", "attn_v.weight"},
    {"query.bias", "self_attn.q_proj.bias", "attn_q.bias"},
    {"key.bias", "self_attn.k_proj.bias", "attn_k.bias"},
    {"value.bias", "self_attn.v_proj.bias", "attn_v.bias"},
    {"query_norm.scale", "self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"key_norm.scale", "self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"project.weights", "self_attn.o_proj.weight", "attn_output.weight"},
    {"norm2.scale", "post_attention_layernorm.weight", "ffn_norm.weight"},
    {"gate.weights", "mlp.gate_proj.weight", "ffn_gate.weight"},
    {"up.weights", "mlp.up_proj.weight", "ffn_up.weight"},
    {"down.weights", "mlp.down_proj.weight", "ffn_down.weight"}};
constexpr TensorNames kLlamaOthers[] = {
    {"embedding.weights", "model.embed_tokens.weight", "token_embd.weight"},
    {"norm.scale", "model.norm.weight", "output_norm.weight"},
    {"classifier.weights", "lm_head.weight", "output.weight"}};

constexpr TensorNames kGpt2Layers[] = {
    {"norm1.scale", "ln_1.weight", "attn_norm.weight"},
    {"norm1.offset", "ln_1.bias", "attn_norm.bias"},
    {"qkv.weights", "attn.c_attn.weight", "attn_qkv.weight"},
    {"qkv.bias", "attn.c_attn.bias", "attn_qkv.bias"},
    {"project.weights", "attn.c_proj.weight", "attn_output.weight"},
    {"project.bias", "attn.c_proj.bias", "attn_output.bias"},
    {"norm2.scale", "ln_2.weight", "ffn_norm.weight"},
    {"norm2.offset", "ln_2.bias", "ffn_norm.bias"},
    {"linear1.weights", "mlp.c_fc.weight", "ffn_up.weight"},
    {"linear1.bias", "mlp.c_fc.bias", "ffn_up.bias"},
    {"linear2.weights", "mlp.c_proj.weight", "ffn_down.weight"},
    {"linear2.bias", "mlp.c_proj.bias", "ffn_down.bias"}};
constexpr TensorNames kGpt2Others[] = {
    {"embedding.weights", "transformer.wte.weight", "token_embd.weight"},
    {"positions.weights", "transformer.wpe.weight", "position_embd.weight"},
    {"norm.scale", "transformer.ln_f.weight", "output_norm.weight"},
    {"norm.offset", "transformer.ln_f.bias", "output_norm.bias"},
    {"classifier.weights", "lm_head.weight", "output.weight"}};

struct LayoutNames {
  std::string_view layers;  // before a layer's number
  std::span<const TensorNames> of_layer, others;
};
constexpr LayoutNames kLlamaNames = {"model.layers.", kLlamaLayers, kLlamaOthers};
constexpr LayoutNames kGpt2Names = {"transformer.h.", kGpt2Layers, kGpt2Others};

const LayoutNames& names_of(DecoderLayout layout) {
  return layout == DecoderLayout::kLlama ? kLlamaNames : kGpt2Names;
}

constexpr std::string_view kBlock = "block", kBlk = "blk.";

const TensorNames* find_tensor_of(std::string_view TensorNames::*column, std::string_view name,
                                  std::span<const TensorNames> list) {
  const auto found = std::ranges::find(list, name, column);
  return found == list.end() ? nullptr : &*found;
}

// Of "FRONT7.REST": the number, and the rest.
bool divide(std::string_view front, std::string_view name, std::string_view& number,
            std::string_view& rest) {
  if (!name.starts_with(front)) return false;
  name.remove_prefix(front.size());
  const size_t point = name.find('.');
  constexpr size_t kMostDigits = 9;
  if (point == 0 || point == std::string_view::npos || point > kMostDigits) return false;
  number = name.substr(0, point);
  rest = name.substr(point + 1);
  return std::ranges::all_of(number, [](char c) { return '0' <= c && c <= '9'; });
}

}  // namespace

std::string name_in_layout(DecoderLayout layout, const std::string& parameter) {
  const LayoutNames& names = names_of(layout);
  if (const auto* other = find_tensor_of(&TensorNames::ours, parameter, names.others)) {
    return std::string(other->layout);
  }
  std::string_view number, rest;
  if (!divide(kBlock, parameter, number, rest)) return parameter;
  const auto* part = find_tensor_of(&TensorNames::ours, rest, names.of_layer);
  if (part == nullptr) return parameter;
  return std::string(names.layers) + std::to_string(std::stoll(std::string(number)) - 1) + "." +
         std::string(part->layout);
}

std::string layout_name_of_gguf(DecoderLayout layout, const std::string& tensor) {
  const LayoutNames& names = names_of(layout);
  if (const auto* other = find_tensor_of(&TensorNames::gguf, tensor, names.others)) {
    return std::string(other->layout);
  }
  std::string_view number, rest;
  if (!divide(kBlk, tensor, number, rest)) return tensor;
  const auto* part = find_tensor_of(&TensorNames::gguf, rest, names.of_layer);
  if (part == nullptr) return tensor;
  return std::string(names.layers) + std::string(number) + "." + std::string(part->layout);
}

std::string gguf_name_of_layout(DecoderLayout layout, const std::string& name) {
  const LayoutNames& names = names_of(layout);
  if (const auto* other = find_tensor_of(&TensorNames::layout, name, names.others)) {
    return std::string(other->gguf);
  }
  std::string_view number, rest;
  if (!divide(names.layers, name, number, rest)) return name;
  const auto* part = find_tensor_of(&TensorNames::layout, rest, names.of_layer);
  if (part == nullptr) return name;
  return std::string(kBlk) + std::string(number) + "." + std::string(part->gguf);
}

bool is_turned(const std::string& parameter) {
  return parameter.find(".query.") != std::string::npos ||
         parameter.find(".key.") != std::string::npos ||
         parameter.find(".q_proj.") != std::string::npos ||
         parameter.find(".k_proj.") != std::string::npos;
}

bool is_transposed_in_folders(DecoderLayout layout, const std::string& name) {
  constexpr std::string_view kConv1D[] = {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"};
  return layout == DecoderLayout::kGpt2 &&
         std::ranges::any_of(kConv1D, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace mantissa
