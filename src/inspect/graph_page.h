// Draws a model as one HTML page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "inspect/summary.h"
#include "opbridge/ir.h"

namespace opbridge::inspect {

// How far the result of a PyTorch operator is from PyTorch's own. `call` is ir::Source::call of its nodes and
// the operator, separated by a space.
struct CallError {
  std::string call;
  double max_absolute = 0;
  double max_relative = 0;
  std::string mismatch;  // empty if it agrees
};

// Facts that only the export of the model knows.
struct ExportFacts {
  std::vector<std::pair<std::string, double>> steps = {};  // and their seconds
  std::vector<CallError> errors = {};                      // in the order of the program
  std::string verdict = {};                                // of the verification
};

// The page is self-contained: it loads no other file and needs no network. Modules and subgraphs are opened
// from their boxes. `opset` is that of ONNX's default domain; 0 for a graph of PyTorch operators.
std::string graph_page(const ir::Graph& graph, const Summary& summary, int opset,
                       const ExportFacts& facts = {});

}  // namespace opbridge::inspect
