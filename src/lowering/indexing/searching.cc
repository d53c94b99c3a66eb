// Searches: searchsorted, bucketize, isin.
#include "lowering/add.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {
namespace {

// PyTorch compares a 0-d element with each of up to so many tests, and sorts it together with more, as
// tensors with axes: a Python number is not converted to their type then, and 0.1 in float64 is not 0.1 in
// float32.
constexpr int64_t most_tests = 9;

Value is_any_of(GraphBuilder& g, Value elements, Value tests, ElementType type) {
  Value x = g.unsqueeze(exact_operand(g, elements, type), {-1});
  Value among = exact_operand(g, tests, type);
  among = g.reshape(among, std::vector{element_count(among)});
  Value equal = g.cast(g.op("Equal", x, among), ElementType::int32);
  return g.cast(g.reduce("ReduceSum", equal, {-1}, false), ElementType::boolean);
}

Value isin(GraphBuilder& g, Value elements, Value tests, bool invert) {
  using enum PromotionOperand::Category;
  const Value both[] = {elements, tests};
  const PromotionOperand sorted[] = {{elements.element_type(), tensor}, {tests.element_type(), tensor}};
  const ElementType compared_in = result_type(g, both), sorted_in = promote(sorted);
  Value found;
  if (elements.rank() > 0 || compared_in == sorted_in) {
    found = is_any_of(g, elements, tests, compared_in);
  } else if (const Dim count = element_count(tests.dims()); count.is_static()) {
    found = is_any_of(g, elements, tests, count.value() > most_tests ? sorted_in : compared_in);
  } else {
    Value is_sorted = g.op("Greater", g.op("Size", tests), g.scalar(most_tests, ElementType::int64));
    found = g.op("Where", is_sorted, is_any_of(g, elements, tests, sorted_in),
                 is_any_of(g, elements, tests, compared_in));
  }
  return invert ? g.op("Not", found) : found;
}

// Up to this many boundaries, each value is compared with all of them.
constexpr int64_t most_compared = 64;

// The number of boundaries below each value; with `right`, those equal to it count too. NaN is above all
// boundaries.
Value count_before(GraphBuilder& g, Value boundaries, Value values, bool right) {
  const Value both[] = {boundaries, values};
  const ElementType type = result_type(g, both);
  const Dim& count = boundaries.dim(-1);
  if (!count.is_static() || count.value() > most_compared) {
    Value indices =
        kernel(g, "opbridge::searchsorted",
               {kernel_operand(g, boundaries, type), kernel_operand(g, values, type), attr("right", right)},
               {ElementType::int64, values.dims()});
    return g.cast(indices, g.result().element_type);
  }
  Value edges = operand(g, boundaries, type), x = operand(g, values, type);
  if (edges.rank() > 1) edges = g.unsqueeze(edges, {-2});  // a row for each row of values
  Value before = g.op("Not", g.op(right ? "Greater" : "GreaterOrEqual", edges, g.unsqueeze(x, {-1})));
  Value counts = g.cast(before, g.result().element_type);
  return g.reduce("ReduceSum", counts, {-1}, false);
}

Value searchsorted(GraphBuilder& g, Value sequence, Value self, Ignored, bool right,
                   std::optional<std::string> side, std::optional<Value> sorter) {
  if (sorter) sequence = g.op("GatherElements", sequence, *sorter, attr("axis", -1));
  return count_before(g, sequence, self, right || side == "right");
}

Value bucketize(GraphBuilder& g, Value self, Value boundaries, Ignored, bool right) {
  return count_before(g, boundaries, self, right);
}

}  // namespace

void register_searching(SymbolicRegistry& registry) {
  auto on = add(registry);

  auto is_in = [](GraphBuilder& g, Value elements, Value tests, Ignored, bool invert) {
    return isin(g, elements, tests, invert);
  };
  on("aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, "
     "bool invert=False) -> Tensor",
     Since{9}, is_in);
  on("aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, "
     "bool invert=False) -> Tensor",
     Since{9}, is_in);
  on("aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, "
     "bool invert=False) -> Tensor",
     Since{9}, is_in);
  on("aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, "
     "bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
     Since{9}, searchsorted);
  on("aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, "
     "bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
     Since{9}, searchsorted);
  on("aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> "
     "Tensor",
     Since{9}, bucketize);
  on("aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> "
     "Tensor",
     Since{9}, bucketize);
}

}  // namespace opbridge::lowering
