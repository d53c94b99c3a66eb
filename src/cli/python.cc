#include "cli/python.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/stand_in.h"
#include "opbridge/error.h"

namespace opbridge::cli {
namespace {

namespace fs = std::filesystem;

// Tells by two bytes of shared memory, which the code of the model does not see, that it runs, and with which
// status it ends by itself.
constexpr char program[] = R"(import mmap, os, signal, sys, time
memory = int(sys.argv.pop(1))
ending = mmap.mmap(memory, 2)
os.close(memory)
ending[0] = 1
process = os.getpid()
interrupted = 0.0

def interrupt(number, frame):
    """Ignores a signal that was sent to both processes when it is passed on."""
    global interrupted
    before, interrupted = interrupted, time.monotonic()
    if interrupted - before > 0.5:
        raise KeyboardInterrupt

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, interrupt)

def run():
    try:
        from opbridge.command import main
    except ImportError as error:
        print(f"opbridge: {sys.executable} cannot import opbridge ({error}); install the package opbridge there, or "
              "name another Python by OPBRIDGE_PYTHON", file=sys.stderr)
        return 2
    return main(sys.argv[1:])

try:
    status = run()
except KeyboardInterrupt:
    print("opbridge: interrupted", file=sys.stderr)
    status = 130
except SystemExit:  # of argparse, which has said why
    status = 2
except Exception:
    import traceback
    traceback.print_exc()
    status = 3
if os.getpid() == process:
    ending[:] = bytes([2, status])
sys.exit(status)
)";

enum class Stage : char { none, running, ended };

struct Told {
  Stage stage = Stage::none;
  uint8_t status = 0;
};

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

// Opens the standard streams that are closed, so that no other file gets their place.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    if (stream == STDOUT_FILENO)
      throw Error(ErrorCode::io, "cannot print: " + std::system_category().message(errno));
    ::open("/dev/null", O_RDWR);
  }
}

// A file in memory for `Told`, whose descriptor Python inherits.
int shared_memory() {
  const int memory = ::memfd_create("opbridge", 0);
  if (memory < 0 || ::ftruncate(memory, sizeof(Told)) != 0)
    throw Error(ErrorCode::io, "cannot share memory: " + std::system_category().message(errno));
  return memory;
}

// Whether the signal is one that ends a program at the wish of its user, its terminal or its reader.
bool is_from_outside(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGPIPE || signal == SIGHUP || signal == SIGQUIT;
}

std::string ending_text(int ending) {
  if (!WIFSIGNALED(ending)) return fmt::format("with exit status {}", WEXITSTATUS(ending));
  return fmt::format("by the signal \"{}\"{}", ::strsignal(WTERMSIG(ending)),
                     WTERMSIG(ending) == SIGKILL ? ", as the system does if it lacks memory" : "");
}

std::string what_ended(const std::string& model, int ending) {
  return fmt::format("{}: the code of the model, or a library that it uses, ended the process {}", model,
                     ending_text(ending));
}

}  // namespace

void run_in_python(const std::vector<std::string>& arguments) {
  const std::string python = find_python();
  const std::string& model = arguments.at(1);
  open_standard_streams();
  const int memory = shared_memory();
  std::vector<std::string> all{python, "-c", program, std::to_string(memory)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const std::optional<int> ending = run_stand_in(std::move(all));
  if (!ending) {
    throw Error(ErrorCode::invalid_argument,
                "this needs Python, and " + python +
                    " cannot be started; activate the environment that has opbridge, or name its Python by "
                    "OPBRIDGE_PYTHON");
  }
  Told told;
  if (::pread(memory, &told, sizeof(told), 0) != sizeof(told)) told = {};
  const int signal = WIFSIGNALED(*ending) ? WTERMSIG(*ending) : 0;
  if (is_from_outside(signal)) end_by(signal);
  if (told.stage == Stage::ended) {
    if (signal != 0) fmt::print(stderr, "opbridge: after the report, {}\n", what_ended(model, *ending));
    std::exit(told.status);
  }
  if (told.stage == Stage::none) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} ended {}, before it could run opbridge; name another Python by OPBRIDGE_PYTHON",
                    python, ending_text(*ending)));
  }
  throw Error(ErrorCode::invalid_argument, what_ended(model, *ending));
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
