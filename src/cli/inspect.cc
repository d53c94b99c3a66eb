#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "opbridge/frontend.h"
#include "opbridge/ir.h"

namespace opbridge::cli {

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Print what a model holds");
  auto model = std::make_shared<std::string>();
  command->add_option("model", *model, "An exported program (.pt2)")->required();
  command->callback([model] {
    const std::string text = ir::print(load_exported_program(*model));
    std::fwrite(text.data(), 1, text.size(), stdout);
  });
}

}  // namespace opbridge::cli
