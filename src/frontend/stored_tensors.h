// The weights and constants of a `.pt2` archive.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "opbridge/frontend.h"
#include "opbridge/ir.h"
#include "support/json.h"
#include "support/zip_archive.h"

namespace opbridge {

// Two index files locate the tensors: `data/weights/NAME_weights_config.json` for parameters and persistent
// buffers, `data/constants/NAME_constants_config.json` for the rest. A tensor is a strided view of the raw
// bytes of a storage, which several tensors may share.
class StoredTensors {
 public:
  // `root` is the archive's outermost folder with a trailing slash, `program` the name of the exported
  // program. The archive must outlive the object.
  StoredTensors(const support::ZipArchive& archive, std::string_view root, std::string_view program,
                WeightsOfProgram weights);

  // The tensor with that name. It is borrowed if it is contiguous and aligned in the archive, and copied into
  // that form otherwise, unless it must be in place. Throws Error(invalid_file) if the tensor is missing,
  // pickled, or reaches outside its storage.
  ir::Weight load(std::string_view name);

 private:
  struct Location {
    std::string_view folder;
    json::Object payload;
  };

  struct Storage {
    support::ZipArchive::Content content;
    bool is_compressed = false;
    uint64_t copied_bytes = 0;  // distinct bytes that were copied instead of borrowed
  };

  void read_index(simdjson::dom::parser& parser, std::string_view folder, std::string_view kind);
  Storage& storage(std::string_view name, const Location& location);

  const support::ZipArchive& archive_;
  std::string root_;
  std::string program_;
  WeightsOfProgram weights_;
  simdjson::dom::parser weights_parser_;
  simdjson::dom::parser constants_parser_;
  std::map<std::string_view, Location> locations_;
  std::map<const support::ZipArchive::Entry*, Storage> storages_;
  uint64_t repeated_bytes_ = 0;  // by which copies exceed the bytes of their storages
};

}  // namespace opbridge
