// Views of a graph by the modules of the PyTorch model: each shows the inside of one module, with its
// submodules as single boxes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opbridge::inspect {

// A graph as it is drawn: its boxes with the paths of their modules ("layer1.0.conv1", empty for those of no
// module), and its edges, from a box to a later one.
struct ScopedGraph {
  std::vector<std::string> scopes;
  std::vector<std::pair<size_t, size_t>> edges;
};

struct ModuleView {
  struct Item {
    std::optional<size_t> box;     // a box of the graph
    std::optional<size_t> view;    // or a submodule
    std::optional<size_t> source;  // or a box outside, whose results the module uses
    std::optional<size_t> target;  // or a box outside that uses results of the module
  };
  std::string scope;             // of the module
  std::optional<size_t> parent;  // the view that shows it as a box; none for the first
  std::vector<size_t> members;   // all boxes inside, in order
  std::vector<Item> items;
  std::vector<std::pair<size_t, size_t>> edges;  // between items
};

// The view of the whole model and those of its modules. A module with most of the boxes around it is replaced
// by its submodules there. A module that is called several times, or whose boxes would make a cycle with
// others, has several views. Empty if there are no modules.
std::vector<ModuleView> module_views(const ScopedGraph& graph);

}  // namespace opbridge::inspect
