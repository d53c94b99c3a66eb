#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "opbridge/frontend.h"
#include "opbridge/ir.h"

namespace opbridge {

// Like load_exported_program(), for an archive in memory, which `owner` keeps alive. Errors do not name a
// file.
ir::Graph read_exported_program(std::span<const std::byte> archive, std::shared_ptr<const void> owner,
                                WeightsOfProgram weights = WeightsOfProgram::readable);

}  // namespace opbridge
