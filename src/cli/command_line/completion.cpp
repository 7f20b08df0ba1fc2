#include "cli/command_line/completion.h"

#include "cli/command_line/command_line.h"
#include "cli/command_line/command_table.h"
#include "mantissa/choices.h"

namespace mantissa::cli {
namespace {

// An option as a shell is told of it.
struct Completion {
  std::string name, help;
  bool takes_value = true;
  Choices choices;
};

std::vector<Completion> options_of(const std::string& command) {
  std::vector<Completion> options;
  for (const SettingInfo& setting : offered_settings(command)) {
    options.push_back({setting.name, setting.help, !setting.is_switch, choices_of(setting.name)});
  }
  options.push_back({"json", "print the result as JSON", false, {}});
  options.push_back({"quiet", "show no progress, and results in short", false, {}});
  options.push_back({"help", "show help", false, {}});
  return options;
}

std::string spaced(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// `text` with a backslash before each character that is in `special`, without quotes and newlines.
std::string guarded(const std::string& text, const std::string& special) {
  std::string result;
  for (const char c : text) {
    if (c == '\'' || c == '\n') {
      result += ' ';
      continue;
    }
    if (special.find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

// With nothing in COMPREPLY, "-o default" completes files, which suits paths.
std::string bash_script() {
  std::string names, cases, options;
  for (const Command& row : command_table()) {
    const std::string command = row.name;
    names += (names.empty() ? "" : " ") + command;
    std::string flags;
    for (const Completion& option : options_of(command)) {
      flags += (flags.empty() ? "--" : " --") + option.name;
      if (!option.takes_value) continue;
      cases += "    '" + command + " --" + option.name + "') words='" +
               spaced(option.choices.values) + "' files=" + (option.choices.is_path ? "1" : "0") +
               " ;;\n";
    }
    options += "      " + command + ") words='" + flags + "' ;;\n";
  }
  return "# bash completion of mantissa: source <(mantissa completion bash)\n"
         "_mantissa() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "  local command=${COMP_WORDS[1]} words='' files=0 value=1\n"
         "  # bash takes --name=value apart at the equals sign.\n"
         "  [[ $current == '=' ]] && current=\n"
         "  [[ $previous == '=' ]] && previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W '" +
         names +
         " --help --version' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$command $previous\" in\n" +
         cases +
         "    *) value=0 ;;\n"
         "  esac\n"
         "  if ((!value)) && [[ $current == -* ]]; then\n"
         "    case $command in\n" +
         options +
         "    esac\n"
         "  elif ((!value)); then\n"
         "    [[ $command == completion ]] && words='" +
         spaced(completed_shells()) +
         "' || files=1\n"
         "  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  ((files)) || compopt +o default 2>/dev/null\n"
         "}\n"
         "complete -o default -F _mantissa mantissa\n";
}

std::string zsh_script() {
  std::string names, cases;
  for (const Command& row : command_table()) {
    const std::string command = row.name;
    names += "    '" + command + ":" + guarded(row.description, ":\\") + "'\n";
    cases += "    " + command + ")\n      _arguments \\\n";
    for (const Completion& option : options_of(command)) {
      cases += "        '--" + option.name + (option.takes_value ? "=" : "") + "[" +
               guarded(option.help, "[]\\:") + "]";
      if (option.takes_value && option.choices.is_path) {
        cases += ":" + option.name + ":_files";
      } else if (option.takes_value) {
        cases += ":" + option.name + ":(" + guarded(spaced(option.choices.values), ":\\()") + ")";
      }
      cases += "' \\\n";
    }
    cases += command == "completion" ? "        '*:shell:(" + spaced(completed_shells()) + ")' ;;\n"
                                     : std::string("        '*:file:_files' ;;\n");
  }
  return "#compdef mantissa\n"
         "# zsh completion of mantissa: put this into a file _mantissa in a folder of $fpath\n"
         "_mantissa() {\n"
         "  local -a names\n"
         "  names=(\n" +
         names +
         "  )\n"
         "  if ((CURRENT == 2)); then\n"
         "    _describe command names\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _mantissa ]]; then _mantissa \"$@\"; else compdef _mantissa "
         "mantissa; fi\n";
}

std::string fish_script() {
  std::string text =
      "# fish completion of mantissa: mantissa completion fish > "
      "~/.config/fish/completions/mantissa.fish\n";
  for (const Command& row : command_table()) {
    const std::string command = row.name;
    text += "complete -c mantissa -n __fish_use_subcommand -f -a " + command + " -d '" +
            guarded(row.description, "\\") + "'\n";
    for (const Completion& option : options_of(command)) {
      text +=
          "complete -c mantissa -n '__fish_seen_subcommand_from " + command + "' -l " + option.name;
      if (option.takes_value) text += option.choices.is_path ? " -r -F" : " -x";
      const std::string values = spaced(option.choices.values);
      if (!values.empty()) text += " -a '" + guarded(values, "\\") + "'";
      text += " -d '" + guarded(option.help, "\\") + "'\n";
    }
  }
  return text + "complete -c mantissa -n '__fish_seen_subcommand_from completion' -f -a '" +
         spaced(completed_shells()) + "'\n";
}

}  // namespace

std::vector<std::string> completed_shells() { return {"bash", "zsh", "fish"}; }

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  return "";
}

}  // namespace mantissa::cli
