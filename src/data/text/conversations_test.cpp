// Conversations as data: labels of answers alone, and counts of what is cut or left out.
#include "data/text/conversations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "base/test_folder.h"
#include "data/tokenizers/byte_bpe/test_byte_bpe.h"

namespace mantissa {
namespace {

// Tokens are bytes, 264 and 265 begin and end a turn.
Vocabulary chat_vocabulary(bool has_template = true) {
  std::vector<std::string> tokens = test_tokens();
  ByteBpeOptions options = test_options();
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
    options.added.push_back(
        {.text = token, .number = static_cast<int32_t>(tokens.size()), .special = true});
    tokens.push_back(token);
  }
  options.end = 4;
  auto tokenizer = ByteBpe::create(std::move(tokens), {}, options);
  EXPECT_TRUE(tokenizer.ok());
  const auto chat = has_template ? std::optional<ChatTemplate>(ChatTemplate()) : std::nullopt;
  return *Vocabulary::of(std::move(*tokenizer), chat);
}

// Lines with questions that differ.
std::string question_lines(int count, const std::string& answer = "yes") {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += R"({"prompt": "q)" + std::to_string(i) + R"(", "completion": ")" + answer + "\"}\n";
  }
  return text;
}

std::string conversation_error(const std::string& text, bool has_template = true) {
  std::vector<std::string> notes;
  const auto parts = read_conversations(text, chat_vocabulary(has_template), 64, notes);
  return parts.ok() ? "" : parts.error().message;
}

struct WrittenExample {
  std::vector<int32_t> inputs, labels;
};

WrittenExample written_example(const Examples& examples, uint32_t example, int64_t sequence) {
  WrittenExample all;
  all.inputs.resize(static_cast<size_t>(sequence));
  all.labels.resize(static_cast<size_t>(sequence));
  std::byte* const places[] = {reinterpret_cast<std::byte*>(all.inputs.data()),
                               reinterpret_cast<std::byte*>(all.labels.data())};
  examples.write(0, example, places);
  return all;
}

TEST(Conversations, OnlyAnswersHaveLabels) {
  const Vocabulary vocabulary = chat_vocabulary();
  std::vector<std::string> notes;
  constexpr int64_t kSequence = 48;
  const std::string turns = R"({"messages": [{"role": "user", "content": "Hi"}, )"
                            R"({"role": "assistant", "content": "bc"}]})";
  const auto parts = read_conversations(question_lines(2) + turns, vocabulary, kSequence, notes);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  EXPECT_TRUE(notes.empty());
  std::multiset<std::string> answers;
  for (const auto* part : {&parts->train, &parts->validation, &parts->test}) {
    ASSERT_TRUE(are_conversations(*part));
    const Examples examples = answer_examples(*part, kSequence, padding_of(vocabulary));
    ASSERT_EQ(examples.count, 1);
    const WrittenExample example = written_example(examples, 0, kSequence);
    EXPECT_EQ(example.inputs[0], 264);
    std::vector<Token> labels;
    for (int64_t i = 0; i < kSequence; ++i) {
      if (example.labels[i] < 0) continue;
      labels.push_back(example.labels[i]);
      // A label is the next input.
      EXPECT_EQ(i + 1 < kSequence ? example.inputs[i + 1] : -2, example.labels[i]);
    }
    EXPECT_EQ(labels, predicted_tokens(*part, kSequence));
    // A batch that is cut to the example's length has all of its labels.
    const int64_t length = examples.length(0);
    EXPECT_LT(length, kSequence);
    EXPECT_GE(example.labels[length - 1], 0);
    EXPECT_EQ(std::ranges::count_if(example.labels, [](Token label) { return label >= 0; }),
              std::count_if(example.labels.begin(), example.labels.begin() + length,
                            [](Token label) { return label >= 0; }));
    EXPECT_EQ(labels.back(), 265);
    answers.insert(vocabulary.decode(labels));
    EXPECT_EQ(example.inputs.back(), 4);  // padding is the end token
    EXPECT_EQ(example.labels.back(), -1);
  }
  EXPECT_EQ(answers, (std::multiset<std::string>{"bc", "yes", "yes"}));
}

TEST(Conversations, LongOnesAreCutOrLeftOut) {
  const Vocabulary vocabulary = chat_vocabulary();
  std::vector<std::string> notes;
  // 7 tokens of the question's turn before its text, 12 of the open answer.
  constexpr int64_t kSequence = 30;
  const std::string long_question = R"({"prompt": ")" + std::string(60, 'x') +
                                    R"(", "completion": "never seen"})" + "\n";
  const std::string none = R"({"messages": [{"role": "user", "content": "alone"}], "id": 7})" "\n";
  const auto parts =
      read_conversations(question_lines(4) + question_lines(3, std::string(50, 'y')) + long_question + none,
                         vocabulary, kSequence, notes);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  ASSERT_EQ(notes.size(), 4u);
  EXPECT_TRUE(notes[0].starts_with("3 of 9 conversations are cut: they have more than 31 tokens"));
  EXPECT_TRUE(notes[1].starts_with("1 of 9 conversations are left out: they have more than 31"));
  EXPECT_EQ(notes[2], "1 of 9 conversations are left out: they have no answer");
  EXPECT_EQ(notes[3], "entries that are not read: \"id\"");
  int64_t examples = 0;
  for (const auto* part : {&parts->train, &parts->validation, &parts->test}) {
    examples += answer_examples(*part, kSequence, 0).count;
  }
  EXPECT_EQ(examples, 7);
}

// Examples of one question are in one part, whatever else is in the file.
TEST(Conversations, QuestionsAreInOnePart) {
  const Vocabulary vocabulary = chat_vocabulary();
  std::vector<std::string> notes;
  const auto parts = read_conversations(question_lines(100, "a") + question_lines(100, "b"), vocabulary, 64, notes);
  ASSERT_TRUE(parts.ok());
  const auto count = [](const std::vector<Token>& part) {
    return answer_examples(part, 64, 0).count;
  };
  EXPECT_EQ(count(parts->test), 10);
  EXPECT_EQ(count(parts->validation), 10);
  EXPECT_EQ(count(parts->train), 180);
  const auto again = read_conversations(question_lines(100, "b") + question_lines(100, "a"), vocabulary, 64, notes);
  EXPECT_EQ(std::multiset<Token>(again->test.begin(), again->test.end()),
            std::multiset<Token>(parts->test.begin(), parts->test.end()));
}

TEST(Conversations, FaultsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"prompt\": 1, \"completion\": \"b\"}", "line 4: \"prompt\" is no text"},
      {"{\"prompt\": \"a\"}", "line 4: has no \"completion\""},
      {"nothing", "line 4: is no JSON object"},
      {"{\"text\": \"a\"}", "line 4: wants either \"messages\", or \"prompt\""},
      {"{\"messages\": []}", "line 4: \"messages\" is no list"},
      {"{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}",
       "the role \"tool\" is none of"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"name\": \"b\"}]}",
       "a message has \"name\""},
      {"{\"prompt\": \"\\u0004\", \"completion\": \"b\"}", "line 4: "}};
  for (const auto& [line, message] : cases) {
    EXPECT_NE(conversation_error(question_lines(3) + line).find(message), std::string::npos)
        << conversation_error(question_lines(3) + line);
  }
  EXPECT_NE(conversation_error(question_lines(2)).find("has 2 different questions"), std::string::npos);
  EXPECT_NE(conversation_error(""), "");
}

// Without a template, prompts and completions are texts, and turns are refused.
TEST(Conversations, NeedATemplateForTurns) {
  EXPECT_EQ(conversation_error(question_lines(3), false), "");
  const std::string turn = R"({"messages": [{"role": "user", "content": "a"}]})";
  EXPECT_NE(conversation_error(question_lines(3) + turn, false).find("has no chat template"), std::string::npos);
  std::vector<std::string> notes;
  const auto parts = read_conversations(question_lines(3), chat_vocabulary(false), 16, notes);
  ASSERT_TRUE(parts.ok());
  const WrittenExample example = written_example(answer_examples(parts->test, 16, 0), 0, 16);
  EXPECT_EQ(example.inputs[0], 'q');
  EXPECT_EQ((std::vector<int32_t>(example.labels.begin(), example.labels.begin() + 7)),
            (std::vector<int32_t>{-1, 'y', 'e', 's', 4, -1, -1}));
}

TEST(Conversations, AreTextsOfModelsThatBringTheirTokens) {
  const TestFolder folder;
  const std::string path = (folder / "chats.jsonl").string();
  std::ofstream(path) << question_lines(40);
  const auto known = std::make_shared<const Vocabulary>(chat_vocabulary());
  const TextOptions options{.sequence = 32, .tokens = Tokens::kByteBpe, .known = known};
  const auto text = load_text(path, options);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_TRUE(are_conversations(text->train));
  EXPECT_EQ(examples_for(*known, text->train, options, 0).count, 36);
  const auto info = inspect_text(path, options);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->kind, "conversations of byte-bpe");
  EXPECT_EQ(info->test_count, 2);
  std::vector<std::string> notes;
  EXPECT_EQ(*load_test_tokens(path, *known, options, notes), text->test);
  const auto characters = load_text(path, {.sequence = 8});
  ASSERT_TRUE(characters.ok());
  EXPECT_FALSE(are_conversations(characters->train));
}

}  // namespace
}  // namespace mantissa
