// Language models in memory, and the settings of chat.
#include <utility>

#include "api/inference/generation_settings.h"
#include "api/inference/inference_config.h"
#include "api/inference/language_values.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "base/files/file_system.h"
#include "base/system/thread_pool.h"
#include "data/tokenizers/byte_bpe/chat_template.h"
#include "infer/tasks/language.h"
#include "mantissa/language.h"
#include "networks/network.h"
#include "start/load_language_model.h"

namespace mantissa {

struct LanguageModel::Data {
  FrozenNetwork network;
  ThreadPool pool;
  std::unique_ptr<Generator> generator;
  GenerationChoices choices;
  Data(FrozenNetwork loaded, int threads) : network(std::move(loaded)), pool(threads) {}
};

namespace {

struct ChatConfig : InferenceConfig {
  ModelFileChoices file;
  std::string system;
  GenerationOptions options;
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
    kDrawingSeed<ChatConfig>,
    kThreads<ChatConfig>,
    kIsa<ChatConfig>};
constexpr CommandOf<ChatConfig> kChatCommand = {"chat", kChatRows};

GenerationOptions options_of(const GenerationChoices& choices) {
  return {.length = choices.length,
          .temperature = choices.temperature,
          .top_k = choices.top_k,
          .seed = choices.seed,
          .keeps_positions = choices.keeps_positions,
          .stays_in_sequence = true};
}

Result<std::vector<Token>> encode_messages(const Vocabulary& vocabulary,
                                           const std::vector<ChatMessage>& messages) {
  if (!vocabulary.chat_refused().empty()) {
    return invalid_input("the model's chat template is not known here, and it goes on with texts "
                         "alone: " + vocabulary.chat_refused());
  }
  if (!vocabulary.chat()) {
    return invalid_input("the model has no chat template, and goes on with texts alone");
  }
  std::vector<ChatTurn> turns;
  for (const ChatMessage& message : messages) {
    const std::string& role = message.role;
    if (role != "system" && role != "user" && role != "assistant") {
      return invalid_input("the role of a message is none of system, user and assistant");
    }
    turns.push_back({role, message.content});
  }
  if (turns.empty()) return invalid_input("there is no message");
  return encode_chat(*vocabulary.byte_bpe(), *vocabulary.chat(), turns, true);
}

Result<GeneratedText> go_on_within(Generator& generator, std::string prompt,
                                   std::vector<Token> tokens, const GenerationChoices& choices,
                                   const LanguageModel::TextObserver& observer) {
  const auto count = std::ssize(tokens);
  if (count >= generator.sequence()) {
    return invalid_input("there are " + std::to_string(count) + " tokens, and the model reads " +
                         std::to_string(generator.sequence()) + ", its answer included");
  }
  MANTISSA_ASSIGN(TextGoneOn text,
                  generator.go_on(std::move(tokens), options_of(choices), observer));
  GeneratedText result = generated_text(std::move(prompt), std::move(text));
  result.prompt_tokens = count;
  return result;
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
  auto data = std::make_shared<Data>(std::move(network), config.threads);
  MANTISSA_ASSIGN(data->generator, Generator::create(data->network, DecodingForm::kCached,
                                                     data->pool, config.isa));
  data->choices = {.length = config.options.length,
                   .temperature = config.options.temperature,
                   .top_k = config.options.top_k,
                   .seed = config.options.seed};
  return LanguageModel(std::move(data));
}

bool LanguageModel::has_chat_template() const {
  return data_->generator->vocabulary().chat().has_value();
}

int64_t LanguageModel::sequence() const { return data_->generator->sequence(); }

const GenerationChoices& LanguageModel::choices() const { return data_->choices; }

Outcome<GeneratedText> LanguageModel::go_on(const std::string& prompt,
                                            const GenerationChoices& choices,
                                            const TextObserver& observer) const {
  MANTISSA_ASSIGN(std::vector<Token> tokens, data_->generator->encode_prompt(prompt));
  MANTISSA_ASSIGN(auto text, go_on_within(*data_->generator, prompt, std::move(tokens), choices,
                                          observer));
  return text;
}

Outcome<GeneratedText> LanguageModel::answer(const std::vector<ChatMessage>& messages,
                                             const GenerationChoices& choices,
                                             const TextObserver& observer) const {
  MANTISSA_ASSIGN(std::vector<Token> tokens,
                  encode_messages(data_->generator->vocabulary(), messages));
  MANTISSA_ASSIGN(auto text,
                  go_on_within(*data_->generator, "", std::move(tokens), choices, observer));
  return text;
}

Outcome<int64_t> LanguageModel::count_tokens(const std::string& prompt) const {
  MANTISSA_ASSIGN(const std::vector<Token> tokens, data_->generator->encode_prompt(prompt));
  return static_cast<int64_t>(std::ssize(tokens));
}

Outcome<int64_t> LanguageModel::count_tokens(const std::vector<ChatMessage>& messages) const {
  MANTISSA_ASSIGN(const std::vector<Token> tokens,
                  encode_messages(data_->generator->vocabulary(), messages));
  return static_cast<int64_t>(std::ssize(tokens));
}

}  // namespace mantissa
