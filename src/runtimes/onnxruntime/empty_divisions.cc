// Versions: 1.32; older ones were not tried.
// Model: Mod or Div of integers, of a tensor without elements by a 0 that is broadcast.
// Fault: the runtime ends with an error, although it divides nothing.
// Rewrite: if the result may have no elements, the divisor is expanded to its shape.
// Tests: test_runtime_faults.py, test_integers_of_no_elements_by_0.
#include <algorithm>

#include "runtimes/onnxruntime/replacements.h"
#include "tensor/constants.h"
#include "tensor/shape.h"

namespace opbridge::onnxruntime {
namespace {

bool may_be_0(Value divisor) {
  if (!divisor.weight()) return true;
  const std::optional<ir::Weight> numbers = tensor::convert_weight(*divisor.weight(), ElementType::float64);
  return !numbers || std::ranges::any_of(numbers->as<double>(), [](double number) { return number == 0; });
}

}  // namespace

Value division_by_no_number(GraphBuilder& g, const ir::Node& division) {
  const Value dividend(division.inputs[0]), divisor(division.inputs[1]), result(division.outputs[0]);
  if (!is_integral(result.element_type()) || !result.ranked() || !dividend.ranked() || !divisor.ranked())
    return {};
  const bool is_broadcast = divisor.dims() != result.dims();
  if (!is_broadcast || !tensor::may_be_empty(dividend.dims()) || !may_be_0(divisor)) return {};
  std::vector<Operand> operands{dividend, g.expand(divisor, result.dims())};
  add_attributes(operands, division);
  return g.op_list(division.op, 1, std::move(operands)).front();
}

}  // namespace opbridge::onnxruntime
