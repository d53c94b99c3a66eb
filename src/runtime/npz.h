// Reads archives that numpy.savez wrote.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "opbridge/ir.h"

namespace opbridge::runtime {

struct NamedTensor {
  std::string name;
  ir::Weight tensor;
};

// The arrays of a .npz file, in file order. Stored and deflated entries, row-major and Fortran order,
// little-endian (numpy.lib.format, versions 1 to 3). Two-byte void elements are read as bfloat16, because the
// package ml_dtypes saves it that way. Throws Error(invalid_file) for a damaged or foreign file. Throws
// Error(unsupported) for arrays of objects (which are pickles), text, big-endian numbers and other types that
// no tensor has.
std::vector<NamedTensor> read_npz(const std::filesystem::path& path);
// Like read_npz above, for an archive in memory, which `owner` keeps alive. Errors do not name a file.
std::vector<NamedTensor> read_npz(std::span<const std::byte> archive, std::shared_ptr<const void> owner);

}  // namespace opbridge::runtime
