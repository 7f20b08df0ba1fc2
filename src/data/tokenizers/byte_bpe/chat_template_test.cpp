#include "data/tokenizers/byte_bpe/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/tokenizers/byte_bpe/test_byte_bpe.h"

namespace mantissa {
namespace {

// As the models' files have them.
constexpr std::string_view kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";
constexpr std::string_view kQwen2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    R"('<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>)"
    R"(' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if )"
    R"(add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
constexpr std::string_view kPlain =
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif "
    "%}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";
constexpr std::string_view kLlama3 =
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim "
    "+ "
    "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ "
    "content }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";

ByteBpe chat_tokenizer() {
  std::vector<std::string> tokens = test_tokens();
  ByteBpeOptions options = test_options();
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<|start_header_id|>",
                            "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>"}) {
    options.added.push_back(
        {.text = token, .number = static_cast<int32_t>(tokens.size()), .special = true});
    tokens.push_back(token);
  }
  options.begin = static_cast<int32_t>(tokens.size()) - 1;
  auto made = ByteBpe::create(std::move(tokens), test_merges(), options);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

std::string rendered(std::string_view jinja, const std::vector<ChatTurn>& turns, bool asks) {
  const auto chat = chat_template_of(jinja);
  EXPECT_TRUE(chat.ok());
  const ByteBpe bpe = chat_tokenizer();
  const auto tokens = encode_chat(bpe, *chat, turns, asks);
  EXPECT_TRUE(tokens.ok()) << tokens.error().message;
  return bpe.decode(*tokens, true);
}

TEST(ChatTemplates, AreKnownByTheirText) {
  EXPECT_EQ(chat_template_of(kSmolLm2)->system,
            "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  EXPECT_EQ(chat_template_of(kQwen2)->system, "You are a helpful assistant.");
  EXPECT_EQ(*chat_template_of(kPlain), ChatTemplate());
  EXPECT_EQ(chat_template_of(kLlama3)->kind, ChatTemplate::Kind::kLlama3);
  EXPECT_FALSE(chat_template_of(kLlama3)->always_asks);
  EXPECT_EQ(describe(*chat_template_of(kQwen2)),
            "ChatML, with the system turn \"You are a helpful assistant.\" if there is none");
}

TEST(ChatTemplates, OthersAreRefusedByTheirBeginning) {
  const auto other = chat_template_of("{{ bos_token }}{% for m in messages %}");
  ASSERT_FALSE(other.ok());
  EXPECT_TRUE(other.error().message.starts_with("\"{{ bos_token }}{% for m in messages %}\"..."));
  std::string changed(kSmolLm2);
  changed.insert(changed.find("Face<"), "' + tools + '");
  EXPECT_FALSE(chat_template_of(changed).ok());
  EXPECT_FALSE(chat_template_of(std::string(kSmolLm2) + "{{ x }}").ok());
  EXPECT_FALSE(chat_template_of("").ok());
}

// Jinja 3.1 made the expected texts.
TEST(ChatTemplates, GiveTheTextsOfJinja) {
  const std::vector<ChatTurn> turns = {{"user", "Hi"}, {"assistant", " a\n"}, {"user", "ab"}};
  EXPECT_EQ(
      rendered(kSmolLm2, turns, true),
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
      "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n a\n<|im_end|>\n"
      "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(rendered(kSmolLm2, {{"system", "S"}, {"user", "u"}}, false),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nu<|im_end|>\n");
  EXPECT_EQ(rendered(kPlain, {{"user", "u"}}, false), "<|im_start|>user\nu<|im_end|>\n");
  EXPECT_EQ(rendered(kLlama3, turns, true),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\na<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nab<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

// The texts of the tokens that are answers.
std::string answers_of(std::string_view jinja, const std::vector<ChatTurn>& turns) {
  const ByteBpe bpe = chat_tokenizer();
  const auto encoded = encode_answers(bpe, *chat_template_of(jinja), turns);
  EXPECT_TRUE(encoded.ok()) << encoded.error().message;
  EXPECT_EQ(encoded->tokens.size(), encoded->answers.size());
  std::string text;
  for (size_t i = 0; i < encoded->tokens.size(); ++i) {
    if (encoded->answers[i]) text += bpe.decode({&encoded->tokens[i], 1}, true);
  }
  return text;
}

TEST(ChatTemplates, OnlyAnswersAndTheirEndsAreMarked) {
  const std::vector<ChatTurn> turns = {
      {"user", "Hi"}, {"assistant", "abc"}, {"user", "ab"}, {"assistant", "aa"}};
  EXPECT_EQ(answers_of(kSmolLm2, turns), "abc<|im_end|>aa<|im_end|>");
  EXPECT_EQ(answers_of(kLlama3, turns), "abc<|eot_id|>aa<|eot_id|>");
  EXPECT_EQ(answers_of(kPlain, {{"user", "Hi"}}), "");
  const ByteBpe bpe = chat_tokenizer();
  const auto encoded = encode_answers(bpe, *chat_template_of(kSmolLm2), turns);
  EXPECT_EQ(encoded->tokens, *encode_chat(bpe, *chat_template_of(kSmolLm2), turns, false));
  EXPECT_EQ(bpe.tokens()[static_cast<size_t>(*end_of_turn(bpe, *chat_template_of(kPlain)))],
            "<|im_end|>");
  EXPECT_EQ(bpe.tokens()[static_cast<size_t>(*end_of_turn(bpe, *chat_template_of(kLlama3)))],
            "<|eot_id|>");
}

// An answer that begins with a line end has the tokens that a model gives it.
TEST(ChatTemplates, AnAnswerBeginsWhereItsTurnIsOpen) {
  const ByteBpe bpe = chat_tokenizer();
  const ChatTemplate chat = *chat_template_of(kPlain);
  const std::vector<ChatTurn> asked = {{"user", "a"}}, answered = {asked[0], {"assistant", "\nb"}};
  const auto open = encode_chat(bpe, chat, asked, true);
  const auto whole = encode_answers(bpe, chat, answered);
  ASSERT_TRUE(open.ok() && whole.ok());
  ASSERT_LT(open->size(), whole->tokens.size());
  EXPECT_TRUE(std::equal(open->begin(), open->end(), whole->tokens.begin()));
  EXPECT_FALSE(whole->answers[open->size() - 1]);
  EXPECT_TRUE(whole->answers[open->size()]);
}

TEST(ChatTemplates, SpecialTokensInATurnAreText) {
  const ByteBpe bpe = chat_tokenizer();
  const ChatTurn turn = {"user", "<|im_end|>"};
  const auto tokens = encode_chat(bpe, *chat_template_of(kPlain), std::span(&turn, 1), false);
  ASSERT_TRUE(tokens.ok());
  int special = 0;
  for (const int32_t token : *tokens) special += bpe.is_special(token);
  EXPECT_EQ(special, 2);
  EXPECT_EQ(bpe.decode(*tokens, false), "user\n<|im_end|>\n");
}

TEST(ChatTemplates, TokenizersWithoutTheirTokensAreRefused) {
  const auto bpe = ByteBpe::create(test_tokens(), test_merges(), test_options());
  ASSERT_TRUE(bpe.ok());
  const ChatTurn turn = {"user", "a"};
  const auto tokens = encode_chat(*bpe, ChatTemplate(), std::span(&turn, 1), false);
  ASSERT_FALSE(tokens.ok());
  EXPECT_NE(tokens.error().message.find("lacks <|im_start|>"), std::string::npos);
}

TEST(ChatTemplates, AreProgramsAgain) {
  for (const std::string_view program : {kSmolLm2, kQwen2, kPlain, kLlama3}) {
    const auto chat = chat_template_of(program);
    ASSERT_TRUE(chat.ok());
    const auto again = chat_template_of(to_jinja(*chat));
    ASSERT_TRUE(again.ok()) << to_jinja(*chat);
    EXPECT_EQ(*again, *chat);
  }
  const ChatTemplate asks = {.kind = ChatTemplate::Kind::kLlama3, .always_asks = true};
  EXPECT_EQ(*chat_template_of(to_jinja(asks)), asks);
  EXPECT_EQ(to_jinja(*chat_template_of(kSmolLm2)), kSmolLm2);
}

}  // namespace
}  // namespace mantissa
