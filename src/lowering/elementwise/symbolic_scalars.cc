// Python numbers that are known only when the model runs: results of `item()`, and arithmetic on them.
// Arithmetic on sizes is not here: sizes are Dims, not values.
#include <fmt/format.h>

#include <numbers>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

ElementType result_type(const SymbolicCall& call) {
  const ir::Type& type = call.node.outputs.at(0)->type;
  if (const auto* number = std::get_if<ir::ScalarType>(&type)) return number->element_type;
  call.g.refuse("its result is not a number");
}

Value number(const SymbolicCall& call, size_t index, ElementType type) {
  if (index >= call.arguments.size()) call.g.refuse(fmt::format("argument {} is missing", index));
  return call.g.scalar(symbolic_detail::Decode<Scalar>::get(call, index), type);
}

bool is_floating(const SymbolicCall& call) {
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (symbolic_detail::Decode<Scalar>::get(call, i).is_floating()) return true;
  }
  return false;
}

using Binary = Value (*)(GraphBuilder&, Value, Value);

// "And", "Or" or "Xor" of booleans, or of the bits of integers.
Value bits(GraphBuilder& g, const char* op, Value a, Value b) {
  const bool whole = a.element_type() != ElementType::boolean;
  if (whole && g.opset() < 18)
    g.refuse("bit operations on sizes need opset 18; export with opset_version=18 or later");
  return g.op(whole ? fmt::format("Bitwise{}", op) : op, a, b);
}

// Exact for powers of 2, as Python's.
Value log2(GraphBuilder& g, Value x) {
  Value near = g.op("Div", g.op("Log", x), g.scalar_like(x, std::numbers::ln2));
  Value whole = g.op("Round", near);
  Value is_power = g.op("Equal", g.op("Pow", g.scalar_like(x, 2), whole), x);
  return g.op("Where", is_power, whole, near);
}

Value item(GraphBuilder& g, Value self) {
  const auto* number = std::get_if<ir::ScalarType>(&g.call()->outputs.at(0)->type);
  if (number == nullptr) g.refuse("its result is not a number");
  return g.cast(g.reshape(self, std::vector<Dim>()), number->element_type);
}

}  // namespace

void register_symbolic_scalars(SymbolicRegistry& registry) {
  auto on = add(registry);
  on("aten::item(Tensor self) -> Scalar", Since{9}, item);
  on("aten::_local_scalar_dense(Tensor self) -> Scalar", Since{9}, item);

  const auto of_numbers = [&](std::string key, SymbolicFunction function) {
    registry.add(Symbolic{std::move(key), std::nullopt, Since{9}, Origin::bundled, std::move(function)});
  };
  // Computed in the type of the result.
  const std::initializer_list<std::pair<const char*, Binary>> arithmetic = {
      {"_operator::add", [](GraphBuilder& g, Value a, Value b) { return g.op("Add", a, b); }},
      {"_operator::sub", [](GraphBuilder& g, Value a, Value b) { return g.op("Sub", a, b); }},
      {"_operator::mul", [](GraphBuilder& g, Value a, Value b) { return g.op("Mul", a, b); }},
      {"_operator::truediv", [](GraphBuilder& g, Value a, Value b) { return g.op("Div", a, b); }},
      {"_operator::pow", [](GraphBuilder& g, Value a, Value b) { return g.op("Pow", a, b); }},
      {"_operator::floordiv", [](GraphBuilder& g, Value a, Value b) { return floor_quotient(g, a, b); }},
      {"_operator::mod", [](GraphBuilder& g, Value a, Value b) { return floor_modulo(g, a, b); }},
      {"_operator::and_", [](GraphBuilder& g, Value a, Value b) { return bits(g, "And", a, b); }},
      {"_operator::or_", [](GraphBuilder& g, Value a, Value b) { return bits(g, "Or", a, b); }},
      {"_operator::xor", [](GraphBuilder& g, Value a, Value b) { return bits(g, "Xor", a, b); }},
      {"torch::sym_max", [](GraphBuilder& g, Value a, Value b) { return g.op("Max", a, b); }},
      {"torch::sym_min", [](GraphBuilder& g, Value a, Value b) { return g.op("Min", a, b); }},
  };
  for (const auto& [key, compute] : arithmetic) {
    of_numbers(key, [compute = compute](const SymbolicCall& call) {
      const ElementType type = result_type(call);
      return std::vector{compute(call.g, number(call, 0, type), number(call, 1, type))};
    });
  }
  const std::initializer_list<std::pair<const char*, const char*>> comparisons = {
      {"_operator::eq", "Equal"},       {"_operator::ne", "Equal"},   {"_operator::lt", "Less"},
      {"_operator::le", "LessOrEqual"}, {"_operator::gt", "Greater"}, {"_operator::ge", "GreaterOrEqual"}};
  for (const auto& [key, op] : comparisons) {
    const bool negated = std::string_view(key).ends_with("ne");
    of_numbers(key, [op = op, negated](const SymbolicCall& call) {
      const ElementType type = is_floating(call) ? ElementType::float64 : ElementType::int64;
      Value result = call.g.op(op, number(call, 0, type), number(call, 1, type));
      return std::vector{negated ? call.g.op("Not", result) : result};
    });
  }
  // Computed in the type of the operand.
  const std::initializer_list<std::pair<const char*, const char*>> unary = {
      {"_operator::neg", "Neg"},  {"_operator::abs", "Abs"},   {"builtins::abs", "Abs"},
      {"math::floor", "Floor"},   {"math::ceil", "Ceil"},      {"torch::sym_not", "Not"},
      {"_operator::not_", "Not"}, {"torch::sym_float", ""},    {"torch::sym_int", ""},
      {"math::trunc", ""},        {"builtins::round", "Round"}};
  for (const auto& [key, op] : unary) {
    of_numbers(key, [op = std::string_view(op)](const SymbolicCall& call) {
      if (call.arguments.size() > 1 && symbolic_detail::decode_scalar(call, 1)) {
        call.g.refuse(
            "ONNX cannot round to decimal digits as Python does; multiply the number, round it to an "
            "integer, and divide it");
      }
      const ElementType type = result_type(call);
      ElementType computed = is_floating(call) ? ElementType::float64 : type;
      if (op == "Not") computed = ElementType::boolean;
      Value operand = number(call, 0, computed);
      return std::vector{call.g.cast(op.empty() ? operand : call.g.op(op, operand), type)};
    });
  }
  const std::initializer_list<std::pair<const char*, const char*>> real = {
      {"torch::_sym_sqrt", "Sqrt"},
      {"torch::_sym_sin", "Sin"},
      {"torch::_sym_cos", "Cos"},
      {"torch::_sym_tanh", "Tanh"},
  };
  for (const auto& [key, op] : real) {
    of_numbers(key, [op = op](const SymbolicCall& call) {
      return std::vector{call.g.op(op, number(call, 0, ElementType::float64))};
    });
  }
  of_numbers("torch::_sym_log2", [](const SymbolicCall& call) {
    return std::vector{log2(call.g, number(call, 0, ElementType::float64))};
  });
}

}  // namespace opbridge::lowering
