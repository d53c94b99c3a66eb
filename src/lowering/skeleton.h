// The mapping of an operator as a Python function for the user to complete.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "opbridge/ir.h"
#include "opbridge/schema.h"

namespace opbridge {

// Adds to `schema` what a call reveals about its operator: the arguments and the number of results. Arguments
// at their defaults may be missing in calls. A None shows no type; an argument that is None in all calls gets
// the type `NoneType?`.
void learn_schema(OperatorSchema& schema, const ir::Node& call);

struct MappingSkeleton {
  std::string decorator;  // @opbridge.symbolic("tutorial::soft_clip", opset=21)
  std::string head;       // def soft_clip(g, x, limit):
  std::string node;       // g.op("tutorial::soft_clip", x, limit_f=limit): a custom node with every argument
};

// `results` is the number of a call's results, which the schema does not state for a Tensor[].
MappingSkeleton mapping_skeleton(const OperatorSchema& schema, size_t results, int opset);

// A note for the reader of a skeleton whose schema is derived from calls.
inline constexpr std::string_view about_unknown_schemas =
    "A .pt2 file lacks the arguments that all calls leave at their defaults; an operator may have more than "
    "these.\n"
    "For all of them, examine a Python function that returns (model, args): opbridge doctor "
    "script.py:make_model";

}  // namespace opbridge
