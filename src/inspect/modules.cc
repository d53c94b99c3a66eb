#include "inspect/modules.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

namespace opbridge::inspect {
namespace {

// A module with more than this part of the boxes is opened in place.
constexpr double dominating = 0.6;
constexpr size_t fewest_boxes_in_module = 2;

// The prefix of the path that has one more part than its prefix `opened`; the whole path at its end.
std::string_view next_prefix(std::string_view scope, std::string_view opened) {
  if (scope.size() == opened.size()) return scope;
  const size_t start = opened.empty() ? 0 : opened.size() + 1;
  return scope.substr(0, scope.find('.', start));
}

bool is_prefix(std::string_view prefix, std::string_view scope) {
  return prefix.empty() || scope == prefix || (scope.starts_with(prefix) && scope[prefix.size()] == '.');
}

class Views {
 public:
  explicit Views(const ScopedGraph& graph)
      : graph_(graph), before_(graph.scopes.size()), after_(graph.scopes.size()) {
    for (const auto& [from, to] : graph.edges) {
      before_[to].push_back(from);
      after_[from].push_back(to);
    }
  }

  std::vector<ModuleView> run() {
    ModuleView root;
    for (size_t box = 0; box < graph_.scopes.size(); ++box) root.members.push_back(box);
    views_.push_back(std::move(root));
    for (size_t i = 0; i < views_.size(); ++i) fill(i);
    return views_.size() == 1 ? std::vector<ModuleView>() : std::move(views_);
  }

 private:
  // The module whose box in the view holds `box`; the view's own for boxes of no submodule.
  std::string_view group_of(size_t box, const std::set<std::string, std::less<>>& opened) const {
    const std::string_view scope = graph_.scopes[box];
    std::string_view prefix = opened_root_;
    if (!is_prefix(prefix, scope)) return prefix;
    while (opened.contains(prefix)) {
      const std::string_view next = next_prefix(scope, prefix);
      if (next == prefix) break;
      prefix = next;
    }
    return prefix;
  }

  // The modules whose contents are shown in place: the view's own, and those that dominate it.
  std::set<std::string, std::less<>> opened_modules(const ModuleView& view) {
    std::set<std::string, std::less<>> opened{view.scope};
    opened_root_ = view.scope;
    while (true) {
      std::map<std::string_view, size_t> counts;
      for (const size_t box : view.members) ++counts[group_of(box, opened)];
      const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
      if (most == counts.end() || opened.contains(most->first) ||
          static_cast<double>(most->second) <= dominating * static_cast<double>(view.members.size()))
        return opened;
      opened.emplace(most->first);
    }
  }

  void fill(size_t index) {
    const std::set<std::string, std::less<>> opened = opened_modules(views_[index]);
    const std::vector<size_t> members = views_[index].members;
    // Groups of boxes, in order: the boxes of one call of a submodule, or one box.
    std::vector<std::vector<size_t>> groups;
    std::vector<std::set<size_t>> group_before;
    std::unordered_map<size_t, size_t> group;              // of each box
    std::unordered_map<std::string_view, size_t> current;  // the group of a submodule that may still grow
    const auto reaches = [&](size_t from, size_t wanted) {
      std::vector<size_t> stack{from};
      std::set<size_t> seen{from};
      while (!stack.empty()) {
        const size_t at = stack.back();
        stack.pop_back();
        if (at == wanted) return true;
        for (const size_t next : group_before[at]) {
          if (seen.insert(next).second) stack.push_back(next);
        }
      }
      return false;
    };
    for (const size_t box : members) {
      const std::string_view module = group_of(box, opened);
      std::set<size_t> inputs;
      for (const size_t from : before_[box]) {
        if (const auto found = group.find(from); found != group.end()) inputs.insert(found->second);
      }
      std::optional<size_t> joined;
      if (!opened.contains(module)) {
        const auto known = current.find(module);
        const auto makes_cycle = [&](size_t input) {
          return input != known->second && reaches(input, known->second);
        };
        if (known != current.end() && std::ranges::none_of(inputs, makes_cycle)) joined = known->second;
      }
      if (!joined) {
        joined = groups.size();
        groups.emplace_back();
        group_before.emplace_back();
        if (!opened.contains(module)) current[module] = *joined;
      }
      groups[*joined].push_back(box);
      inputs.erase(*joined);
      group_before[*joined].insert(inputs.begin(), inputs.end());
      group[box] = *joined;
    }
    std::vector<ModuleView::Item> items;
    for (const std::vector<size_t>& boxes : groups) {
      const std::string_view module = group_of(boxes[0], opened);
      if (boxes.size() < fewest_boxes_in_module || boxes.size() == members.size()) {
        for (const size_t box : boxes) {
          group[box] = items.size();
          items.push_back({.box = box, .view = {}, .source = {}, .target = {}});
        }
        continue;
      }
      for (const size_t box : boxes) group[box] = items.size();
      items.push_back({.box = {}, .view = views_.size(), .source = {}, .target = {}});
      ModuleView view;
      view.scope = module;
      view.parent = index;
      view.members = boxes;
      views_.push_back(std::move(view));
    }
    add_outside(items, group, members);
    std::set<std::pair<size_t, size_t>> edges;
    for (const size_t box : members) {
      for (const size_t to : after_[box]) {
        if (const auto found = group.find(to); found != group.end())
          edges.emplace(group.at(box), found->second);
      }
    }
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].source) {
        for (const size_t to : after_[*items[i].source]) {
          if (const auto found = group.find(to); found != group.end()) edges.emplace(i, found->second);
        }
      } else if (items[i].target) {
        for (const size_t from : before_[*items[i].target]) {
          if (const auto found = group.find(from); found != group.end()) edges.emplace(found->second, i);
        }
      }
    }
    std::erase_if(edges, [](const auto& edge) { return edge.first == edge.second; });
    order(items, edges);
    views_[index].items = std::move(items);
    views_[index].edges.assign(edges.begin(), edges.end());
  }

  void add_outside(std::vector<ModuleView::Item>& items, const std::unordered_map<size_t, size_t>& inside,
                   const std::vector<size_t>& members) const {
    std::set<size_t> sources, targets;
    for (const size_t box : members) {
      for (const size_t from : before_[box]) {
        if (!inside.contains(from)) sources.insert(from);
      }
      for (const size_t to : after_[box]) {
        if (!inside.contains(to)) targets.insert(to);
      }
    }
    for (const size_t box : sources) items.push_back({.box = {}, .view = {}, .source = box, .target = {}});
    for (const size_t box : targets) items.push_back({.box = {}, .view = {}, .source = {}, .target = box});
  }

  // Orders the items so that edges lead to later ones.
  static void order(std::vector<ModuleView::Item>& items, std::set<std::pair<size_t, size_t>>& edges) {
    std::vector<size_t> waiting(items.size(), 0), place(items.size(), 0), ready;
    for (const auto& [from, to] : edges) ++waiting[to];
    for (size_t i = items.size(); i-- > 0;) {
      if (waiting[i] == 0) ready.push_back(i);
    }
    std::vector<ModuleView::Item> ordered;
    while (!ready.empty()) {
      const size_t item = ready.back();
      ready.pop_back();
      place[item] = ordered.size();
      ordered.push_back(items[item]);
      for (auto edge = edges.lower_bound({item, 0}); edge != edges.end() && edge->first == item; ++edge) {
        if (--waiting[edge->second] == 0) ready.push_back(edge->second);
      }
    }
    std::set<std::pair<size_t, size_t>> placed;
    for (const auto& [from, to] : edges) placed.emplace(place[from], place[to]);
    items = std::move(ordered);
    edges = std::move(placed);
  }

  const ScopedGraph& graph_;
  std::vector<std::vector<size_t>> before_;
  std::vector<std::vector<size_t>> after_;
  std::vector<ModuleView> views_;
  std::string opened_root_;
};

}  // namespace

std::vector<ModuleView> module_views(const ScopedGraph& graph) { return Views(graph).run(); }

}  // namespace opbridge::inspect
