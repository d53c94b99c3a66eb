#include "inspect/layout.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace opbridge::inspect {
namespace {

constexpr double horizontal_gap = 24;
constexpr double vertical_gap = 38;
constexpr double dummy_width = 6;  // a dummy stands for the edges that cross a layer
constexpr size_t most_dummies = 400'000;
constexpr int order_sweeps = 12;
constexpr int position_sweeps = 30;

// A box, or a dummy: the position in a layer that is reserved for the edges of one source that cross it.
struct Item {
  size_t layer = 0;
  double width = dummy_width;
  bool is_box = false;
  double center = 0;
  std::vector<size_t> above = {};
  std::vector<size_t> below = {};
};

class Sugiyama {
 public:
  explicit Sugiyama(Layout& layout) : layout_(layout) {}

  void run() {
    assign_layers();
    add_dummies();
    order();
    position();
    finish();
  }

 private:
  void assign_layers() {
    const size_t count = layout_.boxes.size();
    layer_of_.assign(count, 0);
    std::vector<size_t> incoming(count, 0);
    std::vector<size_t> outgoing(count, 0);
    std::vector<std::vector<size_t>> targets(count);
    for (const Edge& edge : layout_.edges) {
      targets[edge.from].push_back(edge.to);
      ++incoming[edge.to];
      ++outgoing[edge.from];
    }
    for (size_t box = 0; box < count; ++box) {
      for (const size_t target : targets[box]) {
        layer_of_[target] = std::max(layer_of_[target], layer_of_[box] + 1);
      }
    }
    // A box with more outgoing than incoming edges moves down towards its user, which shortens edges.
    for (size_t box = count; box-- > 0;) {
      const bool moves = layout_.boxes[box].floats ? outgoing[box] > 0 : outgoing[box] > incoming[box];
      if (!moves) continue;
      size_t nearest = std::numeric_limits<size_t>::max();
      for (const size_t target : targets[box]) nearest = std::min(nearest, layer_of_[target]);
      layer_of_[box] = nearest - 1;
    }
    const auto last = std::max_element(layer_of_.begin(), layer_of_.end());
    layers_.resize(last == layer_of_.end() ? 0 : *last + 1);
  }

  size_t add_item(size_t layer) {
    items_.push_back({.layer = layer});
    return items_.size() - 1;
  }

  // The longest span of edges that get dummies; it limits the number of dummies.
  size_t longest_routed() const {
    std::vector<size_t> span(layout_.boxes.size(), 0);
    for (const Edge& edge : layout_.edges) {
      span[edge.from] = std::max(span[edge.from], layer_of_[edge.to] - layer_of_[edge.from]);
    }
    for (size_t longest = std::max<size_t>(layers_.size(), 1); longest > 1; longest /= 2) {
      size_t dummies = 0;
      for (const size_t each : span) dummies += std::min(each, longest);
      if (dummies <= most_dummies) return longest;
    }
    return 1;
  }

  void add_dummies() {
    for (size_t box = 0; box < layout_.boxes.size(); ++box) {
      const size_t item = add_item(layer_of_[box]);
      items_[item].width = layout_.boxes[box].width;
      items_[item].is_box = true;
    }
    const size_t longest = longest_routed();
    dummies_.resize(layout_.boxes.size());
    for (const Edge& edge : layout_.edges) {
      const size_t span = layer_of_[edge.to] - layer_of_[edge.from];
      if (span > longest) continue;
      std::vector<size_t>& dummies = dummies_[edge.from];
      while (dummies.size() + 1 < span) {
        const size_t above = dummies.empty() ? edge.from : dummies.back();
        dummies.push_back(add_item(layer_of_[edge.from] + dummies.size() + 1));
        link(above, dummies.back());
      }
      link(span == 1 ? edge.from : dummies[span - 2], edge.to);
    }
  }

  void link(size_t above, size_t below) {
    items_[above].below.push_back(below);
    items_[below].above.push_back(above);
  }

  // Depth first, so that related boxes start close to each other.
  void initial_order() {
    std::vector<bool> seen(items_.size(), false);
    std::vector<size_t> stack;
    for (size_t start = 0; start < layout_.boxes.size(); ++start) {
      stack.push_back(start);
      while (!stack.empty()) {
        const size_t item = stack.back();
        stack.pop_back();
        if (seen[item]) continue;
        seen[item] = true;
        layers_[items_[item].layer].push_back(item);
        stack.insert(stack.end(), items_[item].below.rbegin(), items_[item].below.rend());
      }
    }
    position_.resize(items_.size());
    for (const std::vector<size_t>& layer : layers_) number(layer);
  }

  void number(const std::vector<size_t>& layer) {
    for (size_t i = 0; i < layer.size(); ++i) position_[layer[i]] = i;
  }

  void order() {
    initial_order();
    std::vector<std::vector<size_t>> best = layers_;
    uint64_t fewest = crossings();
    for (int sweep = 0; sweep < order_sweeps && fewest > 0; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t i = 0; i < layers_.size(); ++i) {
        sort_by_barycenter(layers_[down ? i : layers_.size() - 1 - i], down ? &Item::above : &Item::below);
      }
      if (const uint64_t count = crossings(); count < fewest) {
        fewest = count;
        best = layers_;
      }
    }
    layers_ = std::move(best);
    for (const std::vector<size_t>& layer : layers_) number(layer);
  }

  void sort_by_barycenter(std::vector<size_t>& layer, std::vector<size_t> Item::*neighbors) {
    std::vector<std::pair<double, size_t>> keyed;
    for (const size_t item : layer) {
      const std::vector<size_t>& others = items_[item].*neighbors;
      double sum = 0;
      for (const size_t other : others) sum += static_cast<double>(position_[other]);
      const double own = static_cast<double>(position_[item]);
      keyed.emplace_back(others.empty() ? own : sum / static_cast<double>(others.size()), item);
    }
    std::stable_sort(keyed.begin(), keyed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < layer.size(); ++i) layer[i] = keyed[i].second;
    number(layer);
  }

  // Counts the inversions among the lower ends of the links, sorted by their upper ends.
  uint64_t crossings() const {
    uint64_t count = 0;
    std::vector<size_t> ends;
    for (const std::vector<size_t>& layer : layers_) {
      ends.clear();
      for (const size_t item : layer) {
        const size_t first = ends.size();
        for (const size_t below : items_[item].below) ends.push_back(position_[below]);
        std::sort(ends.begin() + static_cast<ptrdiff_t>(first), ends.end());
      }
      count += inversions(ends);
    }
    return count;
  }

  static uint64_t inversions(std::vector<size_t>& values) {
    uint64_t count = 0;
    std::vector<size_t> merged(values.size());
    for (size_t width = 1; width < values.size(); width *= 2) {
      for (size_t from = 0; from < values.size(); from += 2 * width) {
        const size_t middle = std::min(from + width, values.size());
        const size_t to = std::min(from + 2 * width, values.size());
        size_t left = from;
        size_t right = middle;
        for (size_t at = from; at < to; ++at) {
          if (left < middle && (right == to || values[left] <= values[right])) {
            merged[at] = values[left++];
          } else {
            merged[at] = values[right++];
            count += middle - left;
          }
        }
      }
      values.swap(merged);
    }
    return count;
  }

  void position() {
    for (const std::vector<size_t>& layer : layers_) {
      double x = 0;
      for (const size_t item : layer) {
        items_[item].center = x + items_[item].width / 2;
        x += items_[item].width + horizontal_gap;
      }
      for (const size_t item : layer) items_[item].center -= x / 2;
    }
    for (int sweep = 0; sweep < position_sweeps; ++sweep) {
      for (size_t i = 0; i < layers_.size(); ++i) {
        align(layers_[sweep % 2 == 0 ? i : layers_.size() - 1 - i]);
      }
    }
    for (const std::vector<size_t>& layer : layers_) straighten(layer);
  }

  // Moves an item exactly below the only item that it continues, as far as there is room.
  void straighten(const std::vector<size_t>& layer) {
    for (size_t i = 0; i < layer.size(); ++i) {
      Item& item = items_[layer[i]];
      if (item.above.size() != 1) continue;
      const Item& above = items_[item.above.front()];
      if (item.is_box && above.below.size() != 1) continue;
      double wanted = above.center;
      if (i + 1 < layer.size()) {
        const Item& right = items_[layer[i + 1]];
        wanted = std::min(wanted, right.center - distance(item, right));
      }
      if (i > 0) {
        const Item& left = items_[layer[i - 1]];
        wanted = std::max(wanted, left.center + distance(left, item));
      }
      item.center = wanted;
    }
  }

  // The least distance between the centers of neighbors in a layer.
  static double distance(const Item& left, const Item& right) {
    return (left.width + right.width) / 2 + horizontal_gap;
  }

  // Links between dummies pull most strongly, which keeps long edges straight.
  double pull(size_t a, size_t b) const {
    const int boxes = items_[a].is_box + items_[b].is_box;
    return boxes == 2 ? 1 : boxes == 1 ? 2 : 8;
  }

  // Moves the items of a layer as close to their neighbors as order and widths allow. Positions are measured
  // relative to a tight packing, so the only constraint is that they do not decrease. Runs that would
  // overtake each other are pooled at their mean.
  void align(const std::vector<size_t>& layer) {
    struct Run {
      double weight;
      double wanted;
      size_t count;
    };
    std::vector<Run> runs;
    std::vector<double> offsets;
    double offset = 0;
    for (size_t i = 0; i < layer.size(); ++i) {
      const size_t item = layer[i];
      if (i > 0) offset += distance(items_[layer[i - 1]], items_[item]);
      offsets.push_back(offset);
      double weight = 0.01;
      double sum = weight * items_[item].center;
      for (const auto neighbors : {&Item::above, &Item::below}) {
        for (const size_t other : items_[item].*neighbors) {
          weight += pull(item, other);
          sum += pull(item, other) * items_[other].center;
        }
      }
      Run run{weight, sum / weight - offset, 1};
      while (!runs.empty() && runs.back().wanted > run.wanted) {
        const Run& last = runs.back();
        const double total = last.weight + run.weight;
        run = {total, (last.wanted * last.weight + run.wanted * run.weight) / total, last.count + run.count};
        runs.pop_back();
      }
      runs.push_back(run);
    }
    size_t i = 0;
    for (const Run& run : runs) {
      for (size_t end = i + run.count; i < end; ++i) items_[layer[i]].center = run.wanted + offsets[i];
    }
  }

  void finish() {
    double left = 0;
    double right = 0;
    for (const Item& item : items_) {
      left = std::min(left, item.center - item.width / 2);
      right = std::max(right, item.center + item.width / 2);
    }
    for (Item& item : items_) item.center -= left;
    std::vector<double> heights(layers_.size(), 0);
    for (size_t box = 0; box < layout_.boxes.size(); ++box) {
      heights[layer_of_[box]] = std::max(heights[layer_of_[box]], layout_.boxes[box].height);
    }
    std::vector<double> tops(layers_.size(), 0);
    for (size_t i = 1; i < tops.size(); ++i) tops[i] = tops[i - 1] + heights[i - 1] + vertical_gap;

    for (size_t box = 0; box < layout_.boxes.size(); ++box) {
      Box& b = layout_.boxes[box];
      b.top_left = {items_[box].center - b.width / 2, tops[layer_of_[box]]};
    }
    layout_.width = right - left;
    layout_.height = tops.empty() ? 0 : tops.back() + heights.back();
    route(tops, heights);
  }

  void route(const std::vector<double>& tops, const std::vector<double>& heights) {
    std::vector<std::vector<size_t>> arriving(layout_.boxes.size());
    for (size_t i = 0; i < layout_.edges.size(); ++i) {
      Edge& edge = layout_.edges[i];
      const Box& from = layout_.boxes[edge.from];
      edge.route = {{items_[edge.from].center, from.top_left.y + from.height}};
      const size_t crossed = layer_of_[edge.to] - layer_of_[edge.from] - 1;
      if (crossed <= dummies_[edge.from].size()) {
        for (size_t k = 0; k < crossed; ++k) {
          const Item& dummy = items_[dummies_[edge.from][k]];
          edge.route.push_back({dummy.center, tops[dummy.layer]});
          edge.route.push_back({dummy.center, tops[dummy.layer] + heights[dummy.layer]});
        }
      }
      arriving[edge.to].push_back(i);
    }
    // Edges arrive side by side, in the order of their sources.
    for (size_t box = 0; box < arriving.size(); ++box) {
      std::vector<size_t>& edges = arriving[box];
      const Box& b = layout_.boxes[box];
      std::stable_sort(edges.begin(), edges.end(), [&](size_t a, size_t c) {
        return layout_.edges[a].route.back().x < layout_.edges[c].route.back().x;
      });
      for (size_t i = 0; i < edges.size(); ++i) {
        const double share = static_cast<double>(i + 1) / static_cast<double>(edges.size() + 1);
        layout_.edges[edges[i]].route.push_back({b.top_left.x + b.width * share, b.top_left.y});
      }
    }
  }

  Layout& layout_;
  std::vector<size_t> layer_of_;              // of each box
  std::vector<Item> items_;                   // the boxes first
  std::vector<std::vector<size_t>> dummies_;  // by source box: its dummies in the layers below
  std::vector<std::vector<size_t>> layers_;   // items in order
  std::vector<size_t> position_;              // of each item in its layer
};

}  // namespace

void lay_out(Layout& layout) { Sugiyama(layout).run(); }

}  // namespace opbridge::inspect
