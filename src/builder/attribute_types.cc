#include "builder/attribute_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace opbridge::builder {
namespace {

using Problem = std::optional<std::string>;

const ir::AttributeValue* find(const NodeParts& node, std::string_view name) {
  const auto found = std::ranges::find(node.attributes, name, &ir::Attribute::name);
  return found == node.attributes.end() ? nullptr : &found->value;
}

// The body of this name, which the operator's schema requires.
const ir::Graph& body_of(const NodeParts& node, std::string_view name) {
  return *std::get<ir::GraphPtr>(*find(node, name));
}

std::vector<int64_t> ints_of(const NodeParts& node, std::string_view name, size_t count) {
  const auto* ints = std::get_if<std::vector<int64_t>>(find(node, name));
  return ints == nullptr ? std::vector<int64_t>(count, 0) : *ints;
}

// The type of a tensor; of undefined element type and unknown rank if the value is not a tensor.
ir::TensorType type_of(const ir::Value* value) {
  const auto* type = value == nullptr ? nullptr : std::get_if<ir::TensorType>(&value->type);
  return type == nullptr ? ir::TensorType() : *type;
}

Problem wrong_count(std::string_view body, std::string_view what, size_t given, size_t expected) {
  if (given == expected) return std::nullopt;
  return fmt::format("{} has {} {}{}, but {} {} expected", body, given, what, given == 1 ? "" : "s", expected,
                     expected == 1 ? "is" : "are");
}

bool agree(const ir::TensorType& a, const ir::TensorType& b) {
  return a.element_type == ElementType::undefined || b.element_type == ElementType::undefined ||
         a.element_type == b.element_type;
}

// A type that covers both: sizes that differ become unknown sizes.
ir::TensorType join(const ir::TensorType& a, const ir::TensorType& b,
                    const std::function<Dim()>& unknown_size) {
  ir::TensorType result{a.element_type == ElementType::undefined ? b.element_type : a.element_type, {}};
  if (!a.ranked() || !b.ranked() || a.rank() != b.rank()) return result;
  result.dims.emplace();
  for (size_t i = 0; i < a.rank(); ++i) {
    result.dims->push_back((*a.dims)[i] == (*b.dims)[i] ? (*a.dims)[i] : unknown_size());
  }
  return result;
}

Problem disagreement(const std::string& first, const ir::TensorType& a, std::string_view second,
                     const ir::TensorType& b) {
  if (agree(a, b)) return std::nullopt;
  return fmt::format("{} is {}, but {} is {}", first, name(a.element_type), second, name(b.element_type));
}

Problem apply_if(const NodeParts& node, std::span<ir::TensorType> outputs,
                 const std::function<Dim()>& unknown_size) {
  const ir::Graph& then_branch = body_of(node, "then_branch");
  const ir::Graph& else_branch = body_of(node, "else_branch");
  for (const auto& [name, body] : {std::pair("then_branch", &then_branch), {"else_branch", &else_branch}}) {
    if (Problem problem = wrong_count(name, "input", body->inputs.size(), 0)) return problem;
    if (Problem problem = wrong_count(name, "output", body->outputs.size(), outputs.size())) return problem;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::TensorType a = type_of(then_branch.outputs[i]), b = type_of(else_branch.outputs[i]);
    const std::string output = fmt::format("output {} of then_branch", i);
    if (Problem problem = disagreement(output, a, "that of else_branch", b)) return problem;
    outputs[i] = join(a, b, unknown_size);
  }
  return std::nullopt;
}

// Checks and types the values that a body carries from one iteration to the next.
Problem carry(const NodeParts& node, const ir::Graph& body, size_t first_input, size_t first_output,
              std::span<ir::TensorType> outputs, const std::function<Dim()>& unknown_size) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::TensorType initial = type_of(node.inputs[first_input + i].get());
    const ir::TensorType parameter = type_of(body.inputs[first_input + i]);
    const ir::TensorType next = type_of(body.outputs[first_output + i]);
    const std::string input = fmt::format("input {}", first_input + i);
    if (Problem problem = disagreement(input, initial, "that of the body", parameter)) return problem;
    if (Problem problem = disagreement(input, initial, "the body's output", next)) return problem;
    outputs[i] = join(initial, next, unknown_size);
  }
  return std::nullopt;
}

Problem apply_loop(const NodeParts& node, std::span<ir::TensorType> outputs,
                   const std::function<Dim()>& unknown_size) {
  const ir::Graph& body = body_of(node, "body");
  const size_t carried = std::max<size_t>(node.inputs.size(), 2) - 2;
  if (outputs.size() < carried) {
    return fmt::format("{} outputs are requested, but {} values are carried", outputs.size(), carried);
  }
  if (Problem problem = wrong_count("body", "input", body.inputs.size(), 2 + carried)) return problem;
  if (Problem problem = wrong_count("body", "output", body.outputs.size(), 1 + outputs.size()))
    return problem;
  const ir::TensorType number{ElementType::int64, {}}, condition{ElementType::boolean, {}};
  const std::tuple<const char*, const ir::Value*, ir::TensorType> fixed[] = {
      {"input 0 of body", body.inputs[0], number},
      {"input 1 of body", body.inputs[1], condition},
      {"output 0 of body", body.outputs[0], condition}};
  for (const auto& [what, value, due] : fixed) {
    if (Problem problem = disagreement(what, type_of(value), "the required type", due)) return problem;
  }
  if (Problem problem = carry(node, body, 2, 1, outputs.first(carried), unknown_size)) return problem;
  for (size_t i = carried; i < outputs.size(); ++i) {
    outputs[i] = type_of(body.outputs[1 + i]);
    if (outputs[i].ranked()) outputs[i].dims->insert(outputs[i].dims->begin(), unknown_size());
  }
  return std::nullopt;
}

// Scan since opset 9.
Problem apply_scan(const NodeParts& node, std::span<ir::TensorType> outputs,
                   const std::function<Dim()>& unknown_size) {
  const ir::Graph& body = body_of(node, "body");
  const int64_t scanned = std::get<int64_t>(*find(node, "num_scan_inputs"));
  if (scanned < 1 || static_cast<size_t>(scanned) > node.inputs.size()) {
    return fmt::format("num_scan_inputs is {}, but there are {} inputs", scanned, node.inputs.size());
  }
  const size_t states = node.inputs.size() - static_cast<size_t>(scanned);
  if (outputs.size() < states) {
    return fmt::format("{} outputs are requested, but there are {} states", outputs.size(), states);
  }
  if (Problem problem = wrong_count("body", "input", body.inputs.size(), node.inputs.size())) return problem;
  if (Problem problem = wrong_count("body", "output", body.outputs.size(), outputs.size())) return problem;
  if (Problem problem = carry(node, body, 0, 0, outputs.first(states), unknown_size)) return problem;
  const size_t stacked = outputs.size() - states;
  const std::vector<int64_t> input_axes = ints_of(node, "scan_input_axes", static_cast<size_t>(scanned));
  const std::vector<int64_t> output_axes = ints_of(node, "scan_output_axes", stacked);
  if (Problem problem =
          wrong_count("scan_input_axes", "axes", input_axes.size(), static_cast<size_t>(scanned))) {
    return problem;
  }
  if (Problem problem = wrong_count("scan_output_axes", "axes", output_axes.size(), stacked)) return problem;
  const ir::TensorType sequence = type_of(node.inputs[states].get());
  const Dim length =
      sequence.ranked() && sequence.rank() > 0 ? node.inputs[states].dim(input_axes[0]) : unknown_size();
  for (size_t i = 0; i < stacked; ++i) {
    ir::TensorType& output = outputs[states + i];
    output = type_of(body.outputs[states + i]);
    if (!output.ranked()) continue;
    const int64_t axis = wrap_axis(output_axes[i], static_cast<int64_t>(output.rank()) + 1);
    output.dims->insert(output.dims->begin() + axis, length);
  }
  return std::nullopt;
}

// The type of the tensor in an attribute of Constant.
struct TypeOf {
  using Type = ir::TensorType;
  static Type list(ElementType type, size_t size) {
    return {type, std::vector{Dim(static_cast<int64_t>(size))}};
  }
  static Type tensor(ElementType type, const std::vector<int64_t>& dims) {
    return {type, std::vector<Dim>(dims.begin(), dims.end())};
  }
  Type operator()(double) const { return {ElementType::float32, std::vector<Dim>()}; }
  Type operator()(int64_t) const { return {ElementType::int64, std::vector<Dim>()}; }
  Type operator()(const std::string&) const { return {ElementType::string, std::vector<Dim>()}; }
  Type operator()(const std::vector<double>& v) const { return list(ElementType::float32, v.size()); }
  Type operator()(const std::vector<int64_t>& v) const { return list(ElementType::int64, v.size()); }
  Type operator()(const std::vector<std::string>& v) const { return list(ElementType::string, v.size()); }
  Type operator()(const std::shared_ptr<const ir::Weight>& v) const {
    return tensor(v->element_type, v->dims);
  }
  Type operator()(const std::shared_ptr<const ir::SparseTensor>& v) const {
    return tensor(v->values.element_type, v->dims);
  }
  template <class Other>
  Type operator()(const Other&) const {
    return {};
  }
};

Problem apply_constant(const NodeParts& node, ir::TensorType& output) {
  if (node.attributes.size() != 1) {
    return fmt::format("{} attributes are given, but the operator takes exactly one", node.attributes.size());
  }
  output = std::visit(TypeOf(), node.attributes.front().value);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> apply_attributes(const NodeParts& node, std::span<ir::TensorType> outputs,
                                            const std::function<Dim()>& unknown_size) {
  if (node.op == "Constant") return apply_constant(node, outputs[0]);
  if (node.op == "If") return apply_if(node, outputs, unknown_size);
  if (node.op == "Loop") return apply_loop(node, outputs, unknown_size);
  if (node.op == "Scan") return apply_scan(node, outputs, unknown_size);
  return std::nullopt;
}

}  // namespace opbridge::builder
