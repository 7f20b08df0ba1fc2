#include "networks/language/layout_names.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace mantissa {
namespace {

// A tensor of a layer.
struct LayerTensor {
  std::string_view ours, layout, gguf;
};
constexpr LayerTensor kLayerTensors[] = {
    {"norm1.scale", "input_layernorm.weight", "attn_norm.weight"},
    {"query.weights", "self_attn.q_proj.weight", "attn_q.weight"},
    {"key.weights", "self_attn.k_proj.weight", "attn_k.weight"},
    {"value.weights", "self_attn.v_proj.weight", "attn_v.weight"},
    {"query.bias", "self_attn.q_proj.bias", "attn_q.bias"},
    {"key.bias", "self_attn.k_proj.bias", "attn_k.bias"},
    {"value.bias", "self_attn.v_proj.bias", "attn_v.bias"},
    {"project.weights", "self_attn.o_proj.weight", "attn_output.weight"},
    {"norm2.scale", "post_attention_layernorm.weight", "ffn_norm.weight"},
    {"gate.weights", "mlp.gate_proj.weight", "ffn_gate.weight"},
    {"up.weights", "mlp.up_proj.weight", "ffn_up.weight"},
    {"down.weights", "mlp.down_proj.weight", "ffn_down.weight"}};

constexpr LayerTensor kOtherTensors[] = {
    {"embedding.weights", "model.embed_tokens.weight", "token_embd.weight"},
    {"norm.scale", "model.norm.weight", "output_norm.weight"},
    {"classifier.weights", "lm_head.weight", "output.weight"}};

constexpr std::string_view kBlock = "block", kLayers = "model.layers.", kBlk = "blk.";

const LayerTensor* find_tensor_of(std::string_view LayerTensor::*column, std::string_view name,
                        std::span<const LayerTensor> list) {
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

std::string name_in_layout(const std::string& parameter) {
  if (const auto* other = find_tensor_of(&LayerTensor::ours, parameter, kOtherTensors)) {
    return std::string(other->layout);
  }
  std::string_view number, rest;
  if (!divide(kBlock, parameter, number, rest)) return parameter;
  const auto* part = find_tensor_of(&LayerTensor::ours, rest, kLayerTensors);
  if (part == nullptr) return parameter;
  return std::string(kLayers) + std::to_string(std::stoll(std::string(number)) - 1) + "." +
         std::string(part->layout);
}

std::string layout_name_of_gguf(const std::string& tensor) {
  if (const auto* other = find_tensor_of(&LayerTensor::gguf, tensor, kOtherTensors)) {
    return std::string(other->layout);
  }
  std::string_view number, rest;
  if (!divide(kBlk, tensor, number, rest)) return tensor;
  const auto* part = find_tensor_of(&LayerTensor::gguf, rest, kLayerTensors);
  if (part == nullptr) return tensor;
  return std::string(kLayers) + std::string(number) + "." + std::string(part->layout);
}

std::string gguf_name_of_layout(const std::string& name) {
  if (const auto* other = find_tensor_of(&LayerTensor::layout, name, kOtherTensors)) {
    return std::string(other->gguf);
  }
  std::string_view number, rest;
  if (!divide(kLayers, name, number, rest)) return name;
  const auto* part = find_tensor_of(&LayerTensor::layout, rest, kLayerTensors);
  if (part == nullptr) return name;
  return std::string(kBlk) + std::string(number) + "." + std::string(part->gguf);
}

bool is_turned(const std::string& parameter) {
  return parameter.find(".query.") != std::string::npos ||
         parameter.find(".key.") != std::string::npos ||
         parameter.find(".q_proj.") != std::string::npos ||
         parameter.find(".k_proj.") != std::string::npos;
}

}  // namespace mantissa
