#include "torch/prims.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/inconsistent.h"
#include "ir/uses.h"

namespace opbridge::torch {
namespace {

using Arguments = std::vector<ir::Attribute>;

// An ATen operator, the prim's arguments that it takes under other names ("inp", "self"), and arguments that
// the prim lacks. Arguments of the prim that are neither named here nor in `kept` have no meaning for it.
struct Equivalent {
  std::string aten;
  std::vector<std::pair<std::string_view, std::string_view>> renamed = {};
  Arguments added = {};
};

constexpr std::string_view unary[] = {
    "abs",       "acos",       "acosh",         "asin",     "asinh",   "atan",    "atanh",   "bitwise_not",
    "ceil",      "clone",      "cos",           "cosh",     "erf",     "erfc",    "exp",     "exp2",
    "expm1",     "floor",      "imag",          "log",      "log10",   "log1p",   "log2",    "neg",
    "real",      "reciprocal", "round",         "rsqrt",    "sign",    "sin",     "sinh",    "sqrt",
    "tan",       "tanh",       "trunc",         "cat",      "lgamma",  "atan2",   "fmax",    "fmin",
    "gcd",       "hypot",      "conj_physical", "isfinite", "signbit", "digamma", "maximum", "minimum",
    "nextafter", "igamma",     "igammac",
};
constexpr std::string_view of_tensors[] = {
    "add", "sub", "mul",  "eq",        "ge",          "gt",         "le",
    "lt",  "ne",  "fmod", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor",
};
constexpr std::string_view special[] = {"bessel_j0", "bessel_j1", "erfcx", "ndtri", "zeta"};

const std::map<std::string, Equivalent, std::less<>>& equivalents() {
  static const auto table = [] {
    const int64_t none = 0;
    std::map<std::string, Equivalent, std::less<>> all = {
        {"amax", {"aten::amax", {{"inp", "self"}, {"dims", "dim"}}}},
        {"amin", {"aten::amin", {{"inp", "self"}, {"dims", "dim"}}}},
        {"as_strided", {"aten::as_strided", {{"a", "self"}}}},
        {"as_strided_scatter", {"aten::as_strided_scatter"}},
        {"bessel_i0", {"aten::special_i0"}},
        {"bessel_i0e", {"aten::special_i0e"}},
        {"bessel_i1", {"aten::special_i1"}},
        {"bessel_i1e", {"aten::special_i1e"}},
        {"collapse",
         {"aten::flatten.using_ints", {{"a", "self"}, {"start", "start_dim"}, {"end", "end_dim"}}}},
        {"collapse_view",
         {"aten::flatten.using_ints", {{"a", "self"}, {"start", "start_dim"}, {"end", "end_dim"}}}},
        {"conj", {"aten::_conj", {{"a", "self"}}}},
        {"convert_element_type", {"aten::to.dtype", {{"a", "self"}}}},
        {"copy_strided", {"aten::clone", {{"a", "self"}}}},
        {"copy_to", {"aten::copy_", {{"a", "self"}, {"b", "src"}}}},
        {"device_put", {"aten::clone", {{"a", "self"}}}},
        {"empty", {"aten::empty.memory_format", {{"shape", "size"}}}},
        {"empty_permuted", {"aten::empty.memory_format", {{"shape", "size"}}}},
        {"empty_strided", {"aten::empty.memory_format", {{"shape", "size"}}}},
        {"erf_inv", {"aten::erfinv"}},
        {"fft_c2c", {"aten::_fft_c2c", {}, {{"normalization", none}}}},
        {"fft_c2r", {"aten::_fft_c2r", {}, {{"normalization", none}}}},
        {"fft_r2c", {"aten::_fft_r2c", {}, {{"normalization", none}}}},
        {"fill", {"aten::full_like", {{"value", "fill_value"}}}},
        {"frexp", {"aten::frexp.Tensor"}},
        {"full", {"aten::full", {{"shape", "size"}}}},
        {"full_like", {"aten::full_like", {{"a", "self"}}}},
        {"item", {"aten::item", {{"a", "self"}}}},
        {"normal", {"aten::normal.float_float", {{"shape", "size"}}}},
        {"pow", {"aten::pow.Tensor_Tensor", {{"other", "exponent"}}}},
        {"reshape", {"aten::reshape", {{"a", "self"}}}},
        {"rev", {"aten::flip", {{"a", "self"}}}},
        {"scalar_tensor", {"aten::scalar_tensor"}},
        {"shift_left", {"aten::bitwise_left_shift.Tensor"}},
        {"shift_right_arithmetic", {"aten::bitwise_right_shift.Tensor"}},
        {"spherical_bessel_j0", {"aten::special_spherical_bessel_j0", {{"self", "x"}}}},
        {"squeeze", {"aten::squeeze.dims", {{"a", "self"}, {"dimensions", "dim"}}}},
        {"sum", {"aten::sum.dim_IntList", {{"inp", "self"}, {"dims", "dim"}, {"output_dtype", "dtype"}}}},
        {"svd", {"aten::linalg_svd"}},
        {"transpose", {"aten::permute", {{"a", "self"}, {"permutation", "dims"}}}},
        {"var", {"aten::var.correction", {{"inp", "self"}, {"dims", "dim"}}}},
        {"view_of", {"aten::alias", {{"a", "self"}}}},
        {"view_of_dtype", {"aten::view.dtype", {{"a", "self"}}}},
        {"where", {"aten::where.self", {{"pred", "condition"}, {"a", "self"}, {"b", "other"}}}},
    };
    for (const std::string_view name : unary) all[std::string(name)] = {"aten::" + std::string(name)};
    for (const std::string_view name : of_tensors)
      all[std::string(name)] = {"aten::" + std::string(name) + ".Tensor"};
    for (const std::string_view name : special)
      all[std::string(name)] = {"aten::special_" + std::string(name)};
    return all;
  }();
  return table;
}

// Arguments of prims that the ATen operators lack, or that have no meaning here.
constexpr std::string_view dropped[] = {"output_dtype", "requires_grad", "physical_layout", "strides",
                                        "non_blocking"};

// The following throw standard library exceptions for calls that torch does not make.

const ir::AttributeValue& argument(const ir::Node& node, std::string_view name) {
  const ir::AttributeValue* value = node.find(name);
  if (value == nullptr) throw std::out_of_range(fmt::format("no argument {}", name));
  return *value;
}

ir::Value* tensor(const ir::Node& node, std::string_view name) {
  return std::get<ir::Value*>(argument(node, name));
}

const ir::TensorType& type_of(const ir::Node& node) { return node.outputs.at(0)->tensor_type(); }

// The axis, which is at most `most`.
int64_t checked(int64_t axis, size_t most) {
  if (axis < 0 || std::cmp_greater(axis, most)) throw std::out_of_range(fmt::format("dim {}", axis));
  return axis;
}

class Replacing {
 public:
  explicit Replacing(ir::Graph& root) : names_(root) {}

  void run(ir::Graph& graph) {
    const std::vector<ir::Node*> before = std::exchange(graph.nodes, {});
    graph_ = &graph;
    for (ir::Node* node : before) {
      if (node->op.starts_with("prims::")) ir::of_consistent_call(*node, [&] { replace(*node); });
      // torch may record the prim of this name as aten's operator, with the prim's result type: that of the
      // argument.
      if (node->op == "aten::signbit") make_boolean(*node);
      graph.nodes.push_back(node);
    }
  }

 private:
  void replace(ir::Node& node) {
    const std::string_view name = std::string_view(node.op).substr(7);
    if (name == "div") return divide(node);
    if (name == "broadcast_in_dim") return broadcast(node);
    if (name == "cbrt") return take_cube_root(node);
    if (name == "iota") return count(node);
    if (name == "prod") return multiply(node);
    if (name == "split_dim") return split(node);
    if (name == "uniform") return draw(node);
    const auto found = equivalents().find(name);
    if (found == equivalents().end()) return;
    const Equivalent& equivalent = found->second;
    std::erase_if(node.attributes, [&](const ir::Attribute& argument) {
      const auto is = [&](const auto& pair) { return pair.first == argument.name; };
      return std::ranges::find(dropped, argument.name) != std::end(dropped) &&
             std::ranges::none_of(equivalent.renamed, is);
    });
    for (ir::Attribute& argument : node.attributes) {
      for (const auto& [from, to] : equivalent.renamed) {
        if (argument.name == from) {
          argument.name = to;
          break;
        }
      }
    }
    for (const ir::Attribute& argument : equivalent.added) node.set(argument.name, argument.value);
    node.op = equivalent.aten;
  }

  static void make_boolean(const ir::Node& node) {
    auto* type = node.outputs.empty() ? nullptr : std::get_if<ir::TensorType>(&node.outputs[0]->type);
    if (type != nullptr) type->element_type = ElementType::boolean;
  }

  // A node before `anchor`, with the result of `type`.
  ir::Value* emit(const ir::Node& anchor, const std::string& op, Arguments arguments, ir::TensorType type) {
    ir::Node* node = graph_->add_node(op);
    node->source = anchor.source;
    node->attributes = std::move(arguments);
    return graph_->add_output_of(node, names_.unused(anchor.outputs[0]->name + "_" + op), std::move(type));
  }

  static void become(ir::Node& node, std::string op, Arguments arguments) {
    node.op = std::move(op);
    node.attributes = std::move(arguments);
  }

  // The quotient of integers is truncated.
  static void divide(ir::Node& node) {
    node.op = "aten::div.Tensor";
    if (!is_integral(type_of(node).element_type)) return;
    node.op = "aten::div.Tensor_mode";
    node.set("rounding_mode", std::string("trunc"));
  }

  // A dim of the result that the input lacks is inserted with size 1, and then expanded.
  void broadcast(ir::Node& node) {
    ir::Value* value = tensor(node, "a");
    const auto& kept = std::get<std::vector<int64_t>>(argument(node, "broadcast_dimensions"));
    const ir::AttributeValue shape = argument(node, "shape");
    ir::TensorType type = value->tensor_type();
    std::vector<Dim>& dims = type.dims.value();
    for (int64_t axis = 0; std::cmp_less(axis, type_of(node).rank()); ++axis) {
      if (std::ranges::find(kept, axis) != kept.end()) continue;
      dims.insert(dims.begin() + checked(axis, dims.size()), Dim(1));
      value = emit(node, "aten::unsqueeze", {{"self", value}, {"dim", axis}}, type);
    }
    become(node, "aten::expand", {{"self", value}, {"size", shape}});
  }

  void take_cube_root(ir::Node& node) {
    ir::Value* self = tensor(node, "self");
    ir::Value* size = emit(node, "aten::abs", {{"self", self}}, type_of(node));
    ir::Value* root =
        emit(node, "aten::pow.Tensor_Scalar", {{"self", size}, {"exponent", 1.0 / 3}}, type_of(node));
    become(node, "aten::copysign.Tensor", {{"self", root}, {"other", self}});
  }

  static Dim size(const ir::Node& node, std::string_view name) {
    const ir::AttributeValue& value = argument(node, name);
    const auto* dim = std::get_if<Dim>(&value);
    return dim ? *dim : Dim(std::get<int64_t>(value));
  }

  static void count(ir::Node& node) {
    const Dim start = size(node, "start"), step = size(node, "step");
    const Dim end = start + size(node, "length") * step;
    const auto number = [](const Dim& dim) {
      return dim.is_static() ? ir::AttributeValue(dim.value()) : ir::AttributeValue(dim);
    };
    become(node, "aten::arange.start_step",
           {{"start", number(start)},
            {"end", number(end)},
            {"step", number(step)},
            {"dtype", argument(node, "dtype")}});
  }

  void multiply(ir::Node& node) {
    ir::Value* value = tensor(node, "inp");
    std::vector<int64_t> dims;
    if (const ir::AttributeValue* given = node.find("dims")) {
      if (const auto* list = std::get_if<std::vector<int64_t>>(given)) dims = *list;
    }
    if (dims.empty())
      return become(node, "aten::prod", {{"self", value}, {"dtype", type_of(node).element_type}});
    std::ranges::sort(dims, std::greater<>());
    const ElementType type = type_of(node).element_type;
    for (const int64_t dim : dims) {
      Arguments arguments{{"self", value}, {"dim", dim}, {"dtype", type}};
      if (dim == dims.back()) return become(node, "aten::prod.dim_int", std::move(arguments));
      std::vector<Dim> sizes = value->tensor_type().dims.value();
      sizes.at(dim);
      sizes.erase(sizes.begin() + dim);
      value = emit(node, "aten::prod.dim_int", std::move(arguments), {type, std::move(sizes)});
    }
  }

  static void split(ir::Node& node) {
    const auto dim = std::get<int64_t>(argument(node, "dim"));
    const std::vector<Dim>& dims = type_of(node).dims.value();
    const std::vector<Dim> sizes{dims.at(dim), dims.at(dim + 1)};
    become(node, "aten::unflatten.int", {{"self", tensor(node, "a")}, {"dim", dim}, {"sizes", sizes}});
  }

  void draw(ir::Node& node) {
    ir::Value* empty =
        emit(node, "aten::empty.memory_format",
             {{"size", argument(node, "shape")}, {"dtype", argument(node, "dtype")}}, type_of(node));
    become(node, "aten::uniform",
           {{"self", empty}, {"from", argument(node, "low")}, {"to", argument(node, "high")}});
  }

  ir::Names names_;
  ir::Graph* graph_ = nullptr;
};

}  // namespace

void replace_prims(ir::Graph& graph) {
  std::optional<Replacing> replacing;  // it reads all names of the graph
  for (ir::Graph* each : ir::all_graphs(graph)) {
    const auto is_prim = [](const ir::Node* node) { return node->op.starts_with("prims::"); };
    if (std::ranges::none_of(each->nodes, is_prim)) continue;
    if (!replacing) replacing.emplace(graph);
    replacing->run(*each);
  }
}

}  // namespace opbridge::torch
