// Byte-level BPE tokenizers in the files of other programs: keys of GGUF files, tokenizer.json.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/atomic_file.h"
#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "data/tokenizers/common/token_files.h"

namespace mantissa {
namespace {

using nlohmann::json;

constexpr int32_t kNormalToken = 1, kControlToken = 3, kUserToken = 4, kUnusedToken = 5;

std::string unused_token(size_t number) { return "[unused " + std::to_string(number) + "]"; }

json byte_level(bool divides) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", divides}};
}

json pre_tokenizer_json(PreTokenizer kind) {
  if (kind == PreTokenizer::kGpt2) return byte_level(true);
  if (kind == PreTokenizer::kSmolLm) {
    return {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}}};
  }
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pre_tokenizer_pattern(kind)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(false)}}};
}

// Tokens before and behind each text.
json post_processor_json(const ByteBpe& tokenizer) {
  const ByteBpeOptions& options = tokenizer.options();
  if (options.first < 0 && options.last < 0) return byte_level(true);
  json single = json::array(), special = json::object();
  const auto add = [&](int32_t number) {
    if (number < 0) return;
    const std::string& name = tokenizer.tokens()[static_cast<size_t>(number)];
    single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    special[name] = {{"id", name}, {"ids", {number}}, {"tokens", {name}}};
  };
  add(options.first);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(options.last);
  json pair = single;
  for (json piece : single) {
    if (piece.contains("Sequence")) piece["Sequence"] = {{"id", "B"}, {"type_id", 1}};
    pair.push_back(std::move(piece));
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

json tokenizer_json(const ByteBpe& tokenizer) {
  const ByteBpeOptions& options = tokenizer.options();
  json vocabulary = json::object(), merges = json::array(), added = json::array();
  for (size_t i = 0; i < tokenizer.tokens().size(); ++i) vocabulary[tokenizer.tokens()[i]] = i;
  for (const auto& [left, right] : tokenizer.merges()) merges.push_back({left, right});
  for (const AddedToken& token : options.added) added.push_back(to_json(token));
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", options.composes ? json{{"type", "NFC"}} : json()},
          {"pre_tokenizer", pre_tokenizer_json(options.pre_tokenizer)},
          {"post_processor", post_processor_json(tokenizer)},
          {"decoder", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", options.ignores_merges},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

std::string dumped(const json& value) {
  return value.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

void add_byte_bpe(const ByteBpe& tokenizer, const std::optional<ChatTemplate>& chat,
                  int64_t vocabulary, GgufKeys& keys) {
  const ByteBpeOptions& options = tokenizer.options();
  std::vector<std::string> tokens = tokenizer.tokens(), merges;
  std::vector<int32_t> types(tokens.size(), kNormalToken);
  for (const AddedToken& token : options.added) {
    types[static_cast<size_t>(token.number)] = token.special ? kControlToken : kUserToken;
  }
  while (std::ssize(tokens) < vocabulary) {
    tokens.push_back(unused_token(tokens.size()));
    types.push_back(kUnusedToken);
  }
  for (const auto& [left, right] : tokenizer.merges()) merges.push_back(left + " " + right);
  keys.add_text("tokenizer.ggml.model", "gpt2");
  keys.add_text("tokenizer.ggml.pre", pre_tokenizer_name(options.pre_tokenizer));
  keys.add_texts("tokenizer.ggml.tokens", tokens);
  keys.add_wholes("tokenizer.ggml.token_type", types);
  keys.add_texts("tokenizer.ggml.merges", merges);
  const std::pair<const char*, int32_t> numbers[] = {
      {"bos", options.begin}, {"eos", options.end}, {"padding", options.padding}};
  for (const auto& [role, number] : numbers) {
    if (number < 0) continue;
    keys.add_whole(std::string("tokenizer.ggml.") + role + "_token_id",
                   static_cast<uint32_t>(number));
  }
  keys.add_truth("tokenizer.ggml.add_bos_token", options.first >= 0);
  keys.add_truth("tokenizer.ggml.add_eos_token", options.last >= 0);
  if (chat) keys.add_text("tokenizer.chat_template", to_jinja(*chat));
}

Status write_byte_bpe(const std::filesystem::path& folder, const ByteBpe& tokenizer,
                      const std::optional<ChatTemplate>& chat, int64_t positions) {
  const ByteBpeOptions& options = tokenizer.options();
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"add_prefix_space", false},
                 {"clean_up_tokenization_spaces", false},
                 {"model_max_length", positions}};
  const std::pair<const char*, int32_t> roles[] = {{"bos_token", options.begin},
                                                   {"eos_token", options.end},
                                                   {"pad_token", options.padding}};
  for (const auto& [role, number] : roles) {
    if (number >= 0) config[role] = tokenizer.tokens()[static_cast<size_t>(number)];
  }
  if (chat) config["chat_template"] = to_jinja(*chat);
  MANTISSA_RETURN_IF_ERROR(
      write_text_atomically(folder / "tokenizer.json", dumped(tokenizer_json(tokenizer))));
  return write_text_atomically(folder / "tokenizer_config.json", dumped(config));
}

}  // namespace mantissa
