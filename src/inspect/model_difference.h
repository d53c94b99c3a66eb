// The differences between two ONNX models.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "inspect/summary.h"
#include "inspect/table.h"
#include "onnx/model_reader.h"

namespace opbridge::inspect {

// A line of the comparison of two graphs: a node of one or of both. Indices are those of Graph::nodes.
struct NodePair {
  std::optional<size_t> a;
  std::optional<size_t> b;
  std::string difference = {};  // of a node of both: its inputs, if they differ
  bool differs() const { return !a || !b || !difference.empty(); }
};

// A value of one model or of both: an input, an output, an initializer.
struct ValuePair {
  std::string name;
  std::string a;  // its type; empty if the model lacks it
  std::string b;
  std::string difference = {};  // what differs besides the type
  bool differs() const { return a != b || !difference.empty(); }
};

struct ModelDifference {
  Summary a;
  Summary b;
  std::vector<NodePair> nodes;          // in the order of both graphs
  std::vector<ValuePair> inputs;        // all of them
  std::vector<ValuePair> outputs;       // all of them
  std::vector<ValuePair> initializers;  // those that differ
  size_t renamed = 0;                   // initializers with equal contents under other names
  std::vector<std::string> functions;   // the ONNX functions that one model lacks or that differ

  bool same() const;
  size_t different_nodes() const;
};

// Nodes are compared by operator, attributes and inputs, not by name;
// initializers by name, and by contents if one model lacks the name.
ModelDifference difference_of(const onnx::ModelFile& a, const onnx::ModelFile& b);

// For people; names are `a` and `b` in the summaries.
std::string to_text(const ModelDifference& difference, const onnx::ModelFile& a, const onnx::ModelFile& b,
                    const Screen& screen = {});

// A self-contained page: the nodes of both models side by side.
std::string difference_page(const ModelDifference& difference, const onnx::ModelFile& a,
                            const onnx::ModelFile& b);

// One line of a node: operator, attributes and constants, the type of its result.
std::string node_line(const ir::Node& node);

}  // namespace opbridge::inspect
