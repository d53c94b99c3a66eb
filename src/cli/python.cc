#include "cli/python.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "opbridge/error.h"

namespace opbridge::cli {
namespace {

namespace fs = std::filesystem;

constexpr char program[] = R"(import sys
try:
    try:
        from opbridge.command import main
    except ImportError as error:
        print(f"opbridge: {sys.executable} cannot import opbridge ({error}); install the package opbridge there, or "
              "name another Python by OPBRIDGE_PYTHON", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1:]))
except KeyboardInterrupt:
    print("opbridge: interrupted", file=sys.stderr)
    sys.exit(130)
except Exception:
    import traceback
    traceback.print_exc()
    sys.exit(3)
)";

std::string find_python() {
  if (const char* chosen = std::getenv("OPBRIDGE_PYTHON"); chosen != nullptr && *chosen != '\0')
    return chosen;
  std::error_code unknown;
  std::vector<fs::path> folders{fs::read_symlink("/proc/self/exe", unknown).parent_path()};
  if (const char* environment = std::getenv("VIRTUAL_ENV")) folders.push_back(fs::path(environment) / "bin");
  for (const fs::path& folder : folders) {
    if (access((folder / "python3").c_str(), X_OK) == 0) return folder / "python3";
  }
  return "python3";
}

}  // namespace

void run_in_python(const std::vector<std::string>& arguments) {
  const std::string python = find_python();
  std::vector<std::string> all{python, "-c", program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : all) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execvp(python.c_str(), pointers.data());
  throw Error(ErrorCode::invalid_argument,
              "this needs Python, and " + python +
                  " cannot be started; activate the environment that has opbridge, or name its Python by "
                  "OPBRIDGE_PYTHON");
}

bool is_factory(const std::string& model) {
  return model.find(':') != std::string::npos && !fs::exists(model);
}

void refuse_script(const std::string& model) {
  if (fs::path(model).extension() != ".py") return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{0} is a script: name its function that returns (model, args), as in {0}:make_model",
                  model));
}

void refuse_python(const std::string& model) {
  if (fs::exists(model) && fs::path(model).extension() != ".py") return;
  if (!model.ends_with(".py") && model.find(".py:") == std::string::npos) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is Python code, and this command reads a file that an export has written; in "
                          "Python, opbridge.export(model, args, path) writes one",
                          model));
}

}  // namespace opbridge::cli
