// The mapping of an operator as a Python function for the user to complete.
#pragma once

#include <string>

#include "opbridge/ir.h"
#include "opbridge/schema.h"

namespace opbridge {

// Adds to `schema` what a call shows of its operator: the arguments and the number of results. Arguments at
// their defaults may be missing in calls; a None shows no type.
void learn_schema(OperatorSchema& schema, const ir::Node& call);

struct MappingSkeleton {
  std::string decorator;  // @opbridge.symbolic("tutorial::soft_clip", opset=21)
  std::string head;       // def soft_clip(g, x, limit):
  std::string node;       // g.op("tutorial::soft_clip", x, limit_f=limit): a custom node with every argument
};

MappingSkeleton mapping_skeleton(const OperatorSchema& schema, int opset);

}  // namespace opbridge
