// Elementary functions, and the bits of numbers.
#include <fmt/format.h>

#include "lowering/add.h"
#include "runtimes/standard/bodies.h"

namespace opbridge::standard {

void register_elementary(SymbolicRegistry& registry) {
  auto on = lowering::add(registry);

  struct Function {
    const char *name, *op;
    int since;
  };
  for (const auto& [name, op, since] : std::initializer_list<Function>{{"acos", "Acos", 7},
                                                                       {"acosh", "Acosh", 9},
                                                                       {"asin", "Asin", 7},
                                                                       {"asinh", "Asinh", 9},
                                                                       {"atan", "Atan", 7},
                                                                       {"atanh", "Atanh", 9},
                                                                       {"cosh", "Cosh", 9},
                                                                       {"erf", "Erf", 9},
                                                                       {"sinh", "Sinh", 9},
                                                                       {"tan", "Tan", 7}}) {
    on(fmt::format("opbridge::{}(Tensor self) -> Tensor", name), Since{since},
       [op = std::string(op)](GraphBuilder& g, Value self) { return g.op(op, self); });
  }

  on("opbridge::bit_cast(Tensor self, Tensor like) -> Tensor", Since{26},
     [](GraphBuilder& g, Value self, Value like) {
       return g.op("BitCast", self, attr("to", like.element_type()));
     });
  on("custom::my_add(Tensor a, Tensor b) -> Tensor", Since{9},
     [](GraphBuilder& g, Value a, Value b) { return g.op("Add", g.op("Mul", g.scalar_like(a, 2), a), b); });
}

}  // namespace opbridge::standard
