#include "support/inflater.h"

#include <zip.h>

#include <string>

#include "opbridge/error.h"

namespace opbridge::support {
namespace {

[[noreturn]] void refuse(std::string_view what) {
  throw Error(ErrorCode::invalid_file, "damaged zip archive: a compressed entry: " + std::string(what));
}

}  // namespace

void Inflater::Close::operator()(struct zip* archive) const { zip_discard(archive); }

Inflater::Inflater(std::span<const std::byte> archive) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(archive.data(), archive.size(), 0, &error);
  if (source != nullptr) {
    archive_.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
    if (archive_ == nullptr) zip_source_free(source);
  }
  const std::string reason = archive_ == nullptr ? zip_error_strerror(&error) : "";
  zip_error_fini(&error);
  if (archive_ == nullptr) refuse(reason);
}

std::vector<std::byte> Inflater::inflate(uint64_t index, uint64_t size) {
  zip_stat_t status;
  if (zip_stat_index(archive_.get(), index, 0, &status) != 0) refuse(zip_strerror(archive_.get()));
  // Deflate compresses by a factor of at most 1032. An entry that claims more would only reserve memory in
  // vain.
  constexpr uint64_t highest_ratio = 1032;
  if (status.size != size || size / highest_ratio > status.comp_size) refuse("its size is impossible");

  struct CloseFile {
    void operator()(zip_file_t* file) const { zip_fclose(file); }
  };
  const std::unique_ptr<zip_file_t, CloseFile> file(zip_fopen_index(archive_.get(), index, 0));
  if (file == nullptr) refuse(zip_strerror(archive_.get()));
  std::vector<std::byte> bytes(size);
  uint64_t done = 0;
  while (done < size) {
    const zip_int64_t count = zip_fread(file.get(), bytes.data() + done, size - done);
    if (count <= 0) refuse(count < 0 ? zip_file_strerror(file.get()) : "it ends too early");
    done += static_cast<uint64_t>(count);
  }
  return bytes;
}

}  // namespace opbridge::support
