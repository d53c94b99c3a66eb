// Makes an ONNX function of a graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "opbridge/ir.h"
#include "opbridge/symbolic.h"

namespace opbridge::onnx {

struct FunctionHead {
  std::string domain;
  std::string name;
  int version = 1;
  std::vector<std::string> attributes;  // that nodes calling it may have
};

// A function has no initializers: those of `body` become nodes. `opset_imports` holds the domains of its
// nodes.
OnnxFunction make_function(const FunctionHead& head, const ir::Graph& body,
                           const std::map<std::string, int>& opset_imports);

}  // namespace opbridge::onnx
