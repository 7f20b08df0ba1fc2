#include "data/tokenizers/byte_bpe/chat_template.h"

#include <algorithm>
#include <optional>

#include "formats/json_tree.h"

namespace mantissa {
namespace {

// The programs, with line ends as such. A system turn stands between the two parts of the first.
constexpr std::string_view kChatMlBefore =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\n";
constexpr std::string_view kChatMlAfter = "<|im_end|>\n' }}{% endif %}";
constexpr std::string_view kChatMlLoop = "{% for message in messages %}";
constexpr std::string_view kChatMlRest =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr std::string_view kMayAsk =
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}"
    "{% endif %}";
constexpr std::string_view kLlama3 =
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim "
    "+ '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}";
constexpr std::string_view kLlama3Asks =
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}";

std::string with_line_ends(std::string_view jinja) {
  std::string text;
  for (size_t at = 0; at < jinja.size(); ++at) {
    const bool is_written = jinja.substr(at).starts_with("\\n");
    text += is_written ? '\n' : jinja[at];
    at += is_written;
  }
  while (text.ends_with('\n')) text.pop_back();  // of a file
  return text;
}

// The system turn of a ChatML program that has one.
std::optional<std::string> system_turn(std::string_view text) {
  const size_t ends = kChatMlAfter.size() + kChatMlRest.size();
  const bool has_form = text.starts_with(kChatMlBefore) && text.ends_with(kChatMlRest) &&
                        text.size() > kChatMlBefore.size() + ends;
  if (!has_form) return std::nullopt;
  text.remove_prefix(kChatMlBefore.size());
  text.remove_suffix(kChatMlRest.size());
  if (!text.ends_with(kChatMlAfter)) return std::nullopt;
  text.remove_suffix(kChatMlAfter.size());
  // A quote would end the text within the program.
  if (text.find_first_of("'\\{}") != std::string_view::npos) return std::nullopt;
  return std::string(text);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kWhite = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kWhite);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhite) - begin + 1);
}

constexpr const char* kAssistant = "assistant";
constexpr std::string_view kChatMlEnd = "<|im_end|>", kLlama3End = "<|eot_id|>";

std::optional<int32_t> token_named(const ByteBpe& tokenizer, std::string_view name) {
  const auto& tokens = tokenizer.tokens();
  const auto found = std::find(tokens.begin(), tokens.end(), name);
  if (found == tokens.end()) return std::nullopt;
  return static_cast<int32_t>(found - tokens.begin());
}

// Tokens of texts and of special tokens, one after the other. Texts beside each other are one; with
// `marks_answers` an answer is a text of its own.
class ChatEncoder {
 public:
  ChatEncoder(const ByteBpe& tokenizer, bool marks_answers)
      : tokenizer_(tokenizer), marks_answers_(marks_answers) {}

  // From here on tokens are an answer's, or not.
  Status mark(bool is_answer) {
    if (!marks_answers_) return {};
    MANTISSA_RETURN_IF_ERROR(end_text());
    is_answer_ = is_answer;
    return {};
  }

  void add_text(std::string_view text) { text_ += text; }

  Status add_special(std::string_view token) {
    MANTISSA_RETURN_IF_ERROR(end_text());
    const auto found = token_named(tokenizer_, token);
    if (!found) {
      return invalid_input("the tokenizer lacks " + std::string(token) +
                           ", which the chat template wants");
    }
    add({&*found, 1});
    return {};
  }

  Result<AnsweredChat> finish() {
    MANTISSA_RETURN_IF_ERROR(end_text());
    return std::move(encoded_);
  }

 private:
  Status end_text() {
    MANTISSA_ASSIGN(const std::vector<int32_t> tokens,
                    tokenizer_.encode(text_, ByteBpe::Special::kAreText));
    add(tokens);
    text_.clear();
    return {};
  }

  void add(std::span<const int32_t> tokens) {
    encoded_.tokens.insert(encoded_.tokens.end(), tokens.begin(), tokens.end());
    encoded_.answers.resize(encoded_.tokens.size(), is_answer_);
  }

  const ByteBpe& tokenizer_;
  bool marks_answers_, is_answer_ = false;
  std::string text_;
  AnsweredChat encoded_;
};

Status add_chat_ml(ChatEncoder& encoder, const ChatTurn& turn, bool is_open = false) {
  MANTISSA_RETURN_IF_ERROR(encoder.add_special("<|im_start|>"));
  encoder.add_text(turn.role + "\n");
  MANTISSA_RETURN_IF_ERROR(encoder.mark(turn.role == kAssistant));
  encoder.add_text(turn.text);
  if (is_open) return {};
  MANTISSA_RETURN_IF_ERROR(encoder.add_special(kChatMlEnd));
  MANTISSA_RETURN_IF_ERROR(encoder.mark(false));
  encoder.add_text("\n");
  return {};
}

Status add_llama3(ChatEncoder& encoder, const ChatTurn& turn, bool is_open = false) {
  MANTISSA_RETURN_IF_ERROR(encoder.add_special("<|start_header_id|>"));
  encoder.add_text(turn.role);
  MANTISSA_RETURN_IF_ERROR(encoder.add_special("<|end_header_id|>"));
  encoder.add_text("\n\n");
  MANTISSA_RETURN_IF_ERROR(encoder.mark(turn.role == kAssistant));
  encoder.add_text(trimmed(turn.text));
  if (is_open) return {};
  MANTISSA_RETURN_IF_ERROR(encoder.add_special(kLlama3End));
  return encoder.mark(false);
}

Result<AnsweredChat> encode_turns(const ByteBpe& tokenizer, const ChatTemplate& chat,
                                  std::span<const ChatTurn> turns, bool asks, bool marks_answers) {
  ChatEncoder encoder(tokenizer, marks_answers);
  const bool is_chat_ml = chat.kind == ChatTemplate::Kind::kChatMl;
  const auto add = is_chat_ml ? add_chat_ml : add_llama3;
  if (!is_chat_ml && tokenizer.options().begin >= 0 && !turns.empty()) {
    MANTISSA_RETURN_IF_ERROR(
        encoder.add_special(tokenizer.tokens()[static_cast<size_t>(tokenizer.options().begin)]));
  }
  const bool lacks_system = !turns.empty() && turns[0].role != "system" && !chat.system.empty();
  if (lacks_system) MANTISSA_RETURN_IF_ERROR(add(encoder, {"system", chat.system}, false));
  for (const ChatTurn& turn : turns) MANTISSA_RETURN_IF_ERROR(add(encoder, turn, false));
  if (asks) MANTISSA_RETURN_IF_ERROR(add(encoder, {kAssistant, ""}, true));
  return encoder.finish();
}

}  // namespace

Result<ChatTemplate> chat_template_of(std::string_view jinja) {
  const std::string program = with_line_ends(jinja);
  std::string_view text = program;
  if (text.starts_with(kMayAsk)) text.remove_prefix(kMayAsk.size());
  if (text == std::string(kChatMlLoop) + std::string(kChatMlRest)) return ChatTemplate();
  if (auto system = system_turn(text)) return ChatTemplate{.system = std::move(*system)};
  const std::string llama3(kLlama3), asks(kLlama3Asks);
  if (text == llama3 + asks) {
    return ChatTemplate{.kind = ChatTemplate::Kind::kLlama3, .always_asks = true};
  }
  if (text == llama3 + "{% if add_generation_prompt %}" + asks + "{% endif %}") {
    return ChatTemplate{.kind = ChatTemplate::Kind::kLlama3};
  }
  constexpr size_t kShown = 60;
  return invalid_input(json_quoted(program.substr(0, kShown)) +
                       "... is another chat template than ChatML's and Llama 3's, which are known");
}

std::string to_jinja(const ChatTemplate& chat) {
  if (chat.kind == ChatTemplate::Kind::kLlama3) {
    const std::string asks(kLlama3Asks);
    return std::string(kLlama3) +
           (chat.always_asks ? asks : "{% if add_generation_prompt %}" + asks + "{% endif %}");
  }
  const std::string before =
      chat.system.empty()
          ? std::string(kChatMlLoop)
          : std::string(kChatMlBefore) + chat.system + std::string(kChatMlAfter);
  return before + std::string(kChatMlRest);
}

std::string describe(const ChatTemplate& chat) {
  const std::string name = chat.kind == ChatTemplate::Kind::kChatMl ? "ChatML" : "Llama 3";
  if (chat.system.empty()) return name;
  return name + ", with the system turn " + json_quoted(chat.system) + " if there is none";
}

Result<std::vector<int32_t>> encode_chat(const ByteBpe& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatTurn> turns, bool asks) {
  MANTISSA_ASSIGN(AnsweredChat encoded,
                  encode_turns(tokenizer, chat, turns, asks || chat.always_asks, false));
  return std::move(encoded.tokens);
}

Result<AnsweredChat> encode_answers(const ByteBpe& tokenizer, const ChatTemplate& chat,
                                    std::span<const ChatTurn> turns) {
  return encode_turns(tokenizer, chat, turns, false, true);
}

std::optional<int32_t> end_of_turn(const ByteBpe& tokenizer, const ChatTemplate& chat) {
  return token_named(tokenizer,
                     chat.kind == ChatTemplate::Kind::kChatMl ? kChatMlEnd : kLlama3End);
}

}  // namespace mantissa
