#include "infer/text/fill_mask.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/batches/ordered_batches.h"
#include "data/text/text.h"
#include "infer/tasks/language.h"
#include "infer/text/token_logits.h"
#include "kernels/kernel_table.h"

namespace mantissa {
namespace {

// A text's tokens, and the places of its masks.
struct MaskedText {
  std::vector<int32_t> tokens;
  std::vector<int64_t> masks;
};

Result<MaskedText> encode(const Vocabulary& vocabulary, const std::string& text, int64_t sequence) {
  MaskedText result;
  for (size_t at = 0; at <= text.size();) {
    const size_t mask = text.find(kMaskName, at);
    const size_t end = std::min(mask, text.size());
    MANTISSA_ASSIGN(const std::vector<Token> part, vocabulary.encode(text.substr(at, end - at)));
    result.tokens.insert(result.tokens.end(), part.begin(), part.end());
    if (mask == std::string::npos) break;
    result.masks.push_back(std::ssize(result.tokens));
    result.tokens.push_back(*vocabulary.mask());
    at = mask + std::strlen(kMaskName);
  }
  if (result.masks.empty()) {
    return invalid_input("has no [MASK], which stands for what is to be found");
  }
  if (std::ssize(result.tokens) > sequence) {
    return invalid_input("has " + std::to_string(result.tokens.size()) +
                         " tokens; the network reads " + std::to_string(sequence));
  }
  return result;
}

std::vector<TokenGuess> guesses_of(const TokenLogits& logits, const Vocabulary& vocabulary,
                                   int64_t top, const kernels::SoftmaxKernels& softmax) {
  constexpr int kProbabilityFraction = 30, kMostSpecial = 5;
  const std::vector<int32_t> probabilities = probabilities_of(logits, softmax);
  std::vector<TokenGuess> guesses;
  for (const Token token : by_logits(logits, top + kMostSpecial)) {
    if (std::ssize(guesses) == top) break;
    if (vocabulary.is_special(token)) continue;
    guesses.push_back(
        {vocabulary.names()[token], std::ldexp(probabilities[token], -kProbabilityFraction)});
  }
  return guesses;
}

}  // namespace

Result<std::vector<std::vector<TokenGuess>>> fill_masks(FrozenNetwork& network,
                                                        const std::string& text, int64_t top,
                                                        ThreadPool& pool, Isa isa) {
  MANTISSA_ASSIGN(const LanguageOptions language, language_options(network.description.network));
  MANTISSA_ASSIGN(const Vocabulary vocabulary, vocabulary_of(network.description));
  if (language.task != TextTask::kMasks || !vocabulary.mask()) {
    return invalid_input("network '" + network.description.network.name +
                         "' is no masked language model, such as bert_tiny");
  }
  auto masked = encode(vocabulary, text, language.sequence);
  if (!masked.ok()) return invalid_input("text: " + masked.error().message);
  const auto length = static_cast<int32_t>(masked->tokens.size());
  masked->tokens.resize(static_cast<size_t>(language.sequence), 0);
  const std::vector<int32_t> segments(masked->tokens.size(), 0);
  const kernels::KernelTable table = kernels::select_kernels(isa);
  MANTISSA_ASSIGN(const Program program,
                  compile_inference(network.graph, network.description.format, 1, false,
                                    {&table, pool.size()}));
  MANTISSA_ASSIGN(const AlignedMemory arena, AlignedMemory::create(program.arena_bytes));
  Programs programs(network.graph, network.state, {pool, arena.span(), isa});
  programs.add(program);
  const std::vector<TensorSpec> specs = specs_for(TextTask::kMasks, language.sequence);
  MANTISSA_ASSIGN(OrderedBatches batches,
                  OrderedBatches::create(array_examples(1, {{specs[0], masked->tokens.data()},
                                                            {specs[1], segments.data()},
                                                            {specs[2], &length}}),
                                         1));
  MANTISSA_RETURN_IF_ERROR(programs.infer(batches.next()));
  std::vector<std::vector<TokenGuess>> result;
  for (const int64_t place : masked->masks) {
    result.push_back(
        guesses_of(logits_at(programs.outputs(), place), vocabulary, top, *table.softmax));
  }
  return result;
}

}  // namespace mantissa
