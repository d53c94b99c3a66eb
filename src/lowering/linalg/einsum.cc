#include <algorithm>
#include <cctype>
#include <string>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

// The equation with letters for the dims of each ellipsis, aligned at the last dim. In PyTorch the ellipses
// of an equation may have different numbers of dims, and the result may leave them out.
std::string spelled_out(GraphBuilder& g, const std::string& equation, std::span<const Value> tensors) {
  constexpr std::string_view dots = "...";
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  std::string names;
  for (char letter : std::string_view("zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA")) {
    if (equation.find(letter) == equation.npos) names.insert(names.begin(), letter);
  }
  const size_t arrow = equation.find("->");
  std::string result, left = equation.substr(0, arrow), letters;
  size_t most = 0;
  for (const Value& tensor : tensors) {
    std::string term = left.substr(0, left.find(','));
    left.erase(0, std::min(left.size(), term.size() + 1));
    const auto named = static_cast<size_t>(std::ranges::count_if(term, is_letter));
    const size_t position = term.find(dots), hidden = tensor.rank() - named;
    if (position != term.npos) {
      if (hidden > names.size()) g.refuse("the equation needs more than 52 letters; split it into two");
      term.replace(position, dots.size(), names.substr(names.size() - hidden));
      most = std::max(most, hidden);
    }
    std::ranges::copy_if(term, std::back_inserter(letters), is_letter);
    result += (result.empty() ? "" : ",") + term;
  }
  const std::string shared = names.substr(names.size() - most);
  if (arrow != equation.npos) {
    std::string right = equation.substr(arrow);
    if (const size_t position = right.find(dots); position != right.npos)
      right.replace(position, dots.size(), shared);
    return result + right;
  }
  // Without an explicit result: the dims of the ellipses, then each letter that occurs once, sorted.
  std::string once;
  std::ranges::sort(letters);
  for (char letter : letters) {
    if (std::ranges::count(letters, letter) == 1 && shared.find(letter) == shared.npos) once += letter;
  }
  return result + "->" + shared + once;
}

Value einsum(GraphBuilder& g, std::string equation, std::vector<Value> tensors) {
  if (equation.find('.') != equation.npos || equation.find("->") == equation.npos)
    equation = spelled_out(g, equation, tensors);
  if (std::ranges::any_of(tensors, [](Value tensor) { return element_count(tensor.dims()).is(0); }))
    return filled(g, *g.result().dims, 0, g.result().element_type);
  for (Value& tensor : tensors) tensor = operand(g, tensor, g.result().element_type);
  return g.cast(g.op("Einsum", tensors, attr("equation", equation)), g.result().element_type);
}

}  // namespace

void register_einsum(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", Since{9},
     [](GraphBuilder& g, std::string equation, std::vector<Value> tensors, Ignored) {
       return einsum(g, std::move(equation), std::move(tensors));
     });
}

}  // namespace opbridge::lowering
