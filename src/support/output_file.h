// Files that come into being whole or not at all, also where the process is killed. They are not flushed:
// where the machine loses power, the file system decides what is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace opbridge::onnx {

// A temporary file beside `target`, which takes the target's place and mode when it is complete; where the
// target is a symbolic link, those of what it leads to, or would lead to. Every function throws Error(io),
// with the target's path and the system's reason.
class OutputFile {
 public:
  // Refuses a target that is there and is not a regular file, or that the user may not write.
  explicit OutputFile(std::filesystem::path target);
  OutputFile(OutputFile&&) = delete;

  const std::filesystem::path& target() const { return target_; }
  // Where the file comes to lie: the target, links followed.
  const std::filesystem::path& place() const { return place_; }
  // Appends the pieces in order, from where they lie.
  void write(std::span<const std::span<const std::byte>> pieces);
  void close();

 private:
  friend void publish(OutputFile& file);
  friend void publish(OutputFile& data, OutputFile& model);
  void rename_to_target();

  // Removed and closed where it is not published, also where the constructor throws.
  struct Temporary {
    std::filesystem::path path;  // empty once published
    int descriptor = -1;
    ~Temporary();
  };

  std::filesystem::path target_;
  std::filesystem::path place_;  // that of the target, links followed
  Temporary temporary_;
};

// Puts the closed file at its target, replacing what is there, in one step.
void publish(OutputFile& file);

// Puts a model and the data it refers to at their targets. There is no moment at which a model, old or new,
// stands beside data that is not its own: the old model steps aside first, then the data and the new model
// take their places. Where a step fails, the steps before are undone. A process killed in between leaves no
// model at the target, and the old files beside it as `.opbridge-*`.
void publish(OutputFile& data, OutputFile& model);

}  // namespace opbridge::onnx
