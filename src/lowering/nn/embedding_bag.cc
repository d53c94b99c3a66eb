// Sums, means and maxima of bags of table rows.
#include <fmt/format.h>

#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/indexing/indexing.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

enum class Mode : int64_t { sum, mean, max };

// For each bag and column, the one of `indices` whose row has the maximum; 0 for an empty bag. `rows` are the
// rows at `indices`, `bag` their bags.
Value indices_of_greatest(GraphBuilder& g, Value rows, Value indices, Value bag, Value greatest) {
  constexpr ElementType integer = ElementType::int64;
  Value none = g.op("Shape", indices);  // the position of an index 0 that is appended for empty bags
  Value positions = g.op("Range", g.scalar(0, integer), g.squeeze(none, {0}), g.scalar(1, integer));
  g.typed(positions, indices.dims());
  Value is_greatest = g.op("Equal", rows, g.gather(greatest, bag, 0));
  Value candidates = g.op("Where", is_greatest, g.unsqueeze(positions, {1}), none);
  Value start = g.op("Expand", none, g.op("Shape", greatest));
  g.typed(start, greatest.dims());
  Value first = scatter_nd(g, start, g.unsqueeze(bag, {1}), candidates, Reduction::min);
  return g.gather(g.op("Concat", indices, g.ints({0}), attr("axis", 0)), first, 0);
}

// Returns the reduction of the rows at `indices` from each offset to the next, the bag of each index, the
// size of each bag, and the indices of the maxima. PyTorch's kernel computes the last three only if it needs
// them for the first; otherwise they are empty or 0.
std::vector<Value> embedding_bag(GraphBuilder& g, Value weight, Value indices, Value offsets, Mode mode,
                                 std::optional<Value> factors, bool include_last_offset,
                                 std::optional<int64_t> padding_idx) {
  if (mode == Mode::max && g.opset() < 18)
    g.refuse("mode='max' needs ScatterND of opset 18; export with opset_version=18 or later");
  if (weight.rank() != 2 || indices.rank() != 1 || offsets.rank() != 1)
    g.refuse("the weight is not a matrix, or the indices or offsets are not a vector");
  const ElementType type = g.result().element_type, kernel = opmath_type(type);
  std::vector<Dim> dims = *g.result().dims;  // (bags, width)
  const Dim wanted = dims.at(0);
  // The indices after the last offset, or all if there are no bags, go to an additional bag, which is dropped
  // at the end.
  const bool has_spare = include_last_offset || may_be_empty(wanted);
  if (has_spare) dims[0] = wanted + Dim(1);
  const std::vector<Dim> bags{dims[0]};
  indices = g.cast(indices, ElementType::int64);
  offsets = g.cast(offsets, ElementType::int64);

  // The bag of an index is the number of offsets up to it, minus one.
  Value one = g.scalar(1, ElementType::int64), zero = g.scalar(0, ElementType::int64);
  Value positions = arithmetic(g, 0, 1, indices.dim(0));
  Value begun = g.op("GreaterOrEqual", g.unsqueeze(positions, {1}), g.unsqueeze(offsets, {0}));
  Value bag = g.op("Sub", g.reduce("ReduceSum", g.cast(begun, ElementType::int64), {1}, false), one);
  const Dim& bags_told = g.result(1).dims->at(0);
  const ElementType index_type = g.result(1).element_type;  // int32 if indices and offsets are
  Value bag_of_each =
      bags_told.is(0) ? filled(g, std::vector{Dim(0)}, 0, index_type) : g.cast(bag, index_type);
  // For bfloat16, PyTorch's shape rule says that there are bags, but its kernel returns none.
  const bool is_padded = padding_idx && *padding_idx >= 0;
  if (mode == Mode::sum && type == ElementType::bfloat16 && !is_padded && !bags_told.is(0)) {
    bag_of_each = Value();
  }
  if (is_padded) {
    Value counted = g.op("Not", g.op("Equal", indices, g.scalar(*padding_idx, ElementType::int64)));
    const Dim count = g.unknown_size("kept");
    Value positions = g.typed(g.op("NonZero", counted), std::vector{Dim(1), count});
    g.bind_dims(positions);
    Value kept = g.squeeze(positions, {0});
    auto keep = [&](Value value) {
      std::vector<Dim> kept_dims = value.dims();
      kept_dims.at(0) = count;
      return g.typed(g.gather(value, kept, 0), std::move(kept_dims));
    };
    bag = keep(bag);
    indices = keep(indices);
    if (factors) factors = keep(*factors);
  }
  Value rows = operand(g, g.gather(weight, indices, 0), type);
  if (factors) rows = g.op("Mul", rows, g.unsqueeze(operand(g, *factors, type), {1}));
  Value where = g.unsqueeze(bag, {1});
  auto scatter = [&](Value start, Value values, Reduction reduction) {
    return scatter_nd(g, start, where, values, reduction);
  };
  auto count = [&] {
    Value ones = g.cast(g.op("GreaterOrEqual", bag, zero), ElementType::int64);  // one for each row
    return g.unsqueeze(scatter(filled(g, bags, 0, ElementType::int64), ones, Reduction::add), {1});
  };
  const auto as_result = [&](size_t index, Value value) {
    if (has_spare) value = g.slice(value, 0, g.ints({0}), g.sizes({wanted}));
    return g.cast(value, g.result(index).element_type);
  };
  // With include_last_offset, PyTorch's shape rule and kernel disagree about the last two results.
  const bool has_sizes = !include_last_offset;
  if (mode == Mode::sum) {
    const auto zeros = [&](size_t index) {
      const auto& [element_type, zero_dims] = g.result(index);
      return has_sizes ? filled(g, *zero_dims, 0, element_type) : Value();
    };
    return {as_result(0, scatter(filled(g, dims, 0, kernel), rows, Reduction::add)), bag_of_each, zeros(2),
            zeros(3)};
  }
  Value counts = count();
  Value sizes = has_sizes ? as_result(2, g.squeeze(counts, {1})) : Value();
  if (mode == Mode::mean) {
    Value sum = scatter(filled(g, dims, 0, kernel), rows, Reduction::add);
    return {as_result(0, g.op("Div", sum, g.cast(g.op("Max", counts, one), kernel))), bag_of_each, sizes,
            sizes};
  }
  Value greatest = scatter(filled(g, dims, -INFINITY, kernel), rows, Reduction::max);
  Value result = g.op("Where", g.op("Equal", counts, zero), g.scalar(0, kernel), greatest);
  if (!has_sizes) return {as_result(0, result), bag_of_each, Value(), Value()};
  return {as_result(0, result), bag_of_each, sizes,
          as_result(3, indices_of_greatest(g, rows, indices, bag, greatest))};
}

// Scales the rows at `indices` whose norm of order `order` exceeds `longest` down to that norm.
Value embedding_renorm(GraphBuilder& g, Value weight, Value indices, double longest, double order) {
  return in_opmath_type(g, weight, [&](Value x) {
    const Dim count = element_count(indices);
    indices = g.cast(g.reshape(indices, std::vector{count}), ElementType::int64);
    Value rows = g.gather(x, indices, 0);
    Value length = vector_norm(g, rows, order, std::vector<int64_t>{1}, true);
    return scatter_rows(g, x, 0, indices, g.op("Mul", rows, renorm_factor(g, length, longest)));
  });
}

}  // namespace

void register_embedding_bag(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
     Since{9}, embedding_renorm);

  on("aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
     "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> "
     "(Tensor, Tensor, Tensor, Tensor)",
     Since{16},
     [](GraphBuilder& g, Value weight, Value indices, Value offsets, Ignored, int64_t mode, Ignored,
        std::optional<Value> factors, bool include_last_offset) {
       return embedding_bag(g, weight, indices, offsets, Mode{mode}, factors, include_last_offset,
                            std::nullopt);
     });
  for (const char* name : {"_embedding_bag", "_embedding_bag_forward_only"}) {
    on(fmt::format("aten::{}(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
                   "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, "
                   "bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
                   name),
       Since{16},
       [](GraphBuilder& g, Value weight, Value indices, Value offsets, Ignored, int64_t mode, Ignored,
          std::optional<Value> factors, bool include_last_offset, int64_t padding_idx) {
         return embedding_bag(g, weight, indices, offsets, Mode{mode}, factors, include_last_offset,
                              padding_idx);
       });
  }
  on("aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, "
     "bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, "
     "int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
     Since{16},
     [](GraphBuilder& g, Value weight, Value indices, Value offsets, Ignored, int64_t mode, Ignored,
        std::optional<Value> factors, bool include_last_offset, std::optional<int64_t> padding_idx) {
       if (padding_idx && *padding_idx < 0) padding_idx = *padding_idx + weight.dim(0).value();
       return embedding_bag(g, weight, indices, offsets, Mode{mode}, factors, include_last_offset,
                            padding_idx);
     });
}

}  // namespace opbridge::lowering
