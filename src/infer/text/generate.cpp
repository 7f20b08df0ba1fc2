#include "infer/text/generate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "base/random.h"
#include "infer/tasks/language.h"
#include "infer/text/token_logits.h"
#include "kernels/kernel_table.h"

namespace mantissa {
namespace {

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

// A prompt's tokens. An error names the first of its words that the vocabulary lacks.
Result<std::vector<Token>> encode_prompt(const Vocabulary& vocabulary, const std::string& prompt) {
  MANTISSA_ASSIGN(std::vector<Token> tokens, vocabulary.encode(prompt));
  if (tokens.empty()) return invalid_input("name some text to begin with");
  if (vocabulary.wordpiece() == nullptr) return tokens;
  std::istringstream words(prompt);
  for (std::string word; words >> word;) {
    MANTISSA_ASSIGN(const std::vector<Token> found, vocabulary.encode(word));
    const auto unknown = static_cast<Token>(vocabulary.wordpiece()->unknown());
    if (std::find(found.begin(), found.end(), unknown) == found.end()) continue;
    return invalid_input("the network does not know '" + word + "'");
  }
  return tokens;
}

// No token is drawn that stands for no text.
Token draw(TokenLogits logits, const GenerationOptions& options, const Vocabulary& vocabulary,
           const kernels::SoftmaxKernels& softmax, uint64_t place) {
  std::vector<Token> order = by_logits(logits);
  std::erase_if(order, [&](Token token) { return vocabulary.is_special(token); });
  if (options.temperature == 0) return order[0];
  divide_by_temperature(options.temperature, logits);
  const std::vector<int32_t> probabilities = probabilities_of(logits, softmax);
  if (options.top_k > 0 && options.top_k < std::ssize(order)) order.resize(options.top_k);
  uint64_t sum = 0;
  for (const Token token : order) sum += static_cast<uint64_t>(probabilities[token]);
  if (sum == 0) return order[0];
  uint64_t left = uniform_below(random_bits(options.seed, RandomStream::kGenerate, 0, place), sum);
  for (const Token token : order) {
    const auto part = static_cast<uint64_t>(probabilities[token]);
    if (left < part) return token;
    left -= part;
  }
  return order.back();
}

}  // namespace

Result<std::string> generate_text(FrozenNetwork& network, const GenerationOptions& options,
                                  ThreadPool& pool, Isa isa, const TextObserver& observer) {
  MANTISSA_ASSIGN(const LanguageOptions language, language_options(network.description.network));
  if (language.task != TextTask::kNextToken) {
    const bool masks = language.task == TextTask::kMasks;
    return invalid_input("network '" + network.description.network.name +
                         (masks ? "' is a masked language model, for mantissa fill-mask"
                                : "' translates, with mantissa translate") +
                         ": it does not go on with a text");
  }
  MANTISSA_ASSIGN(const Vocabulary vocabulary, vocabulary_of(network.description));
  auto encoded = encode_prompt(vocabulary, options.prompt);
  if (!encoded.ok()) return invalid_input("prompt: " + encoded.error().message);
  std::vector<Token> tokens = std::move(*encoded);
  const kernels::KernelTable table = kernels::select_kernels(isa);
  MANTISSA_ASSIGN(
      const std::unique_ptr<Decoder> decoder,
      Decoder::create(network, {.positions = language.sequence, .form = options.form}, pool, isa));
  std::string text;
  for (int64_t i = 0; i < options.length; ++i) {
    const int64_t used = std::min<int64_t>(std::ssize(tokens), language.sequence);
    decoder->set(0, std::span(tokens).last(used));
    // Once a text is longer than the sequence, each token moves to another place with every new
    // one, and all are computed again.
    const bool goes_on = i > 0 && used == std::ssize(tokens);
    MANTISSA_RETURN_IF_ERROR(decoder->run(1, goes_on ? used - 1 : 0, used));
    const Token token =
        draw(decoder->logits(0), options, vocabulary, *table.softmax, static_cast<uint64_t>(i));
    tokens.push_back(token);
    const std::string piece = vocabulary.decode({&token, 1});
    text += piece;
    if (observer != nullptr && !observer(piece)) {
      return make_error(ErrorCode::kInterrupted, "interrupted while generating");
    }
  }
  return text;
}

}  // namespace mantissa
