#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace opbridge::cli {
namespace {

constexpr size_t usual_width = 80;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

size_t width_of(int file) {
  const std::string_view columns = variable("COLUMNS");
  size_t width = 0;
  const auto [end, error] = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (error == std::errc() && end == columns.data() + columns.size() && width > 0) return width;
  winsize size{};
  if (::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return usual_width;
}

bool is_dumb() { return variable("TERM") == "dumb" || variable("TERM") == "unknown"; }

inspect::Screen screen_of(int file) {
  if (::isatty(file) != 1) return {};
  return {.width = width_of(file), .bold = !is_dumb(), .colours = !is_dumb() && variable("NO_COLOR").empty()};
}

}  // namespace

inspect::Screen screen_for_output() { return screen_of(STDOUT_FILENO); }

inspect::Screen screen_for_progress() { return is_dumb() ? inspect::Screen{} : screen_of(STDERR_FILENO); }

}  // namespace opbridge::cli
