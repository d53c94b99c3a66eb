#pragma once

#include <cstdint>
#include <string_view>

namespace opbridge {

// Receives the progress of a conversion, in the thread that converts.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void begin(std::string_view step) = 0;            // "reading", "conversion", "writing"
  virtual void advance(uint64_t done, uint64_t total) = 0;  // within the step, in bytes
};

}  // namespace opbridge
