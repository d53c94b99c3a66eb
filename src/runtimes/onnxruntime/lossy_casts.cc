// Versions: 1.20 to 1.32; the first fault only in 1.20.
// Model: b = Cast(Cast(x, to=int64), to=bool), also by way of another type in which a nonzero number of x may
// become 0; and n = Cast(Cast(x, to=int64), to=int32) with x of floats, also by way of uint32 or uint64, and
// to any shorter integer.
// Fault: the runtime casts x directly to the last type, even with optimizations disabled: 0.5 is true, and
// 5e9 is the least int32 instead of its lower bits.
// Rewrite: Neg, which keeps zeros, before the Cast to bool; Neg twice before the Cast to an integer.
// Tests: test_runtime_faults.py, and test_casts_by_way_of_another_type.
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "runtimes/onnxruntime/faults.h"

namespace opbridge::onnxruntime {
namespace {

bool is_integer(ElementType type) { return type != ElementType::boolean && !is_floating_point(type); }

// Whether a number other than 0 may become 0.
bool may_vanish(ElementType from, ElementType to) {
  if (to == ElementType::boolean) return false;
  if (is_floating_point(from) && is_integer(to)) return true;
  return is_floating_point(from) == is_floating_point(to) && bits_of(to) < bits_of(from);
}

// Whether a floating-point number may become an integer that the Cast to `last` shortens to its lower bits.
// The runtime casts floating-point numbers to shorter integers by way of int32.
bool may_be_shortened(ElementType from, ElementType to, ElementType last) {
  const bool exceeds_int32 =
      to == ElementType::int64 || to == ElementType::uint32 || to == ElementType::uint64;
  return is_floating_point(from) && exceeds_int32 && bits_of(last) < bits_of(to);
}

// Whether leaving out one of the casts before `cast` would change its result.
bool is_merged_wrongly(const ir::Node& cast) {
  const ElementType last = ir::element_type(cast.outputs[0]);
  if (is_floating_point(last)) return false;
  for (const ir::Node* before = cast.inputs[0]->producer; before && before->op == "Cast";
       before = before->inputs[0]->producer) {
    const ElementType from = ir::element_type(before->inputs[0]), to = ir::element_type(before->outputs[0]);
    if (last == ElementType::boolean ? may_vanish(from, to) : may_be_shortened(from, to, last)) return true;
  }
  return false;
}

// A type for which the runtime has Neg and in which different numbers of `type` stay different.
ElementType negatable(ElementType type) {
  if (is_floating_point(type)) return type == ElementType::float64 ? type : ElementType::float32;
  return bits_of(type) < 32 || type == ElementType::int32 ? ElementType::int32 : ElementType::int64;
}

// Puts a node before the Cast, behind those that precede it.
void precede(ir::Rewriter& rewriter, ir::Node& cast, const char* op, ElementType type,
             std::vector<ir::Attribute> attributes = {}) {
  ir::Node* node = rewriter.add(cast, op, std::move(cast.inputs), std::move(attributes));
  cast.inputs = {rewriter.add_result(node, cast.outputs[0]->name + ":" + op,
                                     ir::TensorType{type, cast.outputs[0]->tensor_type().dims})};
}

void set_apart(ir::Rewriter& rewriter, ir::Node& cast) {
  const bool is_to_bool = ir::element_type(cast.outputs[0]) == ElementType::boolean;
  const ElementType type = negatable(ir::element_type(cast.inputs[0]));
  if (type != ir::element_type(cast.inputs[0]))
    precede(rewriter, cast, "Cast", type, {{"to", static_cast<int64_t>(type)}});
  for (int i = 0; i < (is_to_bool ? 1 : 2); ++i) precede(rewriter, cast, "Neg", type);
}

}  // namespace

void keep_lossy_casts(ir::Graph& graph, ir::Names& names) {
  ir::rewrite_nodes(graph, names, [](ir::Rewriter& rewriter, ir::Node& node) {
    if (node.op == "Cast" && is_merged_wrongly(node)) set_apart(rewriter, node);
    rewriter.append(node);
  });
}

}  // namespace opbridge::onnxruntime
