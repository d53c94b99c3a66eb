#include "torch/foreach.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/uses.h"

namespace opbridge::torch {
namespace {

constexpr std::string_view prefix = "aten::_foreach_";

// An operator on tensors: its name and the overload if it returns a new tensor, and if it writes to the first
// one, and the arguments of the `_foreach_` operator that it takes under other names.
struct Equivalent {
  std::string name;
  std::string overload = {};
  std::string overload_in_place = {};
  std::vector<std::pair<std::string_view, std::string>> renamed = {};

  std::string op(bool in_place) const {
    return "aten::" + name + (in_place ? "_" + overload_in_place : overload);
  }
  std::string argument(const std::string& given) const {
    const auto found = std::ranges::find(renamed, given, [](const auto& pair) { return pair.first; });
    return found == renamed.end() ? given : found->second;
  }
};

constexpr std::string_view unary[] = {
    "abs",    "acos",  "asin",  "atan",       "ceil",  "clone",   "cos",   "cosh",  "erf",
    "erfc",   "exp",   "expm1", "floor",      "frac",  "log",     "log10", "log1p", "log2",
    "lgamma", "max",   "neg",   "mm",         "round", "sigmoid", "sign",  "sin",   "sinh",
    "sqrt",   "rsqrt", "tan",   "reciprocal", "tanh",  "trunc",   "zero",  "copy",
};

// By the name and the overload after the prefix: "add.List".
const std::map<std::string, Equivalent, std::less<>>& equivalents() {
  static const auto table = [] {
    std::map<std::string, Equivalent, std::less<>> all = {
        {"norm.Scalar", {"linalg_vector_norm"}},
        {"powsum.Scalar", {"linalg__powsum"}},
        {"pow.List", {"pow", ".Tensor_Tensor", ".Tensor"}},
        {"pow.ScalarAndTensor", {"pow", ".Scalar"}},
    };
    for (const std::string_view name : unary) all[std::string(name)] = {std::string(name)};
    for (const std::string name : {"add", "sub", "mul", "div"}) {
      for (const char* overload : {".List", ".Tensor"}) all[name + overload] = {name, ".Tensor", ".Tensor"};
    }
    for (const std::string overload : {".Scalar", ".ScalarList"}) {
      for (const std::string name : {"add", "sub", "mul", "div"}) {
        all[name + overload] = {name, ".Scalar", ".Scalar", {{"scalar", "other"}, {"scalars", "other"}}};
      }
      all["lerp" + overload] = {"lerp", ".Scalar", ".Scalar", {{"tensors1", "end"}}};
      all["pow" + overload] = {"pow", ".Tensor_Scalar", ".Scalar"};
    }
    for (const std::string name : {"addcdiv", "addcmul"}) {
      for (const char* overload : {".Scalar", ".ScalarList", ".Tensor"})
        all[name + overload] = {name, "", "", {{"scalars", "value"}}};
    }
    all["lerp.List"] = {"lerp", ".Tensor", ".Tensor", {{"tensors1", "end"}, {"weights", "weight"}}};
    // ATen computes maxima by clamp_min, and minima by clamp_max.
    const std::pair<const char*, const char*> bounds[] = {
        {"clamp_min", "min"}, {"maximum", "min"}, {"clamp_max", "max"}, {"minimum", "max"}};
    for (const auto& [name, bound] : bounds) {
      const std::string clamp = std::string("clamp_") + bound;
      all[std::string(name) + ".List"] = {clamp, ".Tensor", ".Tensor", {{"other", bound}}};
      for (const char* overload : {".Scalar", ".ScalarList"})
        all[std::string(name) + overload] = {clamp, "", "", {{"scalar", bound}, {"scalars", bound}}};
    }
    return all;
  }();
  return table;
}

template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;

bool holds_none(const ir::AttributeVariant& argument) {
  const auto* tensors = std::get_if<std::vector<ir::Value*>>(&argument);
  return tensors != nullptr && std::ranges::find(*tensors, nullptr) != tensors->end();
}

// The number of elements of a list of tensors or numbers; nothing for other arguments.
std::optional<size_t> length_of(const ir::AttributeVariant& argument) {
  const auto length = [](const auto& value) -> std::optional<size_t> {
    if constexpr (is_list<std::decay_t<decltype(value)>>) return value.size();
    return std::nullopt;
  };
  return std::visit(length, argument);
}

// The element of a list; other arguments are the same for all elements.
ir::AttributeValue element_of(const ir::AttributeVariant& argument, size_t index) {
  const auto element = [&](const auto& value) -> ir::AttributeValue {
    using T = std::decay_t<decltype(value)>;
    if constexpr (is_list<T>) {
      return typename T::value_type(value[index]);
    } else {
      return value;
    }
  };
  return std::visit(element, argument);
}

// The number of elements of the lists; nothing if it differs among them, if there is no list, or if one holds
// None.
std::optional<size_t> count_of(const ir::Node& node) {
  std::optional<size_t> count;
  for (const ir::Attribute& argument : node.attributes) {
    const std::optional<size_t> length = length_of(argument.value);
    if ((length && count && length != count) || holds_none(argument.value)) return std::nullopt;
    if (length) count = length;
  }
  return count;
}

// Whether the argument is a tensor with one number for each tensor of the lists.
bool is_packed(const ir::Attribute& argument) {
  const auto* value = std::get_if<ir::Value*>(&argument.value);
  return argument.name == "scalars" && value != nullptr && *value != nullptr;
}

// The tensors that an operator with an underscore writes to; nothing if the call has none.
const std::vector<ir::Value*>* written_by(const ir::Node& node) {
  return node.attributes.empty() ? nullptr : std::get_if<std::vector<ir::Value*>>(&node.attributes[0].value);
}

class Expanding {
 public:
  explicit Expanding(ir::Graph& root) : names_(root) {}

  void run(ir::Graph& graph) {
    for (ir::Node* node : std::exchange(graph.nodes, {})) {
      if (!node->op.starts_with(prefix) || !expand(graph, *node)) graph.nodes.push_back(node);
    }
  }

 private:
  bool expand(ir::Graph& graph, const ir::Node& node) {
    std::string name = node.op.substr(prefix.size());
    const size_t end = std::min(name.find('.'), name.size());
    const bool in_place = end > 0 && name[end - 1] == '_';
    if (in_place) name.erase(end - 1, 1);
    const auto found = equivalents().find(name);
    const std::optional<size_t> count = count_of(node);
    if (found == equivalents().end() || !count) return false;
    const std::vector<ir::Value*>* written = in_place ? written_by(node) : nullptr;
    if (in_place ? written == nullptr : node.outputs.size() != *count) return false;
    for (size_t i = 0; i < *count; ++i) {
      std::vector<ir::Attribute> arguments;
      for (const ir::Attribute& argument : node.attributes) {
        ir::AttributeValue value =
            is_packed(argument) ? packed(graph, node, argument, i) : element_of(argument.value, i);
        arguments.push_back({found->second.argument(argument.name), std::move(value)});
      }
      ir::Node* made = graph.add_node(found->second.op(in_place));
      made->source = node.source;
      made->attributes = std::move(arguments);
      if (in_place) {
        const ir::Value& self = *(*written)[i];
        graph.add_output_of(made, names_.unused(self.name + "_" + found->second.name), self.type);
      } else {
        made->outputs = {node.outputs[i]};
        node.outputs[i]->producer = made;
      }
    }
    return true;
  }

  // The number at an index, as a 0-d tensor.
  ir::Value* packed(ir::Graph& graph, const ir::Node& node, const ir::Attribute& argument, size_t index) {
    ir::Value* all = std::get<ir::Value*>(argument.value);
    ir::Node* select = graph.add_node("aten::select.int");
    select->source = node.source;
    select->attributes = {{"self", all}, {"dim", int64_t{0}}, {"index", static_cast<int64_t>(index)}};
    const ir::TensorType type{all->tensor_type().element_type, std::vector<Dim>()};
    return graph.add_output_of(select, names_.unused(all->name + "_select"), type);
  }

  ir::Names names_;
};

}  // namespace

void expand_foreach(ir::Graph& graph) {
  std::optional<Expanding> expanding;
  for (ir::Graph* each : ir::all_graphs(graph)) {
    const auto is_foreach = [](const ir::Node* node) { return node->op.starts_with(prefix); };
    if (std::ranges::none_of(each->nodes, is_foreach)) continue;
    if (!expanding) expanding.emplace(graph);
    expanding->run(*each);
  }
}

}  // namespace opbridge::torch
