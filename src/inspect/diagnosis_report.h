// Shows how each operator of a program is converted: the report of `opbridge doctor`.
#pragma once

#include <string>

#include "inspect/table.h"
#include "opbridge/convert.h"

namespace opbridge::inspect {

// For people. `model` is the name of the program.
std::string to_text(const Diagnosis& diagnosis, const std::string& model, Target target, int opset,
                    const Screen& screen = {});
std::string to_json(const Diagnosis& diagnosis, const std::string& model, Target target, int opset);

}  // namespace opbridge::inspect
