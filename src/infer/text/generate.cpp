#include "infer/text/generate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/random.h"
#include "infer/tasks/language.h"
#include "infer/text/token_logits.h"
#include "kernels/kernel_table.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

constexpr int64_t kMostAtOnce = 64;  // positions of a prompt, a power of two

// Logits less the largest, divided by the temperature as a whole number of 2^-16.
void divide_by_temperature(double temperature, TokenLogits& logits) {
  if (temperature == 1) return;
  constexpr double kOne = 65536;
  const auto factor = std::max<int64_t>(1, std::llrint(kOne / temperature));
  const int64_t largest = *std::max_element(logits.mantissas.begin(), logits.mantissas.end());
  for (int32_t& mantissa : logits.mantissas) {
    const int64_t scaled = shift_right_rne((mantissa - largest) * factor, 16);
    mantissa = static_cast<int32_t>(std::max<int64_t>(scaled, -(int64_t{1} << 31) + 1));
  }
}

// Keeps the first tokens, up to the one with which the sum of probabilities reaches the part top_p,
// a whole number of 2^-16, of all. Returns the sum that is left.
uint64_t keep_top_p(double top_p, const std::vector<int32_t>& probabilities,
                    std::vector<Token>& order) {
  constexpr double kOne = 65536;
  const auto part = static_cast<uint64_t>(std::max<int64_t>(1, std::llrint(top_p * kOne)));
  uint64_t sum = 0, kept = 0;
  for (const Token token : order) sum += static_cast<uint64_t>(probabilities[token]);
  size_t count = 0;
  // All probabilities together are about 2^30.
  while (count < order.size() && (kept << 16) < sum * part) {
    kept += static_cast<uint64_t>(probabilities[order[count++]]);
  }
  if (kept > 0) order.resize(count);
  return kept;
}

// Holds the bytes of a character back until all of them are there.
class WholeCharacters {
 public:
  // The characters that are whole now. Bytes that begin no character pass.
  std::string add(const std::string& bytes) {
    held_ += bytes;
    size_t begun = held_.size();  // where the last character begins
    while (begun > 0 && held_.size() - begun < 3 && is_inner(held_[begun - 1])) --begun;
    if (begun > 0) --begun;
    const size_t wanted = begun < held_.size() ? length_of(held_[begun]) : 0;
    const size_t end = held_.size() - begun < wanted ? begun : held_.size();
    std::string whole = held_.substr(0, end);
    held_.erase(0, end);
    return whole;
  }
  std::string rest() { return std::exchange(held_, ""); }

 private:
  static bool is_inner(char c) { return (c & 0xC0) == 0x80; }
  static size_t length_of(char first) {
    const int ones = std::countl_one(static_cast<uint8_t>(first));
    return ones >= 2 && ones <= 4 ? static_cast<size_t>(ones) : 1;
  }
  std::string held_;
};

// The prompt's first word that WordPiece lacks is an error.
Status check_words(const Vocabulary& vocabulary, const std::string& prompt) {
  std::istringstream words(prompt);
  for (std::string word; words >> word;) {
    MANTISSA_ASSIGN(const std::vector<Token> found, vocabulary.encode(word));
    const Token unknown = vocabulary.wordpiece()->unknown();
    if (std::find(found.begin(), found.end(), unknown) == found.end()) continue;
    return invalid_input("the network does not know '" + word + "'");
  }
  return {};
}

}  // namespace

// No token is drawn that stands for no text, except those that end it.
Generator::Generator(Vocabulary vocabulary, int64_t sequence,
                     const kernels::SoftmaxKernels& softmax)
    : vocabulary_(std::move(vocabulary)),
      sequence_(sequence),
      softmax_(softmax),
      ends_(vocabulary_.ends()) {
  for (Token token = 0; token < std::ssize(vocabulary_.names()); ++token) {
    const bool is_end = std::find(ends_.begin(), ends_.end(), token) != ends_.end();
    if (is_end || !vocabulary_.is_special(token)) drawable_.push_back(token);
  }
}

Result<std::unique_ptr<Generator>> Generator::create(FrozenNetwork& network, DecodingForm form,
                                                     ThreadPool& pool, Isa isa) {
  MANTISSA_ASSIGN(const LanguageOptions language, language_options(network.description.network));
  if (language.task != TextTask::kNextToken) {
    const bool masks = language.task == TextTask::kMasks;
    return invalid_input("network '" + network.description.network.name +
                         (masks ? "' is a masked language model, for mantissa fill-mask"
                                : "' translates, with mantissa translate") +
                         ": it does not go on with a text");
  }
  MANTISSA_ASSIGN(Vocabulary vocabulary, vocabulary_of(network.description));
  const kernels::KernelTable table = kernels::select_kernels(isa);
  std::unique_ptr<Generator> generator(
      new Generator(std::move(vocabulary), language.sequence, *table.softmax));
  MANTISSA_ASSIGN(
      generator->decoder_,
      Decoder::create(
          network,
          {.positions = language.sequence, .at_once = kMostAtOnce, .form = form}, pool, isa));
  // A recurrent layer keeps its last state alone.
  generator->goes_back_ = std::ranges::none_of(network.graph.nodes, [](const Node& node) {
    return node.op == &ops::kRnn || node.op == &ops::kLstm || node.op == &ops::kGru;
  });
  return generator;
}

Result<std::vector<Token>> Generator::encode_prompt(const std::string& prompt) const {
  MANTISSA_ASSIGN(std::vector<Token> tokens, vocabulary_.encode(prompt));
  if (tokens.empty()) return invalid_input("name some text to begin with");
  if (vocabulary_.wordpiece() != nullptr) {
    MANTISSA_RETURN_IF_ERROR(check_words(vocabulary_, prompt));
  }
  const ByteBpe* const byte_bpe = vocabulary_.byte_bpe();
  if (byte_bpe != nullptr && byte_bpe->options().first >= 0) {
    tokens.insert(tokens.begin(), byte_bpe->options().first);
  }
  return tokens;
}

// Computes the positions that are new. Programs are made for few numbers of positions: those of
// long texts come in pieces of powers of two.
Status Generator::compute(std::span<const Token> tokens) {
  const auto count = std::ssize(tokens);
  const auto same = std::mismatch(tokens.begin(), tokens.end(), computed_.begin(), computed_.end());
  // The last position is computed in any case: its logits are wanted.
  int64_t first = std::min<int64_t>(same.first - tokens.begin(), count - 1);
  if (!goes_back_ && first < std::ssize(computed_)) first = 0;
  computed_.clear();
  decoder_->set(0, tokens);
  if (!decoder_->is_cached()) return decoder_->run(1, 0, count);
  while (first < count) {
    const auto left = static_cast<uint64_t>(count - first);
    const auto piece = std::min<int64_t>(kMostAtOnce, static_cast<int64_t>(std::bit_floor(left)));
    MANTISSA_RETURN_IF_ERROR(decoder_->run(1, first, first + piece));
    first += piece;
  }
  computed_.assign(tokens.begin(), tokens.end());
  return {};
}

Token Generator::draw(TokenLogits logits, const GenerationOptions& options, uint64_t place) const {
  const auto before = [&](Token a, Token b) { return is_before(logits, a, b); };
  if (options.temperature == 0) return *std::ranges::min_element(drawable_, before);
  std::vector<Token> order = drawable_;
  const auto all = std::ssize(order);
  const int64_t used = options.top_k > 0 ? std::min(options.top_k, all) : all;
  if (used == all) {
    std::sort(order.begin(), order.end(), before);
  } else {
    std::partial_sort(order.begin(), order.begin() + used, order.end(), before);
  }
  order.resize(static_cast<size_t>(used));
  divide_by_temperature(options.temperature, logits);
  const std::vector<int32_t> probabilities = probabilities_of(logits, softmax_);
  const uint64_t sum = keep_top_p(options.top_p, probabilities, order);
  if (sum == 0) return order[0];
  uint64_t left = uniform_below(random_bits(options.seed, RandomStream::kGenerate, 0, place), sum);
  for (const Token token : order) {
    const auto part = static_cast<uint64_t>(probabilities[token]);
    if (left < part) return token;
    left -= part;
  }
  return order.back();
}

Result<TextGoneOn> Generator::go_on(std::vector<Token> tokens, const GenerationOptions& options,
                                    const TextObserver& observer) {
  TextGoneOn result;
  WholeCharacters characters;
  const auto shows = [&](const std::string& piece) {
    result.text += piece;
    return observer == nullptr || piece.empty() || observer(piece);
  };
  if (!options.keeps_positions) computed_.clear();
  while (result.tokens < options.length) {
    const int64_t used = std::min<int64_t>(std::ssize(tokens), sequence_);
    // Once a text is longer than the sequence, each token moves to another place with every new
    // one, and all are computed again.
    if (used < std::ssize(tokens)) computed_.clear();
    MANTISSA_RETURN_IF_ERROR(compute(std::span(tokens).last(static_cast<size_t>(used))));
    const Token token =
        draw(decoder_->logits(0), options, static_cast<uint64_t>(result.tokens));
    if (std::find(ends_.begin(), ends_.end(), token) != ends_.end()) {
      result.end = TextEnd::kEnd;
      break;
    }
    tokens.push_back(token);
    ++result.tokens;
    if (!shows(characters.add(vocabulary_.decode({&token, 1})))) {
      result.end = TextEnd::kStopped;
      return result;
    }
    if (options.stays_in_sequence && std::ssize(tokens) >= sequence_) break;
  }
  if (!shows(characters.rest())) result.end = TextEnd::kStopped;
  return result;
}

Result<TextGoneOn> generate_text(FrozenNetwork& network, const std::string& prompt,
                                 const GenerationOptions& options, DecodingForm form,
                                 ThreadPool& pool, Isa isa, const TextObserver& observer) {
  MANTISSA_ASSIGN(const std::unique_ptr<Generator> generator,
                  Generator::create(network, form, pool, isa));
  return go_on_with_text(*generator, prompt, options, observer);
}

Result<TextGoneOn> go_on_with_text(Generator& generator, const std::string& prompt,
                                   const GenerationOptions& options,
                                   const TextObserver& observer) {
  auto tokens = generator.encode_prompt(prompt);
  if (!tokens.ok()) return invalid_input("prompt: " + tokens.error().message);
  return generator.go_on(std::move(*tokens), options, observer);
}

}  // namespace mantissa
