// Versions: 1.31 and 1.32; 1.20 does not have the fault.
// Model: Einsum of int64 that sums a dim which only one tensor has, or which has size 1 in the others.
// Fault: the runtime sums such dims in float64, like ReduceSum (integer_reductions.cc).
// Rewrite: these dims are summed before and left out of the equation.
// Tests: test_runtime_faults.py, test_lowering_linear.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

// An equation without ellipses: the letters of each tensor's dims and of the result's.
struct Equation {
  std::vector<std::string> terms;
  std::string result;

  explicit Equation(std::string text) {
    std::erase(text, ' ');
    const size_t arrow = text.find("->");
    result = text.substr(arrow + 2);
    for (size_t begin = 0; begin <= arrow;) {
      const size_t end = std::min(text.find(',', begin), arrow);
      terms.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  std::string text() const { return fmt::format("{}->{}", fmt::join(terms, ","), result); }
};

// Removes dims of size 1 that broadcast to the same dim of another tensor.
void squeeze_broadcast_dims(GraphBuilder& g, Equation& equation, std::vector<Value>& tensors) {
  const auto is_one = [&](size_t tensor, size_t axis) {
    return tensors[tensor].dim(static_cast<int64_t>(axis)).is(1);
  };
  std::string wide;  // the letters of dims of another size
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t axis = 0; axis < equation.terms[i].size(); ++axis)
      if (!is_one(i, axis)) wide += equation.terms[i][axis];
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<int64_t> ones;
    std::string kept;
    for (size_t axis = 0; axis < equation.terms[i].size(); ++axis) {
      const char letter = equation.terms[i][axis];
      if (is_one(i, axis) && wide.find(letter) != wide.npos) {
        ones.push_back(static_cast<int64_t>(axis));
      } else {
        kept += letter;
      }
    }
    if (ones.empty()) continue;
    tensors[i] = g.squeeze(tensors[i], ones);
    equation.terms[i] = kept;
  }
}

// The elements that one tensor has on the diagonals that its term names, with a dim for each distinct letter.
Value diagonal(GraphBuilder& g, Value tensor, const std::string& term, const std::string& distinct) {
  if (term == distinct) return tensor;
  std::vector<Dim> dims;
  for (char letter : distinct) dims.push_back(tensor.dim(static_cast<int64_t>(term.find(letter))));
  return g.typed(g.op("Einsum", tensor, attr("equation", term + "->" + distinct)), dims);
}

Value sum(GraphBuilder& g, Value tensor, const std::vector<int64_t>& axes) {
  Value result = g.reduce("ReduceSum", tensor, axes, false);
  Value exact = exact_sum_of_integers(g, *result.get()->producer);
  return exact ? exact : result;
}

// Sums the dims that only one tensor has, and removes them from the equation.
void sum_dims_of_one_tensor(GraphBuilder& g, Equation& equation, std::vector<Value>& tensors) {
  squeeze_broadcast_dims(g, equation, tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string elsewhere = equation.result, distinct, kept;
    for (size_t k = 0; k < tensors.size(); ++k) elsewhere += k == i ? "" : equation.terms[k];
    std::vector<int64_t> summed;
    for (char letter : equation.terms[i]) {
      if (distinct.find(letter) != distinct.npos) continue;
      if (elsewhere.find(letter) == elsewhere.npos) {
        summed.push_back(std::ssize(distinct));
      } else {
        kept += letter;
      }
      distinct += letter;
    }
    if (summed.empty()) continue;
    tensors[i] = sum(g, diagonal(g, tensors[i], equation.terms[i], distinct), summed);
    equation.terms[i] = kept;
  }
}

}  // namespace

Value exact_einsum_of_integers(GraphBuilder& g, const ir::Node& einsum) {
  const std::vector<Value> inputs(einsum.inputs.begin(), einsum.inputs.end());
  const auto is_wide = [](const Value& x) { return x.ranked() && x.element_type() == ElementType::int64; };
  const auto text = std::get<std::string>(*einsum.find("equation"));
  const bool is_plain = text.find("->") != text.npos && text.find('.') == text.npos;
  if (!is_plain || !std::ranges::all_of(inputs, is_wide)) return {};
  Equation equation(text);
  std::vector<Value> tensors = inputs;
  sum_dims_of_one_tensor(g, equation, tensors);
  if (equation.text() == Equation(text).text()) return {};
  if (equation.terms.size() == 1 && equation.terms[0] == equation.result) return tensors[0];
  return g.op("Einsum", tensors, attr("equation", equation.text()));
}

}  // namespace opbridge::onnxruntime
