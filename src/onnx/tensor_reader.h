// Converts TensorProto to ir::Weight.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opbridge/ir.h"
#include "support/mapped_file.h"

namespace opbridge::onnx {

struct NamedWeight {
  std::string_view name;
  ir::Weight weight;
};

class TensorReader {
 public:
  // `owner` keeps the bytes of messages alive. External data is refused if `folder` is empty.
  TensorReader(std::shared_ptr<const void> owner, std::filesystem::path folder)
      : owner_(std::move(owner)), folder_(std::move(folder)) {}

  // Borrows raw and external bytes, and copies numbers from typed fields. Throws Error(invalid_file).
  NamedWeight read(std::string_view message);

  // The files of external data that were read.
  std::vector<std::filesystem::path> external_files() const;

 private:
  struct ExternalData {
    std::string_view location;
    std::string_view offset;
    std::string_view length;
  };
  void read_external(const ExternalData& data, ir::Weight& weight);
  std::shared_ptr<const support::MappedFile> external_file(std::string_view location);

  std::shared_ptr<const void> owner_;
  std::filesystem::path folder_;
  struct ExternalFile {
    std::filesystem::path path;
    std::shared_ptr<const support::MappedFile> content;
  };
  std::map<std::string, ExternalFile, std::less<>> external_files_;  // by location
};

}  // namespace opbridge::onnx
