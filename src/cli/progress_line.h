// Shows on a terminal what a long command does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "inspect/table.h"
#include "opbridge/progress.h"

namespace opbridge::cli {

// One line on standard error with the present step, its time, and a bar if it reports bytes. It appears if
// the whole has taken a second, and disappears at the end. Without a terminal, or if that cannot move its
// cursor, nothing is shown.
class ProgressLine : public Progress {
 public:
  struct Options {
    bool line = true;
    bool times = false;  // prints the time of each step, even without a terminal
  };

  ProgressLine() : ProgressLine(Options()) {}
  explicit ProgressLine(Options options);
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void begin(std::string_view step) override;
  void advance(uint64_t done, uint64_t total) override;
  // Removes the line. Called by the destructor.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  void run();  // the thread that draws
  void finish_step();
  std::string text() const;

  const Options options_;
  const inspect::Screen screen_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // guards all members below except the thread
  std::condition_variable changed_;
  std::string step_;
  Clock::time_point start_of_step_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  bool is_drawn_ = false;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace opbridge::cli
