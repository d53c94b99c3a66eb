#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "opbridge/schema.h"
#include "scaffold/write_files.h"

namespace opbridge::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string schema;
  std::string directory;
};

void run(const Options& options) {
  std::string line = options.schema;
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  const OperatorSchema schema = parse_schema(line);
  const std::string name = schema.name.substr(schema.name.find("::") + 2);
  const fs::path directory = options.directory.empty() ? fs::path(name) : fs::path(options.directory);
  scaffold::write_project(directory, schema, line);
  print(fmt::format(
      "{0}: write `reference` in tests/test_{1}.py and the kernel in {1}.cc, then run pytest there\n"
      "{0}/README.md says more, and names the pages of opbridge's site that explain these files\n",
      directory.string(), name));
}

}  // namespace

void add_new_op(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("new-op", "Start a project for an operator of your own");
  command->add_option("schema", options->schema, "\"ns::name(Tensor a, int n) -> Tensor\"")->required();
  command->add_option("--directory", options->directory,
                      "The folder to create; named after the operator by default");
  command->callback([options] { run(*options); });
}

}  // namespace opbridge::cli
