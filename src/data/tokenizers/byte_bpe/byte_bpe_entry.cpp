// Byte-level BPE tokenizers as entries of the metadata of our files.
#include <nlohmann/json.hpp>
#include <utility>

#include "data/tokenizers/byte_bpe/byte_bpe_files.h"
#include "data/tokenizers/common/token_files.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

using nlohmann::json;

constexpr const char* kKind = "byte_bpe";

json entry_of(const ChatTemplate& chat) {
  return {{"llama3", chat.kind == ChatTemplate::Kind::kLlama3},
          {"system", chat.system},
          {"always_asks", chat.always_asks}};
}

ChatTemplate chat_of(const json& entry) {
  ChatTemplate chat;
  if (entry.at("llama3").get<bool>()) chat.kind = ChatTemplate::Kind::kLlama3;
  entry.at("system").get_to(chat.system);
  entry.at("always_asks").get_to(chat.always_asks);
  return chat;
}

}  // namespace

std::string to_json(const ByteBpe& tokenizer, const std::optional<ChatTemplate>& chat,
                    const std::string& chat_refused) {
  const ByteBpeOptions& options = tokenizer.options();
  json entry = {{"kind", kKind},
                {"pre_tokenizer", pre_tokenizer_name(options.pre_tokenizer)},
                {"composes", options.composes},
                {"ignores_merges", options.ignores_merges},
                {"first", options.first},
                {"last", options.last},
                {"begin", options.begin},
                {"end", options.end},
                {"padding", options.padding},
                {"tokens", tokenizer.tokens()},
                {"merges", json::array()},
                {"added", json::array()}};
  for (const auto& [left, right] : tokenizer.merges())
    entry["merges"].push_back(left + " " + right);
  for (const AddedToken& token : options.added) entry["added"].push_back(to_json(token));
  if (chat) entry["chat"] = entry_of(*chat);
  if (!chat_refused.empty()) entry["chat_refused"] = chat_refused;
  return entry.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool is_byte_bpe(const std::string& text) {
  const json entry = parse_json(text);
  const auto kind = entry.is_object() ? entry.find("kind") : entry.end();
  return kind != entry.end() && *kind == kKind;
}

Result<ByteBpeEntry> parse_byte_bpe(const std::string& text) {
  try {
    const json entry = parse_json(text);
    ByteBpeOptions options;
    const auto kind = parse_pre_tokenizer(entry.at("pre_tokenizer").get<std::string>());
    if (!kind) return invalid_input("its tokenizer is damaged");
    options.pre_tokenizer = *kind;
    entry.at("composes").get_to(options.composes);
    entry.at("ignores_merges").get_to(options.ignores_merges);
    entry.at("first").get_to(options.first);
    entry.at("last").get_to(options.last);
    entry.at("begin").get_to(options.begin);
    entry.at("end").get_to(options.end);
    entry.at("padding").get_to(options.padding);
    for (const json& token : entry.at("added")) options.added.push_back(added_token(token));
    MANTISSA_ASSIGN(const auto merges, byte_bpe_merges(entry.at("merges")));
    MANTISSA_ASSIGN(ByteBpe tokenizer,
                    ByteBpe::create(entry.at("tokens").get<std::vector<std::string>>(), merges,
                                    std::move(options)));
    std::optional<ChatTemplate> chat;
    if (entry.contains("chat")) chat = chat_of(entry.at("chat"));
    return ByteBpeEntry{std::move(tokenizer), std::move(chat), entry.value("chat_refused", "")};
  } catch (const json::exception&) {
    return invalid_input("its tokenizer is damaged");
  }
}

}  // namespace mantissa
