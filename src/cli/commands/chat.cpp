// chat: a conversation with a language model, line by line.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line/output.h"
#include "cli/commands/commands.h"
#include "cli/commands/printers.h"
#include "cli/terminal/process.h"
#include "cli/terminal/text.h"
#include "mantissa/language.h"

namespace mantissa::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostLineBytes = size_t{1} << 20;

// A line of standard input without its end; none at the end of the input. Longer ones are cut: they
// have more tokens than any model reads.
std::optional<std::string> read_turn() {
  std::string text;
  int c = std::getc(stdin);
  if (c == EOF) return std::nullopt;
  for (; c != EOF && c != '\n'; c = std::getc(stdin)) {
    if (text.size() < kMostLineBytes) text += static_cast<char>(c);
  }
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

bool is_blank_turn(const std::string& text) {
  return text.find_first_not_of(" \t") == std::string::npos;
}

// A model may draw bytes that are no UTF-8. Its turn is read again, and has U+FFFD for them.
std::string valid_text(const std::string& text) {
  const std::string json = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(json).get<std::string>();
}

class Conversation {
 public:
  Conversation(const CommandLine& line, LanguageModel model)
      : line_(line), model_(std::move(model)), choices_(model_.choices()) {
    choices_.keeps_positions = true;
    const std::string system = line.setting("system");
    if (!system.empty()) messages_.push_back({"system", system});
    kept_ = messages_.size();
  }

  // The answer to a turn, as it comes. A turn that cannot be answered is taken back.
  Outcome<GeneratedText> say_turn(const std::string& text) {
    messages_.push_back({"user", text});
    Outcome<GeneratedText> answer = answered();
    if (!answer.ok()) {
      messages_.pop_back();
      return answer;
    }
    messages_.push_back({"assistant", valid_text(answer->text)});
    ++choices_.seed;
    return answer;
  }

 private:
  Outcome<GeneratedText> answered() {
    const Outcome<Done> fits = forget();
    if (!fits.ok()) return fits.failure();
    Interrupt interrupt("the answer ends here", false);
    interrupt.begun();
    return model_.answer(messages_, choices_, [&](const std::string& piece) {
      if (!line_.json) print(printable_lines(piece));
      std::fflush(stdout);
      return !interrupt.requested();
    });
  }

  // Leaves out the first turns until a quarter of the sequence is there for the answer.
  Outcome<Done> forget() {
    const size_t before = messages_.size();
    while (true) {
      const Outcome<int64_t> tokens = model_.count_tokens(messages_);
      if (!tokens.ok()) return tokens.failure();
      const bool is_short = *tokens <= model_.sequence() - model_.sequence() / 4;
      if (is_short || messages_.size() < kept_ + 3) break;
      const auto first = messages_.begin() + static_cast<std::ptrdiff_t>(kept_);
      messages_.erase(first, first + 2);  // a question and its answer
    }
    if (messages_.size() < before) {
      say("mantissa chat: the first " + std::to_string(before - messages_.size()) +
          " turns are forgotten: the model reads " + std::to_string(model_.sequence()) +
          " tokens (--sequence)");
    }
    return Done{};
  }

  const CommandLine& line_;
  LanguageModel model_;
  GenerationChoices choices_;
  std::vector<ChatMessage> messages_;
  size_t kept_ = 0;  // of the first messages
};

void end_answer(const CommandLine& line, const GeneratedText& answer) {
  if (line.json) {
    const Json json = {{"role", "assistant"},
                       {"content", answer.text},
                       {"tokens", answer.tokens},
                       {"finish", finish_name(answer)}};
    return print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  print("\n");
  if (line.quiet || answer.finish != TextFinish::kLength) return;
  std::fflush(stdout);
  say("mantissa chat: the answer is cut after " + std::to_string(answer.tokens) +
      " tokens (--length, or the end of --sequence)");
}

}  // namespace

int run_chat(const CommandLine& line) {
  release_stop_signals();
  Outcome<LanguageModel> model = LanguageModel::load(line.settings);
  if (!model.ok()) return tell(line, model.failure());
  if (!model->has_chat_template()) {
    const auto why = model->count_tokens(std::vector{ChatMessage{"user", ""}});
    return tell(line, {Exit::kInvalidInput, line.setting("checkpoint") + ": " +
                                                why.failure().message + " (mantissa generate)"});
  }
  const bool is_terminal = isatty(0) != 0;
  Conversation conversation(line, std::move(*model));
  while (true) {
    if (is_terminal && !line.json) print("> ");
    std::fflush(stdout);
    const std::optional<std::string> text = read_turn();
    if (!text) break;
    if (is_blank_turn(*text)) continue;
    const Outcome<GeneratedText> answer = conversation.say_turn(*text);
    if (answer.ok()) {
      end_answer(line, *answer);
      continue;
    }
    const int code = tell(line, answer.failure());
    if (!is_terminal) return code;
  }
  if (is_terminal && !line.json) print("\n");
  return 0;
}

}  // namespace mantissa::cli
