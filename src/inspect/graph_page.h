// Draws a model as one HTML page.
#pragma once

#include <string>

#include "inspect/summary.h"
#include "opbridge/ir.h"

namespace opbridge::inspect {

// The page is self-contained: it loads no other file and needs no network. Subgraphs are opened from their
// nodes. `opset` is that of ONNX's default domain; 0 for a graph of PyTorch operators.
std::string graph_page(const ir::Graph& graph, const Summary& summary, int opset);

}  // namespace opbridge::inspect
