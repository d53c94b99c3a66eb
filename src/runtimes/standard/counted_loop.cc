#include "runtimes/standard/counted_loop.h"

#include <utility>

namespace opbridge::standard {

std::vector<Value> counted_loop(GraphBuilder& g, std::string name, Value count,
                                const std::vector<Value>& start, const Step& step) {
  std::vector<ir::TensorType> types{{ElementType::int64, std::vector<Dim>()},
                                    {ElementType::boolean, std::vector<Dim>()}};
  for (Value value : start) types.push_back(value.type());
  ir::GraphPtr body =
      g.subgraph(std::move(name), types, [&](GraphBuilder& on, const std::vector<Value>& inputs) {
        std::vector<Value> next = step(on, inputs[0], std::span(inputs).subspan(2));
        next.insert(next.begin(), on.op("Identity", inputs[1]));
        return next;
      });
  // ONNX's reference implementation takes no step if the condition is omitted.
  std::vector<Operand> operands{count, g.scalar(true, ElementType::boolean), start, attr("body", body)};
  std::vector<Value> results = g.op_list("Loop", start.size(), std::move(operands));
  for (size_t i = 0; i < start.size(); ++i) g.typed(results[i], start[i].type());
  return results;
}

}  // namespace opbridge::standard
