#include "inspect/model_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tensor/compare.h"

namespace opbridge::inspect {
namespace {

std::string_view bytes_of(const ir::Weight& weight) {
  return {reinterpret_cast<const char*>(weight.bytes.data()), weight.bytes.size()};
}

bool equal(const ir::Weight& a, const ir::Weight& b) {
  return a.element_type == b.element_type && a.dims == b.dims && bytes_of(a) == bytes_of(b);
}

// A key that is equal for equal contents.
std::string content_key(const ir::Weight& weight) {
  return fmt::format("{}[{}]:{:x}", opbridge::name(weight.element_type), fmt::join(weight.dims, ","),
                     std::hash<std::string_view>()(bytes_of(weight)));
}

std::string attribute_key(const ir::AttributeValue& value) {
  if (const auto* tensor = std::get_if<std::shared_ptr<const ir::Weight>>(&value))
    return content_key(**tensor);
  if (const auto* body = std::get_if<ir::GraphPtr>(&value)) return ir::print(**body);
  return ir::str(value);
}

// The properties in which two nodes must agree to be the same. Their inputs are compared afterwards.
std::string signature_of(const ir::Node& node) {
  std::string text = node.op;
  std::map<std::string_view, std::string> attributes;
  for (const ir::Attribute& attribute : node.attributes)
    attributes[attribute.name] = attribute_key(attribute.value);
  for (const auto& [name, value] : attributes) text += fmt::format("\n{}={}", name, value);
  for (const ir::Value* input : node.inputs)
    text += input == nullptr ? "\n-" : input->weight != nullptr ? "\nw" : "\nv";
  // Their types follow from the inputs.
  text += fmt::format("\n{}", node.outputs.size());
  return text;
}

// The longest common subsequence of two sequences, by Myers' algorithm (1986). Sequences with more
// differences than this share only their ends.
constexpr int most_differences = 4000;

// The indices of both sequences, side by side.
std::vector<NodePair> aligned(std::span<const size_t> a, std::span<const size_t> b) {
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size());
  const int most = std::min(n + m, most_differences);
  std::vector<std::vector<int>> trace;
  std::vector<int> reach(2 * static_cast<size_t>(most) + 2, 0);
  const auto at = [most](std::vector<int>& values, int k) -> int& {
    return values[static_cast<size_t>(k + most)];
  };
  int found = -1;
  for (int d = 0; d <= most && found < 0; ++d) {
    trace.emplace_back(reach.begin() + (most - d), reach.begin() + (most + d + 1));
    for (int k = -d; k <= d; k += 2) {
      const bool down = k == -d || (k != d && at(reach, k - 1) < at(reach, k + 1));
      int x = d == 0 ? 0 : down ? at(reach, k + 1) : at(reach, k - 1) + 1;
      while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      at(reach, k) = x;
      if (x >= n && x - k >= m) found = d;
    }
  }
  std::vector<NodePair> pairs;
  int x = n, y = m;
  const auto add = [&](bool in_a, bool in_b) {
    NodePair pair;
    if (in_a) pair.a = static_cast<size_t>(--x);
    if (in_b) pair.b = static_cast<size_t>(--y);
    pairs.push_back(std::move(pair));
  };
  if (found < 0) {
    while (y > 0) add(false, true);
    while (x > 0) add(true, false);
  }
  for (int d = found; d > 0; --d) {
    std::vector<int>& before = trace[static_cast<size_t>(d)];  // from -d to d, as left by the step before
    const auto earlier = [&](int k) { return before[static_cast<size_t>(k + d)]; };
    const int k = x - y;
    const bool down = k == -d || (k != d && earlier(k - 1) < earlier(k + 1));
    const int from = down ? earlier(k + 1) : earlier(k - 1);
    const int start = down ? from : from + 1;
    while (x > start) add(true, true);
    down ? add(false, true) : add(true, false);
  }
  while (found >= 0 && x > 0) add(true, true);
  std::ranges::reverse(pairs);
  return pairs;
}

class Comparison {
 public:
  Comparison(const ir::Graph& a, const ir::Graph& b) : a_(a), b_(b) {}

  void run(ModelDifference& result) {
    result.inputs = by_name(a_.inputs, b_.inputs);
    result.outputs = by_name(a_.outputs, b_.outputs);
    add_initializers(result);
    pair_inputs();
    result.nodes = aligned(signatures(a_), signatures(b_));
    for (const NodePair& pair : result.nodes) {
      if (!pair.a || !pair.b) {
        unpaired_.insert(pair.a ? a_.nodes[*pair.a] : b_.nodes[*pair.b]);
        continue;
      }
      const ir::Node &one = *a_.nodes[*pair.a], &other = *b_.nodes[*pair.b];
      for (size_t i = 0; i < std::min(one.outputs.size(), other.outputs.size()); ++i)
        counterpart_[one.outputs[i]] = other.outputs[i];
    }
    for (NodePair& pair : result.nodes) {
      if (pair.a && pair.b) pair.difference = inputs_differ(*a_.nodes[*pair.a], *b_.nodes[*pair.b]);
    }
    for (size_t i = 0; i < std::min(a_.outputs.size(), b_.outputs.size()); ++i) {
      if (are_same(a_.outputs[i], b_.outputs[i])) continue;
      const auto entry = std::ranges::find(result.outputs, a_.outputs[i]->name, &ValuePair::name);
      if (entry->difference.empty()) entry->difference = "another value";
    }
  }

 private:
  std::vector<size_t> signatures(const ir::Graph& graph) {
    std::vector<size_t> result;
    for (const ir::Node* node : graph.nodes) {
      result.push_back(numbers_.try_emplace(signature_of(*node), numbers_.size()).first->second);
    }
    return result;
  }

  static std::vector<ValuePair> by_name(const std::vector<ir::Value*>& a, const std::vector<ir::Value*>& b) {
    std::vector<ValuePair> pairs;
    for (const ir::Value* value : a) pairs.push_back({value->name, ir::str(value->type), ""});
    for (const ir::Value* value : b) {
      const auto known = std::ranges::find(pairs, value->name, &ValuePair::name);
      if (known != pairs.end() && known->b.empty()) {
        known->b = ir::str(value->type);
      } else {
        pairs.push_back({value->name, "", ir::str(value->type)});
      }
    }
    return pairs;
  }

  void pair_inputs() {
    std::unordered_map<std::string_view, ir::Value*> by_name;
    for (ir::Value* input : b_.inputs) by_name.emplace(input->name, input);
    for (size_t i = 0; i < a_.inputs.size(); ++i) {
      const auto same_name = by_name.find(a_.inputs[i]->name);
      if (same_name != by_name.end()) {
        counterpart_[a_.inputs[i]] = same_name->second;
      } else if (i < b_.inputs.size()) {
        counterpart_[a_.inputs[i]] = b_.inputs[i];
      }
    }
  }

  void add_initializers(ModelDifference& result) {
    std::unordered_map<std::string_view, const ir::Value*> by_name;
    std::unordered_multimap<std::string, const ir::Value*> nameless;  // of b, by contents
    for (const ir::Value* value : b_.initializers) by_name.emplace(value->name, value);
    std::unordered_map<std::string_view, bool> in_a;
    for (const ir::Value* value : a_.initializers) in_a[value->name] = true;
    for (const ir::Value* value : b_.initializers) {
      if (!in_a.contains(value->name)) nameless.emplace(content_key(*value->weight), value);
    }
    for (const ir::Value* value : a_.initializers) {
      const auto same_name = by_name.find(value->name);
      if (same_name != by_name.end()) {
        counterpart_[value] = same_name->second;
        compare(*value, *same_name->second, result);
        continue;
      }
      const auto same_content = nameless.find(content_key(*value->weight));
      if (same_content == nameless.end() || !equal(*value->weight, *same_content->second->weight)) {
        result.initializers.push_back({value->name, ir::str(value->type), ""});
        continue;
      }
      counterpart_[value] = same_content->second;
      nameless.erase(same_content);
      ++result.renamed;
    }
    for (const ir::Value* value : b_.initializers) {
      const auto left = nameless.equal_range(content_key(*value->weight));
      const auto is_it = [&](const auto& entry) { return entry.second == value; };
      if (std::any_of(left.first, left.second, is_it))
        result.initializers.push_back({value->name, "", ir::str(value->type)});
    }
  }

  static void compare(const ir::Value& a, const ir::Value& b, ModelDifference& result) {
    if (equal(*a.weight, *b.weight)) return;
    ValuePair pair{a.name, ir::str(a.type), ir::str(b.type)};
    if (pair.a == pair.b) {
      pair.difference = "other values";
      try {
        const tensor::Difference found = tensor::compare(*a.weight, *b.weight, {});
        pair.difference = fmt::format("{} of {} elements differ, by at most {:.3g}", found.mismatches,
                                      a.weight->element_count(), found.max_absolute);
      } catch (const Error&) {  // an element type without arithmetic
      }
    }
    result.initializers.push_back(std::move(pair));
  }

  // Whether a value of one model corresponds to a value of the other.
  bool are_same(const ir::Value* a, const ir::Value* b) const {
    if (a == nullptr || b == nullptr) return a == b;
    if (a->weight != nullptr && b->weight != nullptr && equal(*a->weight, *b->weight)) return true;
    // Results of nodes that one model lacks count as the same: the nodes themselves are shown already.
    if (unpaired_.contains(a->producer) && unpaired_.contains(b->producer)) return true;
    const auto found = counterpart_.find(a);
    return found != counterpart_.end() && found->second == b;
  }

  std::string inputs_differ(const ir::Node& a, const ir::Node& b) const {
    const auto name = [](const ir::Value* value) {
      return value == nullptr ? std::string("missing") : '%' + value->name;
    };
    for (size_t i = 0; i < std::max(a.inputs.size(), b.inputs.size()); ++i) {
      const ir::Value* one = i < a.inputs.size() ? a.inputs[i] : nullptr;
      const ir::Value* other = i < b.inputs.size() ? b.inputs[i] : nullptr;
      if (!are_same(one, other)) return fmt::format("input {}: {} | {}", i, name(one), name(other));
    }
    return {};
  }

  const ir::Graph& a_;
  const ir::Graph& b_;
  std::unordered_map<std::string, size_t> numbers_;  // of signatures
  std::unordered_map<const ir::Value*, const ir::Value*> counterpart_;
  std::unordered_set<const ir::Node*> unpaired_;
};

std::vector<std::string> different_functions(const onnx::ModelFile& a, const onnx::ModelFile& b) {
  std::map<std::string, std::string> bodies;
  std::vector<std::string> names;
  for (const OnnxFunction& each : a.model.functions) bodies[each.domain + "::" + each.name] = each.bytes;
  for (const OnnxFunction& each : b.model.functions) {
    const auto known = bodies.find(each.domain + "::" + each.name);
    if (known == bodies.end() || known->second != each.bytes) names.push_back(each.domain + "::" + each.name);
    if (known != bodies.end()) bodies.erase(known);
  }
  for (const auto& [name, bytes] : bodies) names.push_back(name);
  return names;
}

}  // namespace

bool ModelDifference::same() const {
  const auto differs = [](const auto& each) { return each.differs(); };
  return a.opsets == b.opsets && initializers.empty() && functions.empty() &&
         std::ranges::none_of(nodes, differs) && std::ranges::none_of(inputs, differs) &&
         std::ranges::none_of(outputs, differs);
}

size_t ModelDifference::different_nodes() const {
  return static_cast<size_t>(
      std::ranges::count_if(nodes, [](const NodePair& pair) { return pair.differs(); }));
}

ModelDifference difference_of(const onnx::ModelFile& a, const onnx::ModelFile& b) {
  ModelDifference result;
  result.a = summarize(a);
  result.b = summarize(b);
  Comparison(a.model.graph, b.model.graph).run(result);
  result.functions = different_functions(a, b);
  return result;
}

}  // namespace opbridge::inspect
