#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/common.h"
#include "tensor/constants.h"

namespace opbridge::lowering {
namespace {

int64_t bits(ElementType type) { return static_cast<int64_t>(bits_of(type)); }

// `logical` for bools, `integral` for integers.
Value bitwise(GraphBuilder& g, const char* logical, const char* integral, Value a, Value b) {
  const ElementType type = g.result().element_type;
  // A branch that the example does not take may call them with what eager PyTorch refuses.
  if (type != ElementType::boolean && !is_integral(type))
    g.refuse("bitwise operators take integers and bools; convert the tensor");
  if (type != ElementType::boolean && g.opset() < 18)
    g.refuse("ONNX has bitwise operators on integers since opset 18; export with opset_version=18 or later");
  return g.op(type == ElementType::boolean ? logical : integral, g.cast(a, type), g.cast(b, type));
}

Value bitwise_not(GraphBuilder& g, Value self) {
  if (self.element_type() == ElementType::boolean) return g.op("Not", self);
  if (g.opset() >= 18) return g.op("BitwiseNot", self);
  return in_opmath_type(g, self, [&](Value x) { return g.op("Sub", g.scalar_like(x, -1), x); });
}

Value shift_unsigned(GraphBuilder& g, const char* direction, Value self, Value other,
                     std::optional<int64_t> count) {
  const ElementType type = g.result().element_type;
  Value x = g.cast(self, type), by = g.cast(other, type);
  Value shifted = g.op("BitShift", x, by, attr("direction", direction));
  if (!count) {
    // A shift by the bit width or more is 0 in PyTorch and undefined in ONNX.
    Value inside = g.op("Less", g.cast(by, ElementType::int64), g.scalar(bits(type), ElementType::int64));
    shifted = g.op("Mul", shifted, g.cast(inside, type));
  }
  return shifted;
}

// x / divisor, rounded towards minus infinity.
Value divide_down(GraphBuilder& g, Value x, Value divisor) {
  return g.op("Div", g.op("Sub", x, g.op("Mod", x, divisor)), divisor);
}

// -1 if x is negative, otherwise 0: the result of a right shift by all bits but one.
Value sign_bit(GraphBuilder& g, Value x) {
  return g.op("Neg", g.cast(g.op("Less", x, g.scalar_like(x, 0)), x.element_type()));
}

// BitShift takes unsigned integers only, so signed ones are multiplied or divided by a power of two. The
// greatest power, the sign bit, is a negative number.
Value shift_signed(GraphBuilder& g, bool left, Value self, int64_t count) {
  return in_opmath_type(g, self, [&](Value x) {
    if (!left && count == bits(x.element_type()) - 1) return sign_bit(g, x);
    Value power = g.scalar_like(x, static_cast<int64_t>(uint64_t{1} << count));
    return left ? g.op("Mul", x, power) : divide_down(g, x, power);
  });
}

Value shift_signed_by(GraphBuilder& g, bool left, Value self, Value other) {
  const ElementType type = g.result().element_type;
  return in_opmath_type(g, self, [&](Value x) {
    const int64_t last = bits(type) - 1;
    std::vector<int64_t> powers;
    for (int64_t i = 0; i <= last; ++i) powers.push_back(static_cast<int64_t>(uint64_t{1} << i));
    auto number = [&](int64_t value) { return g.scalar(value, ElementType::int64); };
    Value count = g.cast(g.cast(other, type), ElementType::int64);
    Value outside = g.op("Or", g.op("Less", count, number(0)), g.op("Greater", count, number(last)));
    count = g.op("Where", outside, number(last), count);
    Value power = g.gather(g.cast(g.ints(powers), x.element_type()), count, 0);
    if (left) return g.op("Where", outside, g.scalar_like(x, 0), g.op("Mul", x, power));
    return g.op("Where", g.op("Equal", count, number(last)), sign_bit(g, x), divide_down(g, x, power));
  });
}

Value shift(GraphBuilder& g, bool left, Value self, Value other) {
  const ElementType type = g.result().element_type;
  if (!is_integral(type)) g.refuse("only integers can be shifted in ONNX");
  std::optional<int64_t> count;
  const bool is_number = other.weight() != nullptr && other.rank() == 0;
  if (const ir::Weight* known =
          is_number ? g.cast(g.cast(other, type), ElementType::int64).weight() : nullptr) {
    count = known->as<int64_t>()[0];
    if (*count < 0 || *count >= bits(type)) {
      if (left || tensor::is_unsigned(type)) return filled(g, *g.result().dims, 0, type);
      count = bits(type) - 1;
    }
  }
  if (tensor::is_unsigned(type)) return shift_unsigned(g, left ? "LEFT" : "RIGHT", self, other, count);
  if (!count) return shift_signed_by(g, left, self, other);
  if (self.type().dims != g.result().dims) self = g.expand(self, *g.result().dims);
  return shift_signed(g, left, self, *count);
}

Value logical(GraphBuilder& g, const char* op, Value a, Value b) {
  return g.op(op, g.cast(a, ElementType::boolean), g.cast(b, ElementType::boolean));
}

}  // namespace

void register_bitwise(SymbolicRegistry& registry) {
  auto on = add(registry);

  struct Names {
    const char *name, *logical, *integral;
  };
  for (const auto& [name, of_bools, of_integers] :
       {Names{"and", "And", "BitwiseAnd"}, {"or", "Or", "BitwiseOr"}, {"xor", "Xor", "BitwiseXor"}}) {
    auto function = [of_bools = of_bools, of_integers = of_integers](GraphBuilder& g, Value a, Value b) {
      return bitwise(g, of_bools, of_integers, a, b);
    };
    for (const std::string& spelled : {fmt::format("__{}__", name), fmt::format("bitwise_{}", name)}) {
      on(fmt::format("aten::{}.Tensor(Tensor self, Tensor other) -> Tensor", spelled), Since{9}, function);
      on(fmt::format("aten::{}.Scalar(Tensor self, Scalar other) -> Tensor", spelled), Since{9}, function);
    }
    on(fmt::format("aten::bitwise_{}.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", name), Since{9},
       function);
    on(fmt::format("aten::logical_{}(Tensor self, Tensor other) -> Tensor", name), Since{9},
       [of_bools = of_bools](GraphBuilder& g, Value a, Value b) { return logical(g, of_bools, a, b); });
  }
  on("aten::bitwise_not(Tensor self) -> Tensor", Since{9}, bitwise_not);
  on("aten::logical_not(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self) { return g.op("Not", g.cast(self, ElementType::boolean)); });

  for (const bool left : {true, false}) {
    auto function = [left](GraphBuilder& g, Value self, Value other) { return shift(g, left, self, other); };
    const char* letter = left ? "l" : "r";
    const char* word = left ? "left" : "right";
    on(fmt::format("aten::__{}shift__.Tensor(Tensor self, Tensor other) -> Tensor", letter), Since{9},
       function);
    on(fmt::format("aten::__{}shift__.Scalar(Tensor self, Scalar other) -> Tensor", letter), Since{9},
       function);
    on(fmt::format("aten::bitwise_{}_shift.Tensor(Tensor self, Tensor other) -> Tensor", word), Since{9},
       function);
    on(fmt::format("aten::bitwise_{}_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", word),
       Since{9}, function);
    on(fmt::format("aten::bitwise_{}_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", word),
       Since{9}, function);
  }
}

}  // namespace opbridge::lowering
