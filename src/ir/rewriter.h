// Replacement of the nodes of a graph, in one pass.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/uses.h"
#include "opbridge/ir.h"

namespace opbridge::ir {

class Rewriter {
 public:
  // The nodes are those of `graph`, which is `root` or one of its bodies; `root` gets the constants. `names`
  // are those of `root`.
  Rewriter(Graph& root, Graph& graph, Names& names) : root_(root), graph_(graph), names_(names) {}

  // Takes the nodes out of the graph, and calls `rewrite` for each, in order. `rewrite` appends what takes
  // the place of the node: the node itself, new nodes, or both. Returns whether the nodes of the graph have
  // changed.
  bool run(const std::function<void(Node&)>& rewrite);

  void append(Node& node) { graph_.nodes.push_back(&node); }

  // Appends a new node that serves the same call as `anchor`: it has the same source, and a name derived from
  // `anchor`'s.
  Node* add(const Node& anchor, const std::string& op, std::vector<Value*> inputs,
            std::vector<Attribute> attributes = {});

  // Makes `node` compute a new value of the type of its only result, and appends a node that computes that
  // result from it. The new value has the result's name with `suffix`; `others` are the further inputs of the
  // new node.
  void add_behind(Node& node, const std::string& op, const std::string& suffix,
                  std::vector<Value*> others = {});

  // The new values get the name, or one like it if it is taken.
  Value* add_value(const std::string& name, Type type);
  Value* add_result(Node* node, const std::string& name, Type type);
  Value* add_constant(const std::string& name, Weight weight);
  Value* add_constant(const std::string& name, const std::vector<int64_t>& values);

  const Graph& graph() const { return graph_; }

 private:
  Graph& root_;
  Graph& graph_;
  Names& names_;
};

// Makes `result` the only result of `node`.
void set_only_result(Node* node, Value* result);

// Rewrites the nodes of the graph and of its bodies at any depth, each graph by a Rewriter of its own.
bool rewrite_nodes(Graph& root, Names& names, const std::function<void(Rewriter&, Node&)>& rewrite);

}  // namespace opbridge::ir
