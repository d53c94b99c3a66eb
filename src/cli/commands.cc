#include "cli/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <string>
#include <system_error>

#include "opbridge/error.h"

namespace opbridge::cli {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::io, "cannot print: " + std::system_category().message(errno));
  }
}

CLI::Validator one_of(std::vector<std::string> words) {
  std::string description = fmt::format("{}", fmt::join(words, "|"));
  return {[words = std::move(words)](std::string& text) {
            return std::ranges::find(words, text) != words.end()
                       ? std::string()
                       : fmt::format("'{}' is not one of {}", text, fmt::join(words, ", "));
          },
          std::move(description)};
}

void add_target(CLI::App& command, Target& target) {
  const std::map<std::string, Target> targets = {{"onnxruntime", Target::onnxruntime},
                                                 {"onnx", Target::onnx}};
  command
      .add_option("--target", target,
                  "What the model relies on: onnxruntime (with opbridge's operators), or onnx (the ONNX "
                  "standard alone)")
      ->transform(one_of(targets))
      ->default_str("onnxruntime");
}

void add_libraries(CLI::App& command, std::vector<std::filesystem::path>& libraries,
                   const std::string& help) {
  command.add_option("--ops", libraries, help + "; may be given several times")->allow_extra_args(false);
}

SymbolicRegistry mappings(const std::vector<std::filesystem::path>& libraries) {
  SymbolicRegistry registry = SymbolicRegistry::with_bundled();
  for (const std::filesystem::path& library : libraries) registry.add_operators(library);
  return registry;
}

}  // namespace opbridge::cli
