// The subcommands of `opbridge`. Each function adds its subcommand to the command line; parsing runs it. An
// opbridge::Error that it throws becomes one message and an exit status: 3 for Error(internal), 2 for others.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string_view>
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

// The option --target, which sets `target`.
void add_target(CLI::App& command, Target& target);

// The mappings that opbridge ships and those of the operators in `libraries`.
SymbolicRegistry mappings(const std::vector<std::filesystem::path>& libraries);

}  // namespace opbridge::cli
