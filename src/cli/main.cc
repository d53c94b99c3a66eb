#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>

#include "cli/commands.h"
#include "opbridge/error.h"

namespace {

// Names the commands if the first word is none of them.
bool tell_of_unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-' || !app.get_subcommands().empty()) return false;
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  std::fprintf(stderr, "opbridge: '%s' is not one of the commands %s\n", argv[1], names.c_str());
  return true;
}

}  // namespace

// Exit status: 0: success. 1: models differ (verify) or lack a link (doctor). 2: a wrong command line, or a
// file that cannot be read, converted or written. 3: an internal error of opbridge.
int main(int argc, char** argv) {
  CLI::App app("Converts PyTorch models to ONNX.", "opbridge");
  app.set_version_flag("--version", "opbridge " OPBRIDGE_VERSION);
  app.require_subcommand(1);
  opbridge::cli::add_convert(app);
  opbridge::cli::add_doctor(app);
  opbridge::cli::add_compare(app);
  opbridge::cli::add_inspect(app);
  opbridge::cli::add_verify(app);
  opbridge::cli::add_new_op(app);
  opbridge::cli::add_completion(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& outcome) {
    return outcome.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (tell_of_unknown_command(app, argc, argv)) return 2;
    errno = 0;
    const int status = app.exit(error);
    if (std::cout.flush()) return status == 0 ? 0 : 2;
    std::fprintf(stderr, "opbridge: cannot print: %s\n", std::strerror(errno));
    return 2;
  } catch (const opbridge::Error& error) {
    std::fprintf(stderr, "opbridge: %s\n", error.what());
    return error.code() == opbridge::ErrorCode::internal ? 3 : 2;
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "opbridge: %s: %s\n", error.path1().c_str(), error.code().message().c_str());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "opbridge: not enough memory; is a size in the file far too large?\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opbridge: %s\n", error.what());
    return 3;
  }
}
