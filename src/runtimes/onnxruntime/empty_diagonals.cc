// Versions: all that were tried, 1.20 and 1.32.
// Model: Einsum of "iji->j", whose tensor has no elements.
// Fault: the process ends.
// Rewrite: if a tensor may have no elements, dims with the same letter are moved beside each other.
// Tests: test_runtime_faults.py, test_lowering_linear.py.
#include <algorithm>
#include <string>
#include <vector>

#include "runtimes/onnxruntime/replacements.h"
#include "tensor/shape.h"

namespace opbridge::onnxruntime {

Value einsum_of_adjacent_letters(GraphBuilder& g, const ir::Node& einsum) {
  auto text = std::get<std::string>(*einsum.find("equation"));
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  if (arrow == text.npos || text.find('.') != text.npos) return {};
  std::string equation;
  std::vector<Value> tensors;
  bool changed = false;
  size_t begin = 0;
  for (ir::Value* input : einsum.inputs) {
    Value tensor(input);
    const size_t end = std::min(text.find(',', begin), arrow);
    std::string term = text.substr(begin, end - begin);
    begin = end + 1;
    std::vector<int64_t> order(term.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::ranges::stable_sort(order, {},
                             [&](int64_t axis) { return term.find(term[static_cast<size_t>(axis)]); });
    if (tensor.ranked() && !std::ranges::is_sorted(order) && tensor::may_be_empty(tensor.dims())) {
      tensor = g.transpose(tensor, order);
      std::ranges::transform(order, term.begin(),
                             [old = term](int64_t axis) { return old[static_cast<size_t>(axis)]; });
      changed = true;
    }
    tensors.push_back(tensor);
    equation += (equation.empty() ? "" : ",") + term;
  }
  if (!changed) return {};
  const Value made = g.op("Einsum", tensors, attr("equation", equation + text.substr(arrow)));
  const Value exact = exact_einsum_of_integers(g, *made.get()->producer);
  return exact ? exact : made;
}

}  // namespace opbridge::onnxruntime
