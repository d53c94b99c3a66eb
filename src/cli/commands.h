// The subcommands of `opbridge`. Each adds itself to the command line and runs from there; an opbridge::Error
// that leaves it becomes one message and an exit status: 3 for Error(internal), 2 for others.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string_view>
#include <vector>

#include "opbridge/registry.h"

namespace opbridge::cli {

void add_convert(CLI::App& app);
void add_doctor(CLI::App& app);
void add_inspect(CLI::App& app);
void add_verify(CLI::App& app);
void add_new_op(CLI::App& app);

// To the standard output; throws Error(io) where that takes no more.
void print(std::string_view text);

// The mappings that opbridge ships, and those of the operators in `libraries`.
SymbolicRegistry mappings(const std::vector<std::filesystem::path>& libraries);

}  // namespace opbridge::cli
