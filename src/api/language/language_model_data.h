// The inside of a LanguageModel and of its Tokenizer.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "data/tokenizers/vocabulary.h"
#include "infer/frozen_network.h"
#include "infer/text/generate.h"
#include "mantissa/language.h"

namespace mantissa {

struct Tokenizer::Data {
  Vocabulary vocabulary;
};

struct LanguageModel::Data {
  FrozenNetwork network;
  ThreadPool pool;
  int threads;
  Isa isa;
  std::unique_ptr<Generator> generator;
  GenerationChoices choices;
  Data(FrozenNetwork loaded, int wanted, Isa allowed)
      : network(std::move(loaded)), pool(wanted), threads(wanted), isa(allowed) {}
};

// The tokens of a conversation. Errors as of Tokenizer::encode.
Result<std::vector<Token>> encode_messages(const Vocabulary& vocabulary,
                                           std::span<const ChatMessage> messages, bool asks);

}  // namespace mantissa
