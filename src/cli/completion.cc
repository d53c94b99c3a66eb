#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "support/shell.h"

namespace opbridge::cli {
namespace {

using support::shell_quoted;

struct Choice {
  std::string name;  // "--opset"
  std::string help;
  bool takes_value = false;
  std::vector<std::string> values = {};  // all that it takes; empty: a file or any text
};

struct Subcommand {
  std::string name;
  std::string help;
  std::vector<Choice> options;
  std::vector<Choice> positionals;
};

// The values of a type written as "onnxruntime|onnx", which CLI11 writes after a colon.
std::vector<std::string> values_of(const std::string& full) {
  const std::string type = full.substr(full.rfind(':') + 1);
  std::vector<std::string> values;
  if (type.find('|') == std::string::npos) return values;
  for (size_t start = 0; start <= type.size();) {
    const size_t end = std::min(type.find('|', start), type.size());
    values.push_back(type.substr(start, end - start));
    start = end + 1;
  }
  return values;
}

std::vector<Subcommand> subcommands_of(CLI::App& app) {
  std::vector<Subcommand> result;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    Subcommand command{each->get_name(), each->get_description(), {}, {}};
    for (const CLI::Option* option : each->get_options()) {
      const std::vector<std::string> values = values_of(option->get_type_name());
      if (option->get_positional()) {
        command.positionals.push_back({option->get_name(), option->get_description(), true, values});
        continue;
      }
      command.options.push_back({"--" + option->get_lnames().front(), option->get_description(),
                                 option->get_items_expected_max() > 0, values});
    }
    result.push_back(std::move(command));
  }
  return result;
}

// The words that a command takes besides its options. Empty: files.
std::string words_of(const Subcommand& command) {
  std::vector<std::string> words;
  for (const Choice& each : command.positionals)
    words.insert(words.end(), each.values.begin(), each.values.end());
  return fmt::format("{}", fmt::join(words, " "));
}

// Names, separated by spaces.
template <class Items>
std::string names(const Items& items) {
  std::vector<std::string> all;
  for (const auto& each : items) all.push_back(each.name);
  return fmt::format("{}", fmt::join(all, " "));
}

std::string bash(const std::vector<Subcommand>& commands) {
  std::string values, options;
  std::map<std::string, std::string> by_option;
  for (const Subcommand& command : commands) {
    options += fmt::format("    {}) options='{}' words='{}' ;;\n", command.name, names(command.options),
                           words_of(command));
    for (const Choice& option : command.options) {
      if (!option.values.empty()) by_option[option.name] = fmt::format("{}", fmt::join(option.values, " "));
    }
  }
  for (const auto& [name, words] : by_option)
    values += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n", name, words);
  return fmt::format(R"(_opbridge() {{
  local options='' words='' current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  # "--target=onnx" is three words.
  if [ "$current" = = ]; then
    current=''
  elif [ "$previous" = = ]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{}' -- "$current"))
    return
  fi
  case $previous in
{}  esac
  case ${{COMP_WORDS[1]}} in
{}  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *)
      if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
      else
        COMPREPLY=($(compgen -f -- "$current"))
      fi ;;
  esac
}}
complete -o filenames -F _opbridge opbridge
)",
                     names(commands), values, options);
}

std::string zsh(const std::vector<Subcommand>& commands) {
  // Escapes the separators of _arguments and _describe.
  const auto text = [](const std::string& help) {
    std::string result;
    for (const char c : help) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
      result += c;
    }
    return result;
  };
  std::string described, cases;
  for (const Subcommand& command : commands) {
    described +=
        fmt::format("    {}\n", shell_quoted(fmt::format("{}:{}", command.name, text(command.help))));
    cases += fmt::format("    {})\n      _arguments \\\n", command.name);
    const auto values = [](const Choice& choice) {
      return choice.values.empty() ? "_files" : fmt::format("({})", fmt::join(choice.values, " "));
    };
    for (const Choice& option : command.options) {
      const std::string value = option.takes_value ? ":value:" + values(option) : "";
      cases += fmt::format("        {} \\\n",
                           shell_quoted(fmt::format("{}{}[{}]{}", option.name, option.takes_value ? "=" : "",
                                                    text(option.help), value)));
    }
    for (const Choice& each : command.positionals)
      cases += fmt::format("        {} \\\n", shell_quoted(fmt::format(":{}:{}", each.name, values(each))));
    cases += "        ;;\n";
  }
  return fmt::format(R"(#compdef opbridge
_opbridge() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
compdef _opbridge opbridge
)",
                     described, cases);
}

std::string fish(const std::vector<Subcommand>& commands) {
  std::string text;
  for (const Subcommand& command : commands) {
    text += fmt::format("complete -c opbridge -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                        shell_quoted(command.help));
    if (const std::string words = words_of(command); !words.empty())
      text += fmt::format("complete -c opbridge -n '__fish_seen_subcommand_from {}' -f -a {}\n", command.name,
                          shell_quoted(words));
    for (const Choice& option : command.options) {
      std::string value;
      if (option.takes_value)
        value =
            option.values.empty()
                ? " -r"
                : fmt::format(" -x -a {}", shell_quoted(fmt::format("{}", fmt::join(option.values, " "))));
      text += fmt::format("complete -c opbridge -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n",
                          command.name, option.name.substr(2), value, shell_quoted(option.help));
    }
  }
  return text;
}

}  // namespace

void add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print the completion of this command for a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command->footer(
      "bash:  opbridge completion bash > ~/.local/share/bash-completion/completions/opbridge\n"
      "zsh:   opbridge completion zsh > ~/.zfunc/_opbridge, with fpath+=~/.zfunc before compinit in "
      "~/.zshrc\n"
      "fish:  opbridge completion fish > ~/.config/fish/completions/opbridge.fish");
  command->callback([&app, shell] {
    const std::vector<Subcommand> commands = subcommands_of(app);
    print(*shell == "bash" ? bash(commands) : *shell == "zsh" ? zsh(commands) : fish(commands));
  });
}

}  // namespace opbridge::cli
