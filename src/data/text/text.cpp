#include "data/text/text.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/files/text_file.h"
#include "base/hash.h"
#include "data/text/conversations.h"
#include "data/text/packed_conversations.h"
#include "data/text/parallel_text.h"

namespace mantissa {
namespace {

Result<std::string> read_text(const std::string& path) {
  MANTISSA_ASSIGN(std::string text, read_text_file(path, kMostTextBytes));
  if (text.empty()) return invalid_input("'" + path + "' is empty");
  return text;
}

// The places where validation and test begin.
struct Parts {
  int64_t first, second;
  explicit Parts(int64_t count)
      : first(count / 100 * 90 + count % 100 * 90 / 100), second(first + (count - first) / 2) {}
};

// `can_choose`: whether the sequence is a setting, and not the network's.
Status check_length(const std::string& path, int64_t count, int64_t sequence, bool can_choose) {
  const Parts parts(count);
  if (text_example_count(parts.second - parts.first, sequence) >= 1) return {};
  return invalid_input("'" + path + "' has " + std::to_string(count) +
                       " tokens: too few, a twentieth of them is to be a sequence of " +
                       std::to_string(sequence) + " and one more; choose a longer text" +
                       (can_choose ? ", or a smaller --sequence" : ""));
}

// The vocabulary and the mask token, for tokens to predict.
Result<Vocabulary> with_mask(Vocabulary vocabulary) {
  if (vocabulary.wordpiece() != nullptr) return vocabulary;  // which has one
  if (vocabulary.tokens() == Tokens::kBytes) {
    return invalid_input("tokens: masked language models know characters and pieces, not bytes");
  }
  std::vector<std::string> names = vocabulary.names();
  names.push_back(kMaskName);
  return Vocabulary(std::move(names));
}

Error in_file(const std::string& path, const Error& error) {
  return make_error(error.code, "'" + path + "', " + error.message, error.where);
}

std::string vocabulary_sha256(const Vocabulary& vocabulary) {
  std::string all;
  for (const std::string& name : vocabulary.names()) {
    all += std::to_string(name.size()) + ":" + name;
  }
  all += vocabulary.tokenizer_entry();
  return sha256_hex(all);
}

// The file's bytes and all that examples depend on beside them.
std::string text_sha256(const TextOptions& options, std::string_view kind,
                        const Vocabulary& vocabulary, std::string_view contents) {
  const bool is_from_file = !options.vocabulary_file.empty() && vocabulary.wordpiece() != nullptr;
  return sha256_hex(std::string(kind) + "\n" + std::string(tokens_name(options.tokens)) +
                    (options.pieces > 0 ? " " + std::to_string(options.pieces) : "") +
                    (options.known ? " known " + vocabulary_sha256(vocabulary) : "") +
                    (is_from_file ? " " + sha256_hex(to_json(*vocabulary.wordpiece())) : "") +
                    "\n" + std::to_string(options.sequence) + "\n" + std::string(contents));
}

// Pairs as lines.
std::string lines_text(const std::vector<SentencePair>& pairs) {
  std::string lines;
  for (const SentencePair& pair : pairs) lines += pair.source + "\n" + pair.target + "\n";
  return lines;
}

// The beginning of the line that a byte is in, for errors: pairs stand in other lines of the file.
std::string sentence_place(std::string_view text, size_t at) {
  constexpr size_t kMost = 60;
  const size_t before = text.rfind('\n', at);
  text.remove_prefix(before == std::string_view::npos ? 0 : before + 1);
  const std::string_view line = text.substr(0, text.find('\n'));
  size_t end = std::min(line.size(), kMost);
  while (end < line.size() && (line[end] & 0xC0) == 0x80) ++end;
  return "'" + std::string(line.substr(0, end)) + (end < line.size() ? "..." : "") + "'";
}

Result<std::vector<Token>> encode_pairs(const std::string& path, const Vocabulary& vocabulary,
                                        const std::string& lines, const TextOptions& options,
                                        bool can_choose) {
  if (!vocabulary.line_feed()) return invalid_input("the vocabulary has no line feed");
  auto tokens = vocabulary.encode(lines, sentence_place);
  if (!tokens.ok()) return in_file(path, tokens.error());
  if (pair_examples(*tokens, options.sequence, *vocabulary.line_feed()).count > 0) return tokens;
  return invalid_input("'" + path + "' has, in a part, no pair of sentences of at most " +
                       std::to_string(options.sequence) + " tokens; choose " +
                       (can_choose ? "a larger --sequence, or " : "") + "a longer text");
}

// The known vocabulary, or one learned from the text.
Result<Vocabulary> known_or_learned(const std::string& path, std::string_view text,
                                    const TextOptions& options) {
  if (options.known) return *options.known;
  auto vocabulary = vocabulary_of(text, options.tokens, options.pieces);
  if (!vocabulary.ok()) return in_file(path, vocabulary.error());
  return vocabulary;
}

// The vocabulary of a text that is not parallel: known, from a file, or learned.
Result<Vocabulary> text_vocabulary(const std::string& path, std::string_view text,
                                   const TextOptions& options) {
  if (!options.known && !options.vocabulary_file.empty()) {
    MANTISSA_ASSIGN(WordPiece tokenizer, read_wordpiece(options.vocabulary_file));
    auto vocabulary = Vocabulary::of(std::move(tokenizer));
    return vocabulary.ok() ? std::move(vocabulary)
                           : in_file(options.vocabulary_file, vocabulary.error());
  }
  MANTISSA_ASSIGN(Vocabulary vocabulary, known_or_learned(path, text, options));
  const bool has_mask = options.known && options.known->mask();
  if (options.task != TextTask::kMasks || has_mask) return vocabulary;
  return with_mask(std::move(vocabulary));
}

// Notes how many tokens of a text the vocabulary does not know.
void note_unknown(std::span<const Token> tokens, Text& text) {
  const WordPiece* wordpiece = text.vocabulary.wordpiece();
  if (wordpiece == nullptr) return;
  const auto unknown = std::count(tokens.begin(), tokens.end(), wordpiece->unknown());
  if (unknown == 0) return;
  text.notes.push_back(std::to_string(unknown) + " of " + std::to_string(tokens.size()) +
                       " tokens are " + wordpiece->options().unknown + ": words of more than " +
                       std::to_string(wordpiece->options().longest_word) +
                       " characters, or with characters that the vocabulary lacks");
}

Result<Text> load_pairs(const std::string& path, const TextOptions& options) {
  MANTISSA_ASSIGN(const ParallelText pairs, load_parallel_text(path));
  const std::string train = lines_text(pairs.train), validation = lines_text(pairs.validation),
                    test = lines_text(pairs.test);
  Text text;
  MANTISSA_ASSIGN(text.vocabulary, known_or_learned(path, train + validation + test, options));
  int64_t all = 0, short_enough = 0;
  for (const auto& [tokens, lines] :
       {std::pair(&text.train, &train), std::pair(&text.validation, &validation),
        std::pair(&text.test, &test)}) {
    MANTISSA_ASSIGN(*tokens, encode_pairs(path, text.vocabulary, *lines, options, true));
    all += std::count(lines->begin(), lines->end(), '\n') / 2;
    short_enough += pair_examples(*tokens, options.sequence, *text.vocabulary.line_feed()).count;
  }
  if (all > short_enough) {
    text.notes.push_back(std::to_string(all - short_enough) + " of " + std::to_string(all) +
                         " pairs are left out: they have more than " +
                         std::to_string(options.sequence) + " tokens (--sequence)");
  }
  if (pairs.skipped > 0) {
    text.notes.push_back(std::to_string(pairs.skipped) + " lines are left out: a side is empty");
  }
  text.sha256 = text_sha256(options, "pairs", text.vocabulary, pairs.sha256);
  return text;
}

Result<Text> load_conversations(const std::string& path, const TextOptions& options) {
  MANTISSA_ASSIGN(const std::string bytes, read_text(path));
  Text text;
  text.vocabulary = *options.known;
  auto parts = read_conversations(bytes, text.vocabulary, options.sequence, text.notes);
  if (!parts.ok()) return in_file(path, parts.error());
  text.train = std::move(parts->train);
  text.validation = std::move(parts->validation);
  text.test = std::move(parts->test);
  text.sha256 = text_sha256(options, "conversations by question", text.vocabulary, bytes);
  return text;
}

}  // namespace

bool reads_conversations(const std::string& path, const TextOptions& options) {
  return options.task == TextTask::kNextToken && options.known &&
         has_conversations(path, *options.known);
}

Result<Text> load_text(const std::string& path, const TextOptions& options) {
  if (options.task == TextTask::kTranslation) return load_pairs(path, options);
  if (reads_conversations(path, options)) return load_conversations(path, options);
  const bool masks = options.task == TextTask::kMasks;
  MANTISSA_ASSIGN(const std::string bytes, read_text(path));
  Text text;
  MANTISSA_ASSIGN(text.vocabulary, text_vocabulary(path, bytes, options));
  auto encoded = text.vocabulary.encode(bytes);
  if (!encoded.ok()) return in_file(path, encoded.error());
  std::vector<Token> tokens = std::move(*encoded);
  note_unknown(tokens, text);
  const auto count = std::ssize(tokens);
  MANTISSA_RETURN_IF_ERROR(check_length(path, count, options.sequence, true));
  const Parts parts(count);
  const auto begin = tokens.begin();
  text.validation.assign(begin + parts.first, begin + parts.second);
  text.test.assign(begin + parts.second, tokens.end());
  tokens.resize(static_cast<size_t>(parts.first));
  text.train = std::move(tokens);  // no second copy of the largest part
  text.sha256 =
      text_sha256(options, masks ? "masked text 90 5 5" : "text 90 5 5", text.vocabulary, bytes);
  return text;
}

namespace {

// The pairs as the network knows them.
std::vector<SentencePair> known_pairs(std::vector<SentencePair> pairs, const Vocabulary& vocabulary,
                                      std::vector<std::string>& notes) {
  UnknownCharacters unknown;
  for (SentencePair& pair : pairs) {
    pair.source = vocabulary.known_part(pair.source, unknown);
    pair.target = vocabulary.known_part(pair.target, unknown);
  }
  const auto is_blank = [](const std::string& text) {
    return text.find_first_not_of(" \t") == std::string::npos;
  };
  const auto emptied = std::erase_if(pairs, [&](const SentencePair& pair) {
    return is_blank(pair.source) || is_blank(pair.target);
  });
  if (unknown.count > 0) {
    notes.push_back(describe(unknown) +
                    (emptied > 0 ? ", and " + std::to_string(emptied) + " pairs with them" : ""));
  }
  return pairs;
}

// The examples of training are packed.
void take_packed(const Text& text, const TextOptions& options, DatasetInfo& info) {
  const PackedExamples packed =
      packed_answer_examples(text.train, options.sequence, padding_of(text.vocabulary));
  info.specs = packed.examples.specs;
  info.train_count = packed.examples.count;
  info.bytes += packed.bytes;
  info.notes.push_back(packed.note);
}

}  // namespace

Result<std::vector<Token>> load_test_tokens(const std::string& path, const Vocabulary& vocabulary,
                                            const TextOptions& options,
                                            std::vector<std::string>& notes) {
  if (options.task == TextTask::kTranslation) {
    MANTISSA_ASSIGN(ParallelText pairs, load_parallel_text(path));
    const auto known = known_pairs(std::move(pairs.test), vocabulary, notes);
    return encode_pairs(path, vocabulary, lines_text(known), options, false);
  }
  MANTISSA_ASSIGN(const std::string text, read_text(path));
  if (options.task == TextTask::kNextToken && has_conversations(path, vocabulary)) {
    auto parts = read_conversations(text, vocabulary, options.sequence, notes);
    if (!parts.ok()) return in_file(path, parts.error());
    return std::move(parts->test);
  }
  UnknownCharacters unknown;
  auto tokens = vocabulary.encode(vocabulary.known_part(text, unknown));
  if (!tokens.ok()) return in_file(path, tokens.error());
  if (unknown.count > 0) notes.push_back(describe(unknown));
  MANTISSA_RETURN_IF_ERROR(check_length(path, std::ssize(*tokens), options.sequence, false));
  tokens->erase(tokens->begin(), tokens->begin() + Parts(std::ssize(*tokens)).second);
  return std::move(*tokens);
}

Result<DatasetInfo> inspect_text(const std::string& path, const TextOptions& options) {
  std::error_code ignored;
  const bool has_pairs = options.task == TextTask::kTranslation;
  const bool has_conversations = reads_conversations(path, options);
  if (!has_pairs && !std::filesystem::is_regular_file(path, ignored)) {
    return invalid_input("'" + path + "' is no file; language models are trained on a text file");
  }
  if (options.packs && !has_conversations) {
    return invalid_input("pack: '" + path +
                         "' is no file of conversations for this network (NAME.jsonl, for a "
                         "language model that import read); examples of other texts have no "
                         "padding: leave it out");
  }
  MANTISSA_ASSIGN(const Text text, load_text(path, options));
  const auto examples = [&](const std::vector<Token>& part) {
    return examples_for(text.vocabulary, part, options, 0).count;
  };
  const auto tokens = std::ssize(text.train) + std::ssize(text.validation) + std::ssize(text.test);
  DatasetInfo info{.name = path,
                   .specs = specs_for(options.task, options.sequence),
                   .target = {.kind = TargetKind::kTokens,
                              .classes = static_cast<int>(text.vocabulary.names().size()),
                              .names = text.vocabulary.names(),
                              .named = true},
                   .train_count = examples(text.train),
                   .validation_count = examples(text.validation),
                   .test_count = examples(text.test),
                   .bytes = tokens * int64_t{sizeof(Token)},
                   .kind = (has_pairs            ? "parallel text of "
                            : has_conversations ? "conversations of "
                                                : "text of ") +
                           std::string(tokens_name(options.tokens)),
                   .notes = text.notes,
                   .nouns = {"texts", "texts"}};
  if (has_pairs || has_conversations) {
    info.bytes +=
        (info.train_count + info.validation_count + info.test_count) * int64_t{sizeof(int64_t)};
  }
  if (options.packs) take_packed(text, options, info);
  return info;
}

}  // namespace mantissa
