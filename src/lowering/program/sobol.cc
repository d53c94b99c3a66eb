// Sobol sequences: ATen's SobolEngineOps.cpp.
#include <bit>
#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

constexpr int64_t bits = 30;

// Point k + 1 differs from point k by the column of the state whose index is the bit in which the Gray codes
// of k + 1 and k differ. So a point differs from the first one by the columns of the bits in which their
// codes do.
std::array<Value, 2> draw(GraphBuilder& g, Value quasi, int64_t n, Value state, Ignored, int64_t generated,
                          Ignored) {
  if (n < 0 || generated < 0 || generated + n >= int64_t{1} << bits) g.refuse("more points than PyTorch has");
  const ElementType type = g.result().element_type;
  if (n == 0) return {filled(g, *g.result().dims, 0, type), quasi};
  const auto number = [&](int64_t value) { return g.scalar(value, ElementType::int64); };
  Value index = arithmetic(g, generated + 1, 1, n);
  Value code = g.op("BitwiseXor", index, g.op("Div", index, number(2)));
  Value differs = g.unsqueeze(g.op("BitwiseXor", code, number(generated ^ (generated / 2))), {1});
  const std::vector<Dim> dims{Dim(n), quasi.dim(0)};
  Value points = g.expand(g.unsqueeze(quasi, {0}), dims);
  const auto used = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(generated + n)));
  for (int64_t bit = 0; bit < used; ++bit) {
    Value has = g.op("Mod", g.op("Div", differs, number(int64_t{1} << bit)), number(2));
    Value column = g.unsqueeze(g.gather(state, number(bit), 1), {0});
    points = g.op("BitwiseXor", points, g.op("Mul", has, column));
  }
  Value numbers = g.op("Mul", g.cast(points, type), g.scalar(std::ldexp(1.0, -bits), type));
  return {numbers, g.gather(points, number(n - 1), 0)};
}

}  // namespace

void register_sobol(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::_sobol_engine_draw(Tensor quasi, int n, Tensor sobolstate, int dimension, int num_generated, "
     "ScalarType? dtype) -> (Tensor, Tensor)",
     Since{18}, draw);
}

}  // namespace opbridge::lowering
