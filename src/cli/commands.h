// The subcommands of `opbridge`. Each function adds its subcommand to the command line; parsing runs it. An
// opbridge::Error that it throws becomes one message and an exit status: 3 for Error(internal), 2 for others.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opbridge/convert.h"

namespace opbridge::cli {

void add_convert(CLI::App& app);
void add_compare(CLI::App& app);
void add_doctor(CLI::App& app);
void add_inspect(CLI::App& app);
void add_verify(CLI::App& app);
void add_new_op(CLI::App& app);
void add_completion(CLI::App& app);

// Writes to standard output; throws Error(io) if that fails.
void print(std::string_view text);

// Accepts only these words.
CLI::Validator one_of(std::vector<std::string> words);

// Accepts only the names of `choices`, and sets the option to the enum value of the name.
template <class T>
CLI::Validator one_of(const std::map<std::string, T>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  CLI::Validator validator = one_of(std::move(names));
  validator.operation([check = validator, choices](std::string& text) {
    std::string wrong = check(text);
    if (wrong.empty()) text = std::to_string(static_cast<int>(choices.at(text)));
    return wrong;
  });
  return validator;
}

// The option --target, which sets `target`.
void add_target(CLI::App& command, Target& target);

// The option --ops, which adds one library to `libraries` each time that it is given.
void add_libraries(CLI::App& command, std::vector<std::filesystem::path>& libraries, const std::string& help);

// The mappings that opbridge ships and those of the operators in `libraries`.
SymbolicRegistry mappings(const std::vector<std::filesystem::path>& libraries);

}  // namespace opbridge::cli
