// Language models in memory, and the settings of chat.
#include <algorithm>
#include <utility>

#include "api/inference/generation_settings.h"
#include "api/inference/inference_config.h"
#include "api/inference/language_values.h"
#include "api/language/language_model_data.h"
#include "api/language/stop_search.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "base/files/file_system.h"
#include "infer/tasks/language.h"
#include "mantissa/language.h"
#include "networks/adapters.h"
#include "networks/network.h"
#include "start/load_language_model.h"

namespace mantissa {
namespace {

struct ChatConfig : InferenceConfig {
  ModelFileChoices file;
  std::string system;
  GenerationOptions options;
  int64_t memory_budget = 0;  // bytes; 0: none
};

constexpr SettingOf<ChatConfig> kChatRows[] = {
    kModelCheckpoint<ChatConfig>,
    kModelFormat<ChatConfig>,
    model_sequence<ChatConfig>(kPositionsHelp),
    {"system", "the system turn (left out: that of the model's template, if it has one)", "",
     parse_text<&ChatConfig::system>},
    length_row<ChatConfig>("512"),
    temperature_row<ChatConfig>("0.7"),
    top_k_row<ChatConfig>("40"),
    kTopP<ChatConfig>,
    kDrawingSeed<ChatConfig>,
    kGenerationBudget<ChatConfig>,
    kThreads<ChatConfig>,
    kIsa<ChatConfig>};
constexpr CommandOf<ChatConfig> kChatCommand = {"chat", kChatRows};

GenerationOptions options_of(const GenerationChoices& choices) {
  return {.length = choices.length,
          .temperature = choices.temperature,
          .top_k = choices.top_k,
          .top_p = choices.top_p,
          .seed = choices.seed,
          .keeps_positions = choices.keeps_positions,
          .stays_in_sequence = choices.stays_in_sequence};
}

Status check_choices(const GenerationChoices& choices) {
  if (choices.length < 1 || choices.length > kMostDrawn) {
    return invalid_input("length: must be 1 to " + std::to_string(kMostDrawn) + " tokens");
  }
  if (!(choices.temperature >= 0 && choices.temperature <= kMostTemperature)) {
    return invalid_input("temperature: must be 0 to 100");
  }
  if (choices.top_k < 0 || choices.top_k > kMostDrawn) {
    return invalid_input("top-k: must be 0 to " + std::to_string(kMostDrawn));
  }
  if (!(choices.top_p > 0 && choices.top_p <= 1)) {
    return invalid_input("top-p: must be above 0, and at most 1");
  }
  const bool has_empty = std::ranges::any_of(choices.stop, &std::string::empty);
  if (has_empty) return invalid_input("stop: a stop text is empty");
  return {};
}

// The text after the tokens, up to a stop text.
Result<GeneratedText> go_on_to_stops(Generator& generator, std::string prompt,
                                     std::vector<Token> tokens, const GenerationChoices& choices,
                                     const LanguageModel::TextObserver& observer) {
  const auto count = std::ssize(tokens);
  StopSearch stops(choices.stop);
  std::string text;
  const auto shows = [&](const std::string& piece) {
    text += piece;
    return observer == nullptr || piece.empty() || observer(piece);
  };
  MANTISSA_ASSIGN(TextGoneOn found,
                  generator.go_on(std::move(tokens), options_of(choices),
                                  [&](const std::string& piece) {
                                    return shows(stops.add(piece)) && !stops.has_found();
                                  }));
  const std::string rest = stops.rest();
  const bool goes_on = found.end != TextEnd::kStopped;
  if (goes_on && !shows(rest)) found.end = TextEnd::kStopped;
  if (!goes_on) text += rest;
  found.text = std::move(text);
  GeneratedText result = generated_text(std::move(prompt), std::move(found));
  if (stops.has_found()) result.finish = TextFinish::kStop;
  result.prompt_tokens = count;
  return result;
}

Result<GeneratedText> go_on_with(LanguageModel::Data& data, std::string prompt,
                                 Result<std::vector<Token>> tokens,
                                 const GenerationChoices& choices,
                                 const LanguageModel::TextObserver& observer) {
  MANTISSA_RETURN_IF_ERROR(check_choices(choices));
  if (!tokens.ok()) return tokens.error();
  const int64_t sequence = data.generator->sequence();
  if (choices.stays_in_sequence && std::ssize(*tokens) >= sequence) {
    return invalid_input("there are " + std::to_string(tokens->size()) +
                         " tokens, and the model reads " + std::to_string(sequence) +
                         ", its answer included");
  }
  data.pool.revive();
  return go_on_to_stops(*data.generator, std::move(prompt), std::move(*tokens), choices, observer);
}

}  // namespace

CommandInfo chat_command() { return info_of<kChatCommand>(); }

Outcome<bool> is_language_model(const std::string& checkpoint) {
  MANTISSA_ASSIGN(const bool is_imported, is_imported_language_model(checkpoint));
  if (is_imported) return true;
  MANTISSA_ASSIGN(const std::string path, network_file(checkpoint));
  MANTISSA_ASSIGN(const FrozenNetwork network, load_frozen(path));
  if (!reads_tokens(network.description.network)) return false;
  const auto language = language_options(network.description.network);
  return language.ok() && language->task == TextTask::kNextToken;
}

Outcome<LanguageModel> LanguageModel::load(const Settings& settings) {
  MANTISSA_ASSIGN(const ChatConfig config, read_settings(kChatCommand, settings));
  MANTISSA_ASSIGN(FrozenNetwork network,
                  load_network(config.checkpoint, config.file, kUsualPositions));
  auto data = std::make_shared<Data>(std::move(network), config.threads, config.isa);
  MANTISSA_ASSIGN(data->generator, Generator::create(data->network, DecodingForm::kCached,
                                                     data->pool, config.isa));
  MANTISSA_RETURN_IF_ERROR(check_generation_budget(*data->generator, config.memory_budget));
  data->choices = {.length = config.options.length,
                   .temperature = config.options.temperature,
                   .top_k = config.options.top_k,
                   .top_p = config.options.top_p,
                   .seed = config.options.seed};
  return LanguageModel(std::move(data));
}

bool LanguageModel::has_chat_template() const {
  return data_->generator->vocabulary().chat().has_value();
}

int64_t LanguageModel::sequence() const { return data_->generator->sequence(); }

const GenerationChoices& LanguageModel::choices() const { return data_->choices; }

std::string LanguageModel::format() const {
  return to_string(data_->network.description.format);
}

int64_t LanguageModel::adapter_rank() const {
  return lora_of(data_->network.description.network).rank;
}

Tokenizer LanguageModel::tokenizer() const {
  Tokenizer::Data data{data_->generator->vocabulary()};
  return Tokenizer(std::make_shared<Tokenizer::Data>(std::move(data)));
}

Outcome<GeneratedText> LanguageModel::go_on(const std::string& prompt,
                                            const GenerationChoices& choices,
                                            const TextObserver& observer) const {
  MANTISSA_ASSIGN(auto text, go_on_with(*data_, prompt, data_->generator->encode_prompt(prompt),
                                        choices, observer));
  return text;
}

Outcome<GeneratedText> LanguageModel::answer(const std::vector<ChatMessage>& messages,
                                             const GenerationChoices& choices,
                                             const TextObserver& observer) const {
  MANTISSA_ASSIGN(
      auto text,
      go_on_with(*data_, "", encode_messages(data_->generator->vocabulary(), messages, true),
                 choices, observer));
  return text;
}

Outcome<int64_t> LanguageModel::count_tokens(const std::string& prompt) const {
  MANTISSA_ASSIGN(const std::vector<Token> tokens, data_->generator->encode_prompt(prompt));
  return static_cast<int64_t>(std::ssize(tokens));
}

Outcome<int64_t> LanguageModel::count_tokens(const std::vector<ChatMessage>& messages) const {
  MANTISSA_ASSIGN(const std::vector<Token> tokens,
                  encode_messages(data_->generator->vocabulary(), messages, true));
  return static_cast<int64_t>(std::ssize(tokens));
}

}  // namespace mantissa
