#include "support/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "opbridge/error.h"
#include "support/path.h"

namespace opbridge::support {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& target, int error) {
  throw Error(ErrorCode::io,
              fmt::format("cannot write {}: {}", target.string(), std::system_category().message(error)));
}

fs::path unused_name_beside(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  fs::path name;
  struct stat status;
  do {
    name = target.parent_path() / fmt::format(".opbridge-{}-{}.tmp", getpid(), counter++);
  } while (lstat(name.c_str(), &status) == 0);
  return name;
}

// The target of a symbolic link, whether or not it exists. Any other path is returned unchanged.
fs::path without_links(const fs::path& target) {
  constexpr int most_links = 40;  // Linux's limit
  fs::path path = target;
  struct stat status;
  for (int links = 0; lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode); ++links) {
    if (links == most_links) fail(target, ELOOP);
    std::error_code error;
    const fs::path next = fs::read_symlink(path, error);
    if (error) fail(target, error.value());
    path = path.parent_path() / next;
  }
  return path;
}

// Moves the file at a path out of the way. Moves it back on destruction, unless keep_new() was called.
class SetAside {
 public:
  explicit SetAside(fs::path path) : path_(std::move(path)) {
    const fs::path name = unused_name_beside(path_);
    if (rename(path_.c_str(), name.c_str()) == 0) {
      aside_ = name;
    } else if (errno != ENOENT) {
      fail(path_, errno);
    }
  }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;
  ~SetAside() {
    if (keep_new_) {
      if (!aside_.empty()) unlink(aside_.c_str());
    } else if (aside_.empty()) {
      unlink(path_.c_str());
    } else {
      rename(aside_.c_str(), path_.c_str());
    }
  }
  void keep_new() { keep_new_ = true; }

 private:
  fs::path path_;
  fs::path aside_;  // empty if no file existed
  bool keep_new_ = false;
};

}  // namespace

OutputFile::OutputFile(fs::path target) : target_(std::move(target)) {
  check_path(target_);
  final_path_ = without_links(target_);
  struct stat status;
  std::optional<mode_t> mode;  // of the file that is replaced
  if (stat(final_path_.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail(target_, EISDIR);
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::io, fmt::format("cannot write {}: not a regular file", target_.string()));
    }
    if (faccessat(AT_FDCWD, final_path_.c_str(), W_OK, AT_EACCESS) != 0) fail(target_, errno);
    mode = status.st_mode & 07777;
  } else if (errno != ENOENT) {
    fail(target_, errno);
  }
  do {
    temporary_.path = unused_name_beside(final_path_);
    temporary_.descriptor = open(temporary_.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (temporary_.descriptor < 0 && errno == EEXIST);
  if (temporary_.descriptor < 0) {
    const int error = errno;
    temporary_.path.clear();
    fail(target_, error);
  }
  // EPERM: the file system gives the file another owner. It then keeps its default mode.
  if (mode && fchmod(temporary_.descriptor, *mode) != 0 && errno != EPERM) fail(target_, errno);
}

OutputFile::Temporary::~Temporary() {
  if (descriptor >= 0) ::close(descriptor);
  if (!path.empty()) unlink(path.c_str());
}

void OutputFile::write(std::span<const std::span<const std::byte>> pieces) {
  // Writes a MiB per call: for the same bytes, Linux takes half the time of one large call.
  constexpr size_t most_bytes = 1 << 20;
  std::vector<iovec> vectors;
  vectors.reserve(pieces.size());
  for (std::span<const std::byte> piece : pieces) {
    for (; !piece.empty(); piece = piece.subspan(std::min(piece.size(), most_bytes))) {
      vectors.push_back({const_cast<std::byte*>(piece.data()), std::min(piece.size(), most_bytes)});
    }
  }
  for (size_t first = 0; first < vectors.size();) {
    size_t count = 0;
    for (size_t bytes = 0; first + count < vectors.size() && count < IOV_MAX; ++count) {
      bytes += vectors[first + count].iov_len;
      if (bytes > most_bytes) break;
    }
    const ssize_t result = writev(temporary_.descriptor, &vectors[first], static_cast<int>(count));
    if (result < 0) {
      if (errno == EINTR) continue;
      fail(target_, errno);
    }
    // A short write may end inside a piece.
    size_t written = static_cast<size_t>(result);
    while (first < vectors.size() && written >= vectors[first].iov_len) written -= vectors[first++].iov_len;
    if (written > 0) {
      vectors[first].iov_base = static_cast<std::byte*>(vectors[first].iov_base) + written;
      vectors[first].iov_len -= written;
    }
  }
}

void OutputFile::close() {
  if (::close(std::exchange(temporary_.descriptor, -1)) != 0) fail(target_, errno);
}

void OutputFile::rename_to_target() {
  // Renaming over an existing file makes ext4 start writing out the new one, which takes longer than the
  // write itself did. Exchanging the two is just as atomic.
  const fs::path& from = temporary_.path;
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, final_path_.c_str(), RENAME_EXCHANGE) == 0) {
    unlink(from.c_str());
  } else if (rename(from.c_str(), final_path_.c_str()) != 0) {
    fail(target_, errno);
  }
  temporary_.path.clear();
}

void publish(OutputFile& file) { file.rename_to_target(); }

void publish(OutputFile& data, OutputFile& model) {
  SetAside old_model(model.final_path_);
  SetAside old_data(data.final_path_);  // restored before the model that refers to it
  data.rename_to_target();
  model.rename_to_target();
  old_model.keep_new();
  old_data.keep_new();
}

void refuse_to_replace(const std::filesystem::path& output, const std::filesystem::path& input) {
  std::error_code unknown;  // a file that does not exist is not the same file
  if (fs::equivalent(output, input, unknown)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is both the input and the output", output.string()));
  }
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  OutputFile output(path);
  output.write(std::span(&piece, 1));
  output.close();
  publish(output);
}

}  // namespace opbridge::support
