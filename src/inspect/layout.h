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
  // Whether the box depends on nothing that has a fixed position. It is then drawn right above its first
  // user, not at the top.
  bool floats = false;
  Point top_left = {};
};

struct Edge {
  size_t from = 0;
  size_t to = 0;  // greater than `from`
  // The points of the line, from the lower side of `from` to the upper side of `to`. In between, it has two
  // points for each layer that it crosses: where it enters and where it leaves.
  std::vector<Point> route = {};
};

struct Layout {
  std::vector<Box> boxes;
  std::vector<Edge> edges;
  double width = 0;
  double height = 0;
};

// Positions boxes of given sizes and routes the edges between them, by the method of Sugiyama, Tagawa and
// Toda (1981). Boxes are layered by longest path. Dummies reserve space in each layer that an edge crosses;
// edges of one source share them. Barycenters determine the order in a layer; least squares under that order
// (pool adjacent violators) determines the positions. The time is linear in the number of dummies, which is
// limited: very long edges get none and are drawn straight.
void lay_out(Layout& layout);

}  // namespace opbridge::inspect
