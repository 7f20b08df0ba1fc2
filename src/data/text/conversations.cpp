#include "data/text/conversations.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/hash.h"
#include "formats/arrays/safetensors_header.h"
#include "formats/json_text.h"

namespace mantissa {
namespace {

using nlohmann::json;

// The turns of an example; a prompt and its completion are two.
struct Conversation {
  std::vector<ChatTurn> turns;
  const std::string& question() const {
    const bool has_system = turns.size() > 1 && turns[0].role == "system";
    return turns[has_system ? 1 : 0].text;
  }
};

Result<std::string> entry_text(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return invalid_input(std::string("has no \"") + name + "\"");
  if (!found->is_string()) return invalid_input(std::string("\"") + name + "\" is no text");
  return found->get<std::string>();
}

Result<ChatTurn> turn_of(const json& message) {
  if (!message.is_object()) return invalid_input("a message is no object");
  for (const auto& [name, value] : message.items()) {
    if (name == "role" || name == "content") continue;
    return invalid_input("a message has " + readable_name(name) +
                         ", and messages have \"role\" and \"content\" alone");
  }
  ChatTurn turn;
  MANTISSA_ASSIGN(turn.role, entry_text(message, "role"));
  MANTISSA_ASSIGN(turn.text, entry_text(message, "content"));
  if (turn.role == "system" || turn.role == "user" || turn.role == "assistant") return turn;
  return invalid_input("the role " + readable_name(turn.role) +
                       " is none of system, user and assistant");
}

// Adds the names of entries that are not read.
Result<Conversation> conversation_of(std::string_view line, std::set<std::string>& others) {
  const json object = parse_json(line);
  if (!object.is_object()) return invalid_input("is no JSON object");
  const bool has_messages = object.contains("messages");
  if (has_messages == object.contains("prompt")) {
    return invalid_input("wants either \"messages\", or \"prompt\" and \"completion\"");
  }
  for (const auto& [name, value] : object.items()) {
    const bool is_read =
        has_messages ? name == "messages" : name == "prompt" || name == "completion";
    constexpr size_t kMostNames = 10;
    if (!is_read && others.size() < kMostNames) others.insert(readable_name(name));
  }
  Conversation conversation;
  if (!has_messages) {
    ChatTurn question{"user", ""}, answer{"assistant", ""};
    MANTISSA_ASSIGN(question.text, entry_text(object, "prompt"));
    MANTISSA_ASSIGN(answer.text, entry_text(object, "completion"));
    conversation.turns = {std::move(question), std::move(answer)};
    return conversation;
  }
  const json& messages = object["messages"];
  if (!messages.is_array() || messages.empty()) {
    return invalid_input("\"messages\" is no list of messages");
  }
  for (const json& message : messages) {
    MANTISSA_ASSIGN(ChatTurn turn, turn_of(message));
    conversation.turns.push_back(std::move(turn));
  }
  return conversation;
}

// Without a template a prompt and its completion are one text, which the end token ends.
Result<AnsweredChat> encode_plain(const Vocabulary& vocabulary, const Conversation& conversation) {
  const ByteBpe& tokenizer = *vocabulary.byte_bpe();
  const ByteBpeOptions& options = tokenizer.options();
  const std::vector<ChatTurn>& turns = conversation.turns;
  if (turns.size() != 2 || turns[0].role != "user" || turns[1].role != "assistant") {
    return invalid_input(
        "has turns, and the model has no chat template; \"prompt\" and \"completion\" need none");
  }
  AnsweredChat encoded;
  if (options.first >= 0) encoded.tokens.push_back(options.first);
  for (const ChatTurn& turn : turns) {
    MANTISSA_ASSIGN(const std::vector<int32_t> tokens,
                    tokenizer.encode(turn.text, ByteBpe::Special::kAreText));
    encoded.answers.resize(encoded.tokens.size(), false);
    encoded.tokens.insert(encoded.tokens.end(), tokens.begin(), tokens.end());
  }
  if (options.end >= 0) encoded.tokens.push_back(options.end);
  encoded.answers.resize(encoded.tokens.size(), true);
  return encoded;
}

Result<AnsweredChat> encode_conversation(const Vocabulary& vocabulary,
                                         const Conversation& conversation) {
  if (!vocabulary.chat_refused().empty()) {
    return invalid_input("the model's chat template is not known here, so it learns from texts "
                         "alone: " + vocabulary.chat_refused());
  }
  if (!vocabulary.chat()) return encode_plain(vocabulary, conversation);
  return encode_answers(*vocabulary.byte_bpe(), *vocabulary.chat(), conversation.turns);
}

struct ConversationCounts {
  int64_t examples = 0, cut = 0, without_answer = 0, too_long = 0;
};

// The tokens of an example with their marks; none if nothing of an answer is in the sequence.
std::vector<Token> marked_tokens(const AnsweredChat& chat, int64_t sequence,
                                 ConversationCounts& counts) {
  const auto count = std::ssize(chat.tokens), used = std::min(count, sequence + 1);
  // The first token has no label.
  int64_t answer = 1;
  while (answer < count && !chat.answers[static_cast<size_t>(answer)]) ++answer;
  const bool has_answer = answer < count, is_left = answer < used;
  ++counts.examples;
  counts.without_answer += !has_answer;
  counts.too_long += has_answer && !is_left;
  if (!is_left) return {};
  counts.cut += used < count;
  std::vector<Token> tokens;
  for (size_t i = 0; i < static_cast<size_t>(used); ++i) {
    tokens.push_back(chat.tokens[i] | (i == 0 ? kFirstMark : 0) |
                     (chat.answers[i] ? kAnswerMark : 0));
  }
  return tokens;
}

std::string some_of_all(int64_t some, const ConversationCounts& counts) {
  return std::to_string(some) + " of " + std::to_string(counts.examples) + " conversations ";
}

void note_counts(const ConversationCounts& counts, int64_t sequence,
                 const std::set<std::string>& others, std::vector<std::string>& notes) {
  const std::string longer = "more than " + std::to_string(sequence + 1) + " tokens (--sequence " +
                             std::to_string(sequence) + " and the one after it)";
  if (counts.cut > 0) {
    notes.push_back(some_of_all(counts.cut, counts) + "are cut: they have " + longer);
  }
  if (counts.too_long > 0) {
    notes.push_back(some_of_all(counts.too_long, counts) + "are left out: they have " + longer +
                    ", and no answer before its end");
  }
  if (counts.without_answer > 0) {
    notes.push_back(some_of_all(counts.without_answer, counts) +
                    "are left out: they have no answer");
  }
  if (others.empty()) return;
  std::string names;
  for (const std::string& name : others) names += (names.empty() ? "" : ", ") + name;
  notes.push_back("entries that are not read: " + names);
}

// The examples by the hash of their first question, in the order of the hashes.
using QuestionGroups = std::map<std::string, std::vector<std::vector<Token>>>;

Result<ConversationParts> divided_by_question(const QuestionGroups& groups) {
  constexpr int64_t kParts = 20, kLeast = 3;
  const auto count = std::ssize(groups);
  if (count < kLeast) {
    return invalid_input("has " + std::to_string(count) +
                         " different questions with answers; training, validation and test take "
                         "one each, at least");
  }
  const int64_t held = std::max<int64_t>(1, count / kParts);
  ConversationParts parts;
  int64_t place = 0;
  for (const auto& [hash, examples] : groups) {
    auto& part = place < held ? parts.test : place < 2 * held ? parts.validation : parts.train;
    for (const auto& tokens : examples) part.insert(part.end(), tokens.begin(), tokens.end());
    ++place;
  }
  return parts;
}

}  // namespace

bool has_conversations(const std::string& path, const Vocabulary& vocabulary) {
  return vocabulary.byte_bpe() != nullptr && std::filesystem::path(path).extension() == ".jsonl";
}

bool are_conversations(std::span<const Token> tokens) {
  return !tokens.empty() && (tokens[0] & kFirstMark) != 0;
}

Result<ConversationParts> read_conversations(std::string_view text, const Vocabulary& vocabulary,
                                             int64_t sequence, std::vector<std::string>& notes) {
  QuestionGroups groups;
  ConversationCounts counts;
  std::set<std::string> others;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto conversation = conversation_of(line, others);
    auto encoded = conversation.ok() ? encode_conversation(vocabulary, *conversation)
                                     : Result<AnsweredChat>(conversation.error());
    if (!encoded.ok()) {
      return invalid_input("line " + std::to_string(number) + ": " + encoded.error().message);
    }
    std::vector<Token> tokens = marked_tokens(*encoded, sequence, counts);
    if (tokens.empty()) continue;
    groups[sha256_hex(conversation->question())].push_back(std::move(tokens));
  }
  note_counts(counts, sequence, others, notes);
  return divided_by_question(groups);
}

std::vector<int64_t> example_begins(std::span<const Token> tokens) {
  std::vector<int64_t> begins;
  for (int64_t i = 0; i < std::ssize(tokens); ++i) {
    if ((tokens[i] & kFirstMark) != 0) begins.push_back(i);
  }
  begins.push_back(std::ssize(tokens));
  return begins;
}

Examples answer_examples(std::span<const Token> tokens, int64_t sequence, Token padding) {
  const auto begins = std::make_shared<const std::vector<int64_t>>(example_begins(tokens));
  Examples examples;
  examples.count = std::ssize(*begins) - 1;
  examples.specs = specs_for(TextTask::kNextToken, sequence);
  examples.write = [tokens, begins, sequence, padding](uint32_t, uint32_t example,
                                                       std::span<std::byte* const> places) {
    const int64_t begin = (*begins)[example], count = (*begins)[example + 1] - begin;
    auto* inputs = reinterpret_cast<int32_t*>(places[0]);
    auto* labels = reinterpret_cast<int32_t*>(places[1]);
    for (int64_t i = 0; i < sequence; ++i) {
      const bool has_label = i + 1 < count && (tokens[begin + i + 1] & kAnswerMark) != 0;
      inputs[i] = i < count ? tokens[begin + i] & kTokenMask : padding;
      labels[i] = has_label ? tokens[begin + i + 1] & kTokenMask : kIgnoredLabel;
    }
  };
  // Up to the token before the last one of an answer.
  examples.length = [tokens, begins, sequence](uint32_t example) {
    const int64_t begin = (*begins)[example];
    int64_t last = (*begins)[example + 1] - 1;
    while (last > begin && (tokens[last] & kAnswerMark) == 0) --last;
    return static_cast<int32_t>(std::clamp<int64_t>(last - begin, 1, sequence));
  };
  return examples;
}

Token padding_of(const Vocabulary& vocabulary) {
  if (vocabulary.byte_bpe() == nullptr) return 0;
  const ByteBpeOptions& options = vocabulary.byte_bpe()->options();
  return options.padding >= 0 ? options.padding : std::max(options.end, 0);
}

std::vector<Token> predicted_tokens(std::span<const Token> tokens, int64_t sequence) {
  if (!are_conversations(tokens)) {
    const auto predicted = tokens.subspan(
        1, static_cast<size_t>(text_example_count(std::ssize(tokens), sequence) * sequence));
    return {predicted.begin(), predicted.end()};
  }
  std::vector<Token> predicted;
  for (const Token token : tokens) {
    const bool has_label = (token & kAnswerMark) != 0 && (token & kFirstMark) == 0;
    if (has_label) predicted.push_back(token & kTokenMask);
  }
  return predicted;
}

}  // namespace mantissa
