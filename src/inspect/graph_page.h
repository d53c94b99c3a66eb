// A picture of a model as one HTML page.
#pragma once

#include <string>

#include "inspect/summary.h"
#include "opbridge/ir.h"

namespace opbridge::inspect {

// The page needs nothing but itself: no other file, no network. Graphs inside nodes can be opened from them.
// `opset` is that of ONNX's own operators; 0 for a graph of PyTorch's.
std::string graph_page(const ir::Graph& graph, const Summary& summary, int opset);

}  // namespace opbridge::inspect
