#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "opbridge/error.h"
#include "support/path.h"

namespace opbridge::support {
namespace {

struct FileDescriptor {
  int number;
  ~FileDescriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void refuse_by_system() { throw Error(ErrorCode::io, std::strerror(errno)); }

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  check_path(path);
  // With O_NONBLOCK, opening a pipe does not block; a pipe is refused below.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw Error(ErrorCode::invalid_file, "no such file");
    refuse_by_system();
  }
  struct stat status;
  if (::fstat(file.number, &status) != 0) refuse_by_system();
  if (S_ISDIR(status.st_mode)) throw Error(ErrorCode::invalid_file, "a directory, not a file");
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::invalid_file, "not a regular file");
  if (status.st_size == 0) throw Error(ErrorCode::invalid_file, "the file is empty");

  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) refuse_by_system();
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace opbridge::support
