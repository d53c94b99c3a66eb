#include "cli/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal.h"

namespace opbridge::cli {
namespace {

constexpr auto delay = std::chrono::seconds(1);
constexpr auto interval = std::chrono::milliseconds(100);
constexpr int bar_width = 24;
constexpr const char* clear_line = "\x1b[K";
constexpr const char* bold = "\x1b[1m";
constexpr const char* cyan = "\x1b[36m";
constexpr const char* magenta = "\x1b[35m";
constexpr const char* grey = "\x1b[90m";
constexpr const char* usual = "\x1b[0m";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

ProgressLine::ProgressLine(Options options) : options_(options), screen_(screen_for_progress()) {
  if (options_.line && screen_.width > 0) thread_ = std::thread([this] { run(); });
}

ProgressLine::~ProgressLine() { end(); }

void ProgressLine::begin(std::string_view step) {
  const std::lock_guard lock(mutex_);
  finish_step();
  step_ = step;
  start_of_step_ = Clock::now();
  done_ = total_ = 0;
}

void ProgressLine::advance(uint64_t done, uint64_t total) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
}

void ProgressLine::end() {
  {
    const std::lock_guard lock(mutex_);
    finish_step();
    has_ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressLine::finish_step() {
  if (options_.times && !step_.empty())
    show(fmt::format("{}{}: {:.2f} s\n", is_drawn_ ? clear_line : "", step_, seconds_since(start_of_step_)));
  step_.clear();
}

void ProgressLine::run() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, start_ + delay, [&] { return has_ended_; });
  while (!has_ended_) {
    if (!step_.empty()) {
      // The cursor returns to the start, so that a warning replaces the line instead of following it.
      show(clear_line + text() + '\r');
      is_drawn_ = true;
    }
    changed_.wait_for(lock, interval, [&] { return has_ended_; });
  }
  if (is_drawn_) show(clear_line);
}

std::string ProgressLine::text() const {
  const auto styled = [this](const char* style, const std::string& text) {
    const bool is_drawn = style == bold ? screen_.bold : screen_.colours;
    return is_drawn ? style + text + usual : text;
  };
  const auto bar = [](int parts) {
    std::string text;
    for (int i = 0; i < parts; ++i) text += "━";
    return text;
  };
  const std::string time = fmt::format("{:.0f} s", seconds_since(start_of_step_));
  const std::string line = "opbridge: " + styled(bold, step_) + ' ';
  if (total_ == 0) return line + styled(cyan, time);
  const std::string bytes =
      fmt::format("{:.1f} of {:.1f} GB", static_cast<double>(done_) / 1e9, static_cast<double>(total_) / 1e9);
  const std::string end = bytes + ' ' + styled(cyan, time);
  // A line that the terminal wraps could not be replaced.
  const size_t taken = std::string_view("opbridge: ").size() + step_.size() + bytes.size() + time.size() + 3;
  if (taken + bar_width >= screen_.width) return line + end;
  const double part = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const int filled = static_cast<int>(part * bar_width);
  const std::string rest =
      screen_.colours ? styled(grey, bar(bar_width - filled)) : std::string(bar_width - filled, ' ');
  return line + styled(magenta, bar(filled)) + rest + ' ' + end;
}

}  // namespace opbridge::cli
