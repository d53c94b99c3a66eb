#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "cli/commands.h"
#include "cli/operator_project.h"
#include "opbridge/error.h"

namespace opbridge::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string schema;
  std::string directory;
};

void write(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (error || !file) throw Error(ErrorCode::io, "cannot write " + path.string());
}

void run(const Options& options) {
  std::string line = options.schema;
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  const OperatorSchema schema = parse_schema(line);
  const std::vector<ProjectFile> files = operator_project(schema, line);
  const std::string name = schema.name.substr(schema.name.find("::") + 2);
  const fs::path directory = options.directory.empty() ? fs::path(name) : fs::path(options.directory);
  if (fs::exists(directory)) {
    throw Error(ErrorCode::io,
                directory.string() + " already exists; choose another folder with --directory");
  }
  try {
    for (const ProjectFile& file : files) write(directory / file.path, file.text);
  } catch (const Error&) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    throw;
  }
  print(fmt::format("{}: write {}.cc, then run pytest there\n", directory.string(), name));
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
