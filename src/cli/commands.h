// The subcommands of `opbridge`. Each adds itself to the command line and runs from there; an opbridge::Error
// that leaves it becomes one message and exit status 2.
#pragma once

#include <CLI/CLI.hpp>

namespace opbridge::cli {

void add_convert(CLI::App& app);
void add_inspect(CLI::App& app);
void add_verify(CLI::App& app);
void add_new_op(CLI::App& app);

}  // namespace opbridge::cli
