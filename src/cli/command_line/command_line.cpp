#include "cli/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <span>
#include <sstream>
#include <string_view>

#include "cli/command_line/command_table.h"
#include "cli/command_line/suggest.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/text.h"
#include "mantissa/choices.h"

namespace mantissa::cli {
namespace {

constexpr int kMostValues = 1 << 20;  // of a setting that takes a list

constexpr const char* kExamples =
    "  mantissa train --model resnet8 --data fashion-mnist --epochs 3 --out runs/a\n"
    "  mantissa eval --checkpoint runs/a --data fashion-mnist\n"
    "  mantissa predict --checkpoint runs/a --data fashion-mnist --index 0-9\n";
constexpr const char* kNotes =
    "mantissa COMMAND --help lists a command's options. Results go to standard output, messages "
    "and progress to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 3 "
    "over the memory budget, 130 interrupted.";

constexpr int kNameColumns = 30;  // of options and commands in a help text

// Columns that a help text takes.
int help_columns() { return std::clamp(describe_terminal(1).width(), 60, 100); }

// The values of a command's options while it is parsed.
struct Options {
  std::map<std::string, std::string> values;
  std::map<std::string, bool> switches;
};

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : command_table()) names.emplace_back(command.name);
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

int usage_error(const std::string& command, const std::string& problem) {
  const std::string name = "mantissa" + (command.empty() ? "" : " " + command);
  write_message(2, name + ": " + printable(problem) + " (" + name + " --help)\n");
  return static_cast<int>(Exit::kInvalidInput);
}

void add_options(CLI::App& app, const Command& command, Options& options, CommandLine& line) {
  const int help_width = help_columns() - kNameColumns - 1;
  for (const SettingInfo& setting : offered_settings(command.name)) {
    const bool has_letter = setting.name == command.letter_of;
    const std::string name = (has_letter ? "-n,--" : "--") + setting.name;
    const bool has_default = !setting.is_switch && !setting.default_value.empty();
    const std::string help =
        wrapped(setting.help + (has_default ? " (default: " + setting.default_value + ")" : ""),
                help_width);
    if (setting.is_switch) {
      app.add_flag(name, options.switches[setting.name], help);
    } else {
      const bool stands_alone = setting.name == command.standing_alone;
      CLI::Option* option = app.add_option((stands_alone ? setting.name + "," : "") + name,
                                           options.values[setting.name], help);
      option->option_text(setting.is_list ? "VALUE ..." : "VALUE")
          ->multi_option_policy(setting.is_list ? CLI::MultiOptionPolicy::Join
                                                : CLI::MultiOptionPolicy::TakeLast);
      if (setting.is_list) option->expected(1, kMostValues);
    }
  }
  if (const PathsInfo& paths = command.paths; paths.most > 0) {
    app.add_option(paths.label, line.paths, wrapped(paths.help, help_width))
        ->option_text(" ")
        ->expected(0, INT16_MAX);  // check_paths says how many
  }
  app.add_flag("--json", line.json, "print the result as JSON");
  app.add_flag("--quiet", line.quiet,
               wrapped("show no progress, and results in short", help_width));
}

// Names and a line about each, in two columns.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows) {
  int widest = 0;
  for (const auto& [name, about] : rows) widest = std::max(widest, columns(name));
  std::string text;
  for (const auto& [name, about] : rows) {
    std::string left = pad_right(name, widest);
    const std::string right = wrapped(about, help_columns() - widest - 4);
    for (size_t at = 0; at < right.size();) {
      const size_t end = std::min(right.find('\n', at), right.size());
      text += "  " + left + "  " + right.substr(at, end - at) + "\n";
      left.assign(left.size(), ' ');
      at = end + 1;
    }
  }
  return text;
}

// Command lines, one a line: too long ones go on in the next, as a shell takes them.
std::string examples(const std::string& lines) {
  std::string text = "Examples:\n";
  std::istringstream rest(lines);
  for (std::string line; std::getline(rest, line);) {
    while (columns(line) > help_columns()) {
      const size_t option = line.rfind(" --", static_cast<size_t>(help_columns()) - 2);
      if (option == std::string::npos || option < 8) break;
      text += line.substr(0, option) + " \\\n";
      line = "     " + line.substr(option);
    }
    text += line + "\n";
  }
  return text;
}

std::string footer(const Command& command) {
  std::string text = examples(command.examples);
  if (*command.notes != '\0') text += "\n" + wrapped(command.notes, help_columns()) + "\n";
  bool takes_network = false;
  for (const SettingInfo& setting : offered_settings(command.name)) {
    takes_network |= setting.name == "model";
  }
  if (takes_network) text += "\nNetworks:\n" + two_columns(built_in_models());
  text.pop_back();
  return text;
}

// The first argument that no option took.
std::optional<int> check_leftovers(const CLI::App& app, const std::string& command) {
  std::vector<std::string> rest = app.remaining();
  if (rest.empty()) {
    // Arguments before the command, or after "--", are left to the parent.
    rest = app.get_parent()->remaining();
    if (rest.empty()) return std::nullopt;
    if (rest[0].starts_with("-")) {
      return usage_error("", "options follow the command: put '" + rest[0] + "' after " + command);
    }
  }
  const std::string word = rest[0].substr(0, rest[0].find('='));
  if (!word.starts_with("-")) {
    return usage_error(command, "unexpected argument '" + word + "'");
  }
  std::vector<std::string> names = {"json", "quiet", "help"};
  for (const SettingInfo& setting : offered_settings(command)) names.push_back(setting.name);
  const std::string bare = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  return usage_error(command, "unknown option '" + word + "'" + did_you_mean(bare, names, "--"));
}

// "--model --data x" means that a value was forgotten.
std::optional<int> check_values(const CLI::App& app, const std::string& command) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.starts_with("--")) {
        return usage_error(command,
                           option->get_name() + " needs a value, but '" + value + "' follows");
      }
    }
  }
  return std::nullopt;
}

// As many arguments without an option as the command wants.
std::optional<int> check_paths(const CommandLine& line) {
  const PathsInfo& paths = command_of(line.command).paths;
  if (line.paths.size() >= paths.least && line.paths.size() <= paths.most) return std::nullopt;
  const std::string wanted = paths.least == paths.most ? std::to_string(paths.least)
                             : line.paths.size() > paths.most
                                 ? "at most " + std::to_string(paths.most)
                                 : "at least " + std::to_string(paths.least);
  return usage_error(line.command, "wants " + wanted + " of " + paths.label + " (" + paths.help +
                                       "), not " + std::to_string(line.paths.size()));
}

int unknown_command(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(), names = command_names();
  if (rest.empty()) {
    write_message(2, app.help());
    return static_cast<int>(Exit::kInvalidInput);
  }
  const std::string list = " the commands are " + joined(names);
  if (rest[0].starts_with("-")) {
    return usage_error("", "unknown option '" + rest[0] + "';" + list);
  }
  const std::string guess = did_you_mean(rest[0], names, "");
  return usage_error("",
                     "unknown command '" + rest[0] + "'" + (guess.empty() ? ";" : guess) + list);
}

// One line for the error that CLI11 found.
int parse_error(const CLI::ParseError& error, const std::string& command) {
  const std::string text = error.what();
  const std::string option = text.substr(0, text.find(':'));
  if (error.get_name() == "ArgumentMismatch" && option.starts_with("--")) {
    return usage_error(command, option + " needs a value");
  }
  // Only switches convert what they are given.
  if (error.get_name() == "ConversionError") {
    return usage_error(command, "a switch takes no value (" + text.substr(text.find("--")) + ")");
  }
  return usage_error(command, text);
}

// "RUN..." where CLI11 would write "RUN(2x)", and descriptions in lines.
struct HelpFormatter : CLI::Formatter {
  std::string make_subcommand(const CLI::App* sub) const override {
    std::stringstream out;
    CLI::detail::format_help(out, sub->get_name(),
                             wrapped(sub->get_description(), help_columns() - kNameColumns - 1),
                             kNameColumns);
    return out.str();
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), help_columns()) + "\n";
  }
  std::string make_option_usage(const CLI::Option* option) const override {
    return make_option_name(option, true) + (option->get_expected_max() > 1 ? "..." : "");
  }
};

void describe(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("OPTIONS", "OPTIONS");
  app.get_formatter()->column_width(kNameColumns);
  app.name("mantissa");
  app.footer(examples(kExamples) + "\n" + wrapped(kNotes, help_columns()));
  app.set_help_flag("-h,--help", "show this help");
  app.set_version_flag(
      "--version", [] { return "mantissa " + info()->version; }, "show the version");
  app.require_subcommand(0, 1);
  app.allow_extras();
}

}  // namespace

std::optional<int> parse_command_line(int argc, const char* const* argv, CommandLine& line) {
  line.program = argc > 0 ? argv[0] : "mantissa";
  for (int i = 1; i < argc; ++i) line.arguments.emplace_back(argv[i]);
  CLI::App app("Mantissa trains neural networks in integers.");
  describe(app);
  Options options;
  for (const Command& command : command_table()) {
    CLI::App* sub = app.add_subcommand(command.name, command.description)->group("Commands");
    add_options(*sub, command, options, line);
    sub->footer(footer(command));
  }
  // The command that launch starts has options of its own.
  const bool launches = argc > 1 && std::string_view(argv[1]) == "launch";
  const auto begin = std::span(argv, static_cast<size_t>(argc));
  const auto end = launches ? std::ranges::find(begin, std::string_view("--")) : begin.end();
  try {
    app.parse(static_cast<int>(end - begin.begin()), argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::printf("%s\n", version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    return parse_error(error, chosen.empty() ? "" : chosen[0]->get_name());
  }
  if (app.get_subcommands().empty()) return unknown_command(app);
  const CLI::App& chosen = *app.get_subcommands()[0];
  line.command = chosen.get_name();
  if (const auto code = check_values(chosen, line.command)) return code;
  if (const auto code = check_leftovers(chosen, line.command)) return code;
  if (const auto code = check_paths(line)) return code;
  if (end != begin.end()) line.paths.assign(end + 1, begin.end());
  for (const SettingInfo& setting : offered_settings(line.command)) {
    if (chosen.count("--" + setting.name) == 0) continue;
    const std::string& value = options.values[setting.name];
    // "--statistics=false" overrides a configuration file.
    const char* state = options.switches[setting.name] ? "true" : "false";
    line.settings[setting.name] = setting.is_switch ? state : value;
  }
  return std::nullopt;
}

std::string CommandLine::setting(const std::string& name) const {
  if (const auto found = settings.find(name); found != settings.end()) return found->second;
  for (const SettingInfo& info : offered_settings(command)) {
    if (info.name == name) return info.default_value;
  }
  return "";
}

std::vector<SettingInfo> offered_settings(const std::string& command) {
  std::vector<SettingInfo> settings = settings_of(command);
  if (command != "info") return settings;
  for (const SettingInfo& setting : settings_of("train")) {
    if (setting.name == "isa") settings.push_back(setting);
  }
  settings.push_back({"graph", "print the network of --model or PATH as JSON", "", true});
  settings.push_back({"tensors", "list the tensors of PATH, with exponents and bit use", "", true});
  return settings;
}

const Command& command_of(const std::string& name) {
  const auto table = command_table();
  return *std::find_if(table.begin(), table.end(),
                       [&name](const Command& command) { return name == command.name; });
}

std::string command_text(const std::string& program, const std::string& command,
                         const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<std::string> words = {program, command};
  const std::vector<SettingInfo> offered = offered_settings(command);
  for (const auto& [name, value] : settings) {
    const bool known = std::any_of(offered.begin(), offered.end(),
                                   [&name = name](const auto& s) { return s.name == name; });
    if (!known || value.empty()) continue;
    words.push_back("--" + name);
    // A path is not to be taken for an option.
    const bool like_an_option = value[0] == '-' && choices_of(name).is_path;
    words.push_back((like_an_option ? "./" : "") + value);
  }
  return shell_line(words);
}

std::string resume_text(const CommandLine& line) {
  std::vector<std::string> words = {line.program};
  bool resumes = false;
  for (const std::string& argument : line.arguments) {
    if (argument.starts_with("--overwrite")) continue;
    resumes = resumes || argument == "--resume";
    words.push_back(argument);
  }
  if (!resumes) words.emplace_back("--resume");
  return shell_line(words);
}

}  // namespace mantissa::cli
