// Draws a directed acyclic graph in layers, top to bottom.
#pragma once

#include <cstddef>
#include <vector>

namespace opbridge::inspect {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double width = 0;
  double height = 0;
  // Depends on nothing that is fixed in place: stands right above what uses it first, not at the top.
  bool floats = false;
  Point top_left = {};
};

struct Edge {
  size_t from = 0;
  size_t to = 0;  // greater than `from`
  // Where the line runs: from the lower side of `from` to the upper side of `to`. In between, two points for
  // each layer that it crosses, where it enters and where it leaves.
  std::vector<Point> route = {};
};

struct Layout {
  std::vector<Box> boxes;
  std::vector<Edge> edges;
  double width = 0;
  double height = 0;
};

// Places boxes of known sizes and routes edges of known ends. The method is that of Sugiyama, Tagawa and Toda
// (1981): longest-path layers; places held in each layer that an edge crosses, shared by the edges of one
// source; orders by barycenters; then positions by least squares under the order (pool adjacent violators).
// The time is O(number of places times a constant), and places are bounded by dropping those of very long
// edges, which are then drawn straight across.
void lay_out(Layout& layout);

}  // namespace opbridge::inspect
