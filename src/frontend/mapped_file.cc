#include "frontend/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "opbridge/error.h"

namespace opbridge {

MappedFile map_file(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& reason) {
    throw Error(ErrorCode::invalid_file, fmt::format("cannot read {}: {}", path.string(), reason));
  };
  const auto fail_with_errno = [&] { fail(std::system_category().message(errno)); };

  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_with_errno();
  // The mapping outlives the descriptor.
  const std::shared_ptr<void> closer(nullptr, [descriptor](void*) { close(descriptor); });
  struct stat status;
  if (fstat(descriptor, &status) != 0) fail_with_errno();
  if (!S_ISREG(status.st_mode))
    fail(S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) fail_with_errno();
  return {{static_cast<const std::byte*>(address), size},
          std::shared_ptr<const void>(address, [size](void* p) { munmap(p, size); })};
}

}  // namespace opbridge
