#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

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

MappedFile::MappedFile(const std::filesystem::path& path, Access access) {
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
  // MAP_NORESERVE: a file that may be written to can be larger than the memory.
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
  if (address == MAP_FAILED) refuse_by_system();
  ::madvise(address, size,
            MADV_SEQUENTIAL);  // weights are copied a quarter faster from a file that is not cached
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace opbridge::support
