// Files that appear complete or not at all, even if the process is killed. They are not flushed to disk:
// after a power failure, the file system decides what remains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace opbridge::support {

// A temporary file next to `target`. Once complete, it replaces the target and takes over its mode; a
// symbolic link is followed first, even if it dangles. Every function throws Error(io) with the target's path
// and the system's reason.
class OutputFile {
 public:
  // Refuses an existing target that is not a regular file or that the user may not write.
  explicit OutputFile(std::filesystem::path target);
  OutputFile(OutputFile&&) = delete;

  const std::filesystem::path& target() const { return target_; }
  // The path that the file will have: the target, with links followed.
  const std::filesystem::path& final_path() const { return final_path_; }
  // Appends the pieces in order without copying them.
  void write(std::span<const std::span<const std::byte>> pieces);
  void close();

 private:
  friend void publish(OutputFile& file);
  friend void publish(OutputFile& data, OutputFile& model);
  void rename_to_target();

  // Closed and removed unless it is published, even if the constructor throws.
  struct Temporary {
    std::filesystem::path path;  // empty once published
    int descriptor = -1;
    ~Temporary();
  };

  std::filesystem::path target_;
  std::filesystem::path final_path_;  // the target with links followed
  Temporary temporary_;
};

// Moves the closed file to its target in one step, replacing what is there.
void publish(OutputFile& file);

// Moves a model and its data file to their targets. A model, old or new, is never beside data that is not its
// own: the old model is moved aside first, then the data and the new model are moved in. If a step fails, the
// earlier steps are undone. If the process is killed in between, the target holds no model and the old files
// remain beside it as `.opbridge-*`.
void publish(OutputFile& data, OutputFile& model);

// Throws Error(invalid_argument) if `output` is the file `input`, under whatever name.
void refuse_to_replace(const std::filesystem::path& output, const std::filesystem::path& input);

// Writes a file of this text, in the same way.
void write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace opbridge::support
