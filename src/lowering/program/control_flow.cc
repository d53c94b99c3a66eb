// Branches and loops: torch.export's higher-order operators. Their arguments are graphs and the operands of
// these, all by position (arg0, arg1, …).
#include <fmt/format.h>

#include "ir/queries.h"
#include "lowering/add.h"
#include "lowering/branch.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

const ir::AttributeValue& argument(const SymbolicCall& call, size_t index) {
  if (index >= call.arguments.size()) call.g.refuse(fmt::format("argument {} is missing", index));
  return *call.arguments[index];
}

const ir::Graph& body(const SymbolicCall& call, size_t index) {
  const auto* graph = std::get_if<ir::GraphPtr>(&argument(call, index));
  if (graph == nullptr) call.g.refuse(fmt::format("argument {} is not a graph", index));
  return **graph;
}

std::vector<Value> values(const SymbolicCall& call, size_t index) {
  if (index >= call.arguments.size()) return {};
  std::vector<Value> result = symbolic_detail::decode_values(call, index);
  if (std::ranges::any_of(result, [](Value value) { return !value; }))
    call.g.refuse(fmt::format("argument {} holds None", index));
  return result;
}

std::vector<Value> joined(std::vector<Value> a, const std::vector<Value>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The types of `count` inputs of a body.
std::vector<ir::TensorType> input_types(const SymbolicCall& call, const ir::Graph& body, size_t count) {
  if (body.inputs.size() < count) call.g.refuse("its body takes too few inputs");
  std::vector<ir::TensorType> types;
  for (size_t i = 0; i < count; ++i) types.push_back(ir::as_tensor_type(*body.inputs[i]));
  return types;
}

// The types of the inputs of a Loop's body: the number of the step, whether the loop goes on, and those of
// the first `carried` inputs of `step`.
std::vector<ir::TensorType> types_of_loop(const SymbolicCall& call, const ir::Graph& step, size_t carried) {
  std::vector<ir::TensorType> types{{ElementType::int64, std::vector<Dim>()},
                                    {ElementType::boolean, std::vector<Dim>()}};
  for (ir::TensorType& type : input_types(call, step, carried)) types.push_back(std::move(type));
  return types;
}

Value truth(GraphBuilder& g, Value value) {
  return g.reshape(g.cast(value, ElementType::boolean), std::vector<Dim>());
}

// cond(predicate, if true, if false, operands)
std::vector<Value> branch(const SymbolicCall& call) {
  const std::vector<Value> operands = values(call, 3);
  const auto from = [&](size_t index) -> Way {
    return [&call, &operands, index](GraphBuilder& g) {
      return call.bodies.lower_body(body(call, index), g, operands);
    };
  };
  if (const bool* known = std::get_if<bool>(&argument(call, 0))) return from(*known ? 1 : 2)(call.g);
  const Value condition = truth(call.g, symbolic_detail::Decode<Value>::get(call, 0));
  return either(call.g, condition, call.node.outputs.size(), from(1), from(2));
}

// switch(index, branch 0, branch 1, …, operands)
std::vector<Value> choice(const SymbolicCall& call) {
  if (call.arguments.size() < 3) call.g.refuse("it has no branches");
  const size_t last = call.arguments.size() - 2;
  const std::vector<Value> operands = values(call, last + 1);
  const Value index = call.g.cast(symbolic_detail::Decode<Value>::get(call, 0), ElementType::int64);
  const std::function<std::vector<Value>(GraphBuilder&, size_t)> from = [&](GraphBuilder& g, size_t at) {
    const auto chosen = [&](GraphBuilder& b) { return call.bodies.lower_body(body(call, at), b, operands); };
    if (at == last) return chosen(g);
    const Value number = g.scalar(static_cast<int64_t>(at) - 1, ElementType::int64);
    return either(g, truth(g, g.op("Equal", index, number)), call.node.outputs.size(), chosen,
                  [&](GraphBuilder& b) { return from(b, at + 1); });
  };
  return from(call.g, 1);
}

// while_loop(condition, step, carried, others)
std::vector<Value> loop(const SymbolicCall& call) {
  GraphBuilder& g = call.g;
  const std::vector<Value> carried = values(call, 2), others = values(call, 3);
  const auto goes_on = [&](GraphBuilder& b, const std::vector<Value>& now) {
    const std::vector<Value> result = call.bodies.lower_body(body(call, 0), b, joined(now, others));
    if (result.size() != 1) g.refuse("its condition must return one value");
    return truth(b, result[0]);
  };
  const std::vector<ir::TensorType> types = types_of_loop(call, body(call, 1), carried.size());
  const ir::GraphPtr step = g.subgraph("step", types, [&](GraphBuilder& b, std::vector<Value> inputs) {
    inputs.erase(inputs.begin(), inputs.begin() + 2);
    std::vector<Value> next = call.bodies.lower_body(body(call, 1), b, joined(inputs, others));
    if (next.size() != inputs.size()) g.refuse("its body must return as many values as it carries");
    next.insert(next.begin(), goes_on(b, next));
    return next;
  });
  return g.op_list("Loop", carried.size(), {Value(), goes_on(g, carried), carried, attr("body", step)});
}

using Step = std::function<std::vector<Value>(GraphBuilder&, std::vector<Value>)>;

// Whether a step changes the shape of a state, as one that concatenates does. ONNX's Scan does not allow it.
bool changes_shapes(const ir::Graph& step, size_t states) {
  for (size_t i = 0; i < std::min({states, step.inputs.size(), step.outputs.size()}); ++i) {
    if (ir::as_tensor_type(*step.inputs[i]).dims != ir::as_tensor_type(*step.outputs[i]).dims) return true;
  }
  return false;
}

// The results of a scan of at least one slice, by a Loop.
std::vector<Value> scan_by_loop(const SymbolicCall& call, GraphBuilder& g, const std::vector<Value>& states,
                                const std::vector<Value>& slices, size_t outputs, const Step& step) {
  const std::vector<ir::TensorType> types = types_of_loop(call, body(call, 0), states.size());
  const ir::GraphPtr graph = g.subgraph("step", types, [&](GraphBuilder& b, std::vector<Value> inputs) {
    std::vector<Value> given(inputs.begin() + 2, inputs.end());
    for (Value each : slices) given.push_back(b.gather(each, inputs[0], 0));
    std::vector<Value> next = step(b, given);
    next.insert(next.begin(), inputs[1]);
    return next;
  });
  return g.op_list("Loop", outputs, {g.size(slices[0].dim(0)), Value(), states, attr("body", graph)});
}

// Scans the first axis: `step` carries the states; its further outputs, of the types `stacked`, are stacked.
std::vector<Value> scan(const SymbolicCall& call, const std::vector<Value>& states,
                        const std::vector<Value>& slices, const std::vector<ir::TensorType>& stacked,
                        const Step& step) {
  const size_t outputs = states.size() + stacked.size();
  const auto steps = [&](GraphBuilder& g) {
    if (changes_shapes(body(call, 0), states.size()))
      return scan_by_loop(call, g, states, slices, outputs, step);
    const std::vector<ir::TensorType> types = input_types(call, body(call, 0), states.size() + slices.size());
    const ir::GraphPtr graph = g.subgraph("step", types, step);
    const auto count = static_cast<int64_t>(slices.size());
    return g.op_list("Scan", outputs,
                     {joined(states, slices), attr("body", graph), attr("num_scan_inputs", count)});
  };
  const auto no_steps = [&](GraphBuilder& g) {
    std::vector<Value> results = states;
    for (const ir::TensorType& type : stacked) {
      std::vector<Dim> dims = *type.dims;
      dims.at(0) = 0;
      results.push_back(filled(g, dims, 0, type.element_type));
    }
    return results;
  };
  // ONNX does not define a Scan of no slices.
  if (slices.empty()) call.g.refuse("it has nothing to scan");
  return unless_none(call.g, slices[0].dim(0), outputs, no_steps, steps);
}

// scan(step, states, slices, others), and map_impl(step, slices, others), which has no states.
std::vector<Value> scan(const SymbolicCall& call, const std::vector<Value>& states, size_t slices_at) {
  const std::vector<Value> others = values(call, slices_at + 1);
  std::vector<ir::TensorType> stacked;
  for (size_t i = states.size(); i < call.node.outputs.size(); ++i)
    stacked.push_back(ir::as_tensor_type(*call.node.outputs[i]));
  return scan(call, states, values(call, slices_at), stacked,
              [&](GraphBuilder& b, const std::vector<Value>& inputs) {
                return call.bodies.lower_body(body(call, 0), b, joined(inputs, others));
              });
}

// associative_scan(combine, slices, others): combines each output with the next slice.
std::vector<Value> associative_scan(const SymbolicCall& call) {
  GraphBuilder& g = call.g;
  const std::vector<Value> slices = values(call, 1), others = values(call, 2);
  std::vector<Value> first, rest;
  std::vector<ir::TensorType> stacked;
  for (Value each : slices) {
    first.push_back(g.gather(each, g.scalar(0, ElementType::int64), 0));
    std::vector<Dim> dims = each.dims();
    dims.at(0) = dims[0] - Dim(1);
    rest.push_back(g.typed(g.slice(each, 0, 1, INT64_MAX), dims));
    stacked.push_back({each.element_type(), std::move(dims)});
  }
  const size_t count = slices.size();
  std::vector<Value> results =
      scan(call, first, rest, stacked, [&](GraphBuilder& b, const std::vector<Value>& inputs) {
        const std::vector<Value> next = call.bodies.lower_body(body(call, 0), b, joined(inputs, others));
        return joined(next, next);
      });
  for (size_t i = 0; i < count; ++i)
    results[i] = g.concat({g.unsqueeze(first[i], {0}), results[count + i]}, 0);
  results.resize(count);
  return results;
}

}  // namespace

void register_control_flow(SymbolicRegistry& registry) {
  const auto on = [&](std::string_view name, int since, SymbolicFunction function) {
    registry.add(Symbolic{fmt::format("higher_order::{}", name), std::nullopt, Since{since}, Origin::bundled,
                          std::move(function)});
  };
  on("cond", 11, branch);
  on("switch", 11, choice);
  on("while_loop", 11, loop);
  on("scan", 11, [](const SymbolicCall& call) { return scan(call, values(call, 1), 2); });
  on("map_impl", 11, [](const SymbolicCall& call) { return scan(call, {}, 1); });
  on("associative_scan", 11, associative_scan);
}

}  // namespace opbridge::lowering
