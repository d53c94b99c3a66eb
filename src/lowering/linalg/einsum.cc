#include <algorithm>
#include <cctype>
#include <functional>
#include <string>
#include <string_view>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"

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

bool has(std::string_view letters, char letter) { return letters.find(letter) != letters.npos; }

std::string only(std::string_view letters, const auto& condition) {
  std::string kept;
  std::ranges::copy_if(letters, std::back_inserter(kept), condition);
  return kept;
}

// A tensor with a letter for each of its dims, no two of them equal.
struct Term {
  Value tensor;
  std::string letters;

  int64_t axis(char letter) const { return static_cast<int64_t>(letters.find(letter)); }
  Dim dim(char letter) const { return tensor.dim(axis(letter)); }
};

Term arranged(GraphBuilder& g, const Term& term, const std::string& letters) {
  std::vector<int64_t> order;
  for (char letter : letters) order.push_back(term.axis(letter));
  return {g.transpose(term.tensor, std::move(order)), letters};
}

// The sum over the dims that are not in `letters`.
Term summed_to(GraphBuilder& g, const Term& term, const std::string& letters) {
  std::vector<int64_t> axes;
  for (char letter : only(term.letters, [&](char each) { return !has(letters, each); }))
    axes.push_back(term.axis(letter));
  if (axes.empty()) return term;
  return {sum_of(g, term.tensor, axes, false),
          only(term.letters, [&](char each) { return has(letters, each); })};
}

// The dims in the order of `letters`, with a size of 1 for those that the term lacks.
Value broadcastable(GraphBuilder& g, const Term& term, const std::string& letters) {
  std::vector<int64_t> lacks;
  for (char letter : letters)
    if (!has(term.letters, letter)) lacks.push_back(static_cast<int64_t>(letters.find(letter)));
  const Value tensor =
      arranged(g, term, only(letters, [&](char each) { return has(term.letters, each); })).tensor;
  return lacks.empty() ? tensor : g.unsqueeze(tensor, lacks);
}

// Batches of matrices: the dims of `batch`, then one for the letters of `rows`, and one for those of
// `columns`.
Value as_matrices(GraphBuilder& g, const Term& term, const std::string& batch, const std::string& rows,
                  const std::string& columns) {
  const Value tensor = arranged(g, term, batch + rows + columns).tensor;
  if (rows.size() == 1 && columns.size() == 1) return tensor;
  const auto dims = tensor.dims();
  const auto middle = dims.begin() + static_cast<ptrdiff_t>(batch.size());
  const auto last = middle + static_cast<ptrdiff_t>(rows.size());
  std::vector<Dim> shape(dims.begin(), middle);
  shape.push_back(element_count({middle, last}));
  shape.push_back(element_count({last, dims.end()}));
  return g.reshape(tensor, shape);
}

bool is_diagonal(std::string letters) {
  std::ranges::sort(letters);
  return std::ranges::adjacent_find(letters) != letters.end();
}

Term without(GraphBuilder& g, const Term& term, char letter) {
  return {g.squeeze(term.tensor, {term.axis(letter)}),
          only(term.letters, [&](char each) { return each != letter; })};
}

// The product of two terms, summed over the letters that are not in `result`. No tensor if it is not known
// whether a dim broadcasts.
Term product_of(GraphBuilder& g, Term a, Term b, const std::string& result) {
  for (char letter : std::string(a.letters)) {
    if (!has(b.letters, letter) || a.dim(letter) == b.dim(letter)) continue;
    Term& broadcast = a.dim(letter).is(1) ? a : b;
    if (!broadcast.dim(letter).is(1)) return {};
    broadcast = without(g, broadcast, letter);
  }
  const std::string shared = only(a.letters, [&](char each) { return has(b.letters, each); });

  a = summed_to(g, a, result + b.letters);
  b = summed_to(g, b, result + a.letters);
  const auto is_shared = [&](char each) { return has(shared, each); };
  const std::string batch = only(shared, [&](char each) { return has(result, each); }),
                    summed = only(shared, [&](char each) { return !has(result, each); }),
                    rows = only(a.letters, std::not_fn(is_shared)),
                    columns = only(b.letters, std::not_fn(is_shared)), made = batch + rows + columns;
  if (summed.empty() || (rows.empty() && columns.empty())) {
    const Value product = g.op("Mul", broadcastable(g, a, made + summed), broadcastable(g, b, made + summed));
    return arranged(g, summed_to(g, {product, made + summed}, made), result);
  }
  // MatMul takes all but the last dim as rows if the second matrix has no batch.
  const bool has_all_rows = batch.empty() && summed.size() == 1;
  const Value left =
      has_all_rows ? arranged(g, a, rows + summed).tensor : as_matrices(g, a, batch, rows, summed);
  Value product = g.op("MatMul", left, as_matrices(g, b, batch, summed, columns));
  if (columns.size() != 1 || (!has_all_rows && rows.size() != 1)) {
    std::vector<Dim> shape;
    for (char letter : made) shape.push_back(has(a.letters, letter) ? a.dim(letter) : b.dim(letter));
    product = g.reshape(product, shape);
  }
  return arranged(g, {product, made}, result);
}

// MatMul, or Mul and ReduceSum, instead of Einsum: runtimes fuse them with their neighbors and prepare their
// weights. Multiplies from left to right, as PyTorch does. Nothing for one term, if a term takes a diagonal,
// or if it is not known whether a dim broadcasts.
Value product_of_terms(GraphBuilder& g, std::string_view equation, std::span<const Value> tensors) {
  const std::string result(equation.substr(equation.find("->") + 2));
  std::vector<Term> terms;
  for (const Value& tensor : tensors) {
    const size_t end = std::min(equation.find(','), equation.find("->"));
    terms.push_back({tensor, std::string(equation.substr(0, end))});
    equation.remove_prefix(std::min(end + 1, equation.size()));
  }
  if (terms.size() < 2 || std::ranges::any_of(terms, is_diagonal, &Term::letters)) return {};
  Term product = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string needed = result;
    for (size_t later = i + 1; later < terms.size(); ++later) needed += terms[later].letters;
    const std::string columns =
        only(terms[i].letters, [&](char each) { return !has(product.letters, each); });
    const std::string kept = only(product.letters + columns, [&](char each) { return has(needed, each); });
    product = product_of(g, product, terms[i], i + 1 == terms.size() ? result : kept);
    if (!product.tensor) return {};
  }
  return product.tensor;
}

Value einsum(GraphBuilder& g, std::string equation, std::vector<Value> tensors) {
  std::erase(equation, ' ');
  if (equation.find('.') != equation.npos || equation.find("->") == equation.npos)
    equation = spelled_out(g, equation, tensors);
  if (std::ranges::any_of(tensors, [](Value tensor) { return element_count(tensor.dims()).is(0); }))
    return filled(g, *g.result().dims, 0, g.result().element_type);
  for (Value& tensor : tensors) tensor = operand(g, tensor, g.result().element_type);
  const bool is_float = is_floating_point(g.result().element_type);
  const Value product = is_float ? product_of_terms(g, equation, tensors) : Value();
  return g.cast(product ? product : g.op("Einsum", tensors, attr("equation", equation)),
                g.result().element_type);
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
