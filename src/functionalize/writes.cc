#include "functionalize/writes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "functionalize/arguments.h"
#include "functionalize/overlap.h"
#include "tensor/shape.h"

namespace opbridge::functionalization {
namespace {

// Gives result `index` of an emitted node the type `computed`, and casts it to `written`.
void cast_result(Memory& memory, ir::Node& node, size_t index, ElementType computed, ElementType written) {
  ir::Value* result = node.outputs[index];
  ir::Value* exact =
      memory.emitter().add_result(&node, ir::TensorType{computed, result->tensor_type().dims}, *result);
  std::swap(node.outputs[index], node.outputs.back());
  node.outputs.pop_back();
  ir::Node* cast = memory.graph().make_node("aten::to.dtype");
  cast->attributes = {{"self", exact}, {"dtype", written}};
  cast->source = node.source;
  cast->outputs = {result};
  result->producer = cast;
  memory.emitter().place(cast);
}

// Turns the node into the pure one and returns its results, each cast to its target's element type.
std::vector<ir::Value*> compute(Memory& memory, ir::Node& node, const std::string& pure,
                                const std::vector<View*>& targets) {
  memory.read_arguments(node);
  node.op = pure;
  adapt_arguments(node, targets.front()->type().element_type);
  memory.emitter().place(&node);
  for (size_t i = node.outputs.size(); i < targets.size(); ++i) {
    memory.emitter().add_result(&node, targets[i]->type(), *targets[i]->form);
  }
  const std::vector<ir::Value*> results = node.outputs;
  for (size_t i = 0; i < targets.size(); ++i) {
    const ElementType written = targets[i]->type().element_type;
    const ElementType computed = computed_type(node, written);
    if (computed != written) cast_result(memory, node, i, computed, written);
  }
  return results;
}

// The value that `fill_`, `zero_` or `copy_` writes.
const ir::AttributeValue& content(const ir::Node& node) {
  static const ir::AttributeValue zero = int64_t{0};
  for (std::string_view name : {"src", "value", "fill_value", "other"}) {
    if (const ir::AttributeValue* value = given(node, name)) return *value;
  }
  return zero;
}

ir::Value* filled(Memory& memory, const ir::TensorType& type, const ir::AttributeValue& number, View& like) {
  const ElementType element_type = type.element_type;
  if (type.is_static()) {
    return memory.emitter().emit(
        "aten::full", {{"size", sizes(*type.dims)}, {"fill_value", number}, {"dtype", element_type}}, type,
        *like.form);
  }
  // An older version has the same sizes.
  return memory.emitter().emit("aten::full_like", {{"self", like.value}, {"fill_value", number}}, type,
                               *like.form);
}

ir::Value* copied(Memory& memory, const ir::Node& node, View& target) {
  const auto* source = std::get_if<ir::Value*>(&content(node));
  const ir::TensorType& type = target.type();
  if (source == nullptr || is_number(**source)) return filled(memory, type, content(node), target);
  ir::Value* value = memory.read(*source);
  ir::TensorType made = value->tensor_type();
  if (made.element_type != type.element_type) {
    made.element_type = type.element_type;
    value = memory.emitter().emit("aten::to.dtype", {{"self", value}, {"dtype", type.element_type}}, made,
                                  *target.form);
  }
  if (made.dims != type.dims) {
    if (!type.ranked())
      refuse(node, fmt::format("{} writes to %{}, whose rank is not known", node.op, target.form->name));
    value = memory.emitter().emit("aten::expand", {{"self", value}, {"size", sizes(*type.dims)}}, type,
                                  *target.form);
  }
  return value;
}

ir::Value* filled_diagonal(Memory& memory, const ir::Node& node, View& target) {
  const ir::TensorType& type = target.type();
  if (!type.is_static() || type.rank() != 2 || flag(node, "wrap", false)) {
    refuse(node, node.op + " is supported only for matrices of constant size, without wrap=True");
  }
  const ir::TensorType diagonal{type.element_type, {{min((*type.dims)[0], (*type.dims)[1])}}};
  ir::Value* source = filled(memory, diagonal, content(node), target);
  return memory.emitter().emit("aten::diagonal_scatter", {{"self", memory.read(target)}, {"src", source}},
                               type, *target.form);
}

// PyTorch refuses these writes too if it notices.
[[noreturn]] void refuse_source(const ir::Node& node) {
  refuse(node, node.op + " reads a view of the tensor that it writes to; pass a copy, as by clone()");
}

constexpr std::array<std::string_view, 3> scattered = {"source", "src", "values"};

// Refuses an operator on elements, or a copy, that reads elements which it has already written.
void check_order(Memory& memory, const ir::Node& node, View& target, bool copies) {
  for (const ir::Attribute& argument : node.attributes) {
    const auto* tensor = std::get_if<ir::Value*>(&argument.value);
    if (tensor == nullptr || *tensor == nullptr || is_number(**tensor) || is_list(**tensor)) continue;
    if (!copies && std::ranges::find(scattered, argument.name) != scattered.end()) continue;
    if (argument.name == "value") continue;  // a number, which is read first
    if (reads_changed_elements(memory, target, memory.view_of(*tensor), copies)) refuse_source(node);
  }
}

// Refuses an operator that scatters elements of its own target.
void check_source(Memory& memory, const ir::Node& node, const View& target) {
  for (std::string_view name : scattered) {
    const ir::AttributeValue* argument = given(node, name);
    const auto* source = argument == nullptr ? nullptr : std::get_if<ir::Value*>(argument);
    if (source == nullptr || *source == nullptr || is_number(**source)) continue;
    const View& view = memory.view_of(*source);
    const ir::TensorType& type = view.type();
    const bool is_one_number = type.ranked() && tensor::element_count(*type.dims).is(1);
    if (is_one_number && !flag(node, "accumulate", false)) continue;
    if (view.storage == target.storage) refuse_source(node);
  }
}

}  // namespace

void write_in_place(Memory& memory, ir::Node& node, const Mutation& mutation) {
  const ir::Value* self = subject(node);
  if (self == nullptr || is_list(*self)) refuse(node, node.op + " must write to one tensor");
  Tensor& tensor = memory.tensor_of(self);
  View& target = *tensor.view;
  const std::vector<ir::Value*> outputs = node.outputs;
  ir::Value* written = nullptr;
  check_order(memory, node, target, mutation.write == Write::copied);
  switch (mutation.write) {
    case Write::computed:
      check_source(memory, node, target);
      written = compute(memory, node, mutation.pure, {&target}).front();
      break;
    case Write::copied:
      written = copied(memory, node, target);
      break;
    case Write::filled:
      written = filled(memory, target.type(), content(node), target);
      break;
    case Write::diagonal:
      written = filled_diagonal(memory, node, target);
      break;
  }
  memory.write(target, written);
  for (const ir::Value* output : outputs) memory.bind(output, tensor);
}

namespace {

using Values = std::vector<ir::Value*>;

// Without lists: one call.
size_t count_of_calls(const ir::Node& node) {
  std::optional<size_t> count;
  for (const ir::Attribute& argument : node.attributes) {
    const auto* list = std::get_if<Values>(&argument.value);
    if (list == nullptr || list->empty()) continue;
    if (count && *count != list->size()) refuse(node, node.op + " has lists of different lengths");
    count = list->size();
  }
  return count.value_or(1);
}

}  // namespace

void write_several(Memory& memory, ir::Node& node, const Mutation& mutation) {
  for (size_t i = 0; i < count_of_calls(node); ++i) {
    ir::Node* call = memory.graph().make_node(mutation.pure);
    call->source = node.source;
    call->attributes = node.attributes;
    for (ir::Attribute& argument : call->attributes) {
      const auto* list = std::get_if<Values>(&argument.value);
      if (list != nullptr && !list->empty()) argument.value = Values{list->at(i)};
    }
    std::vector<std::pair<View*, bool>> targets;  // and whether it changes
    for (const Written& written : mutation.written) {
      const bool changes = written.only_with.empty() || given(node, written.only_with) != nullptr;
      const ir::AttributeValue* argument = given(*call, written.argument);
      const auto* list = argument == nullptr ? nullptr : std::get_if<Values>(argument);
      const auto* value = argument == nullptr ? nullptr : std::get_if<ir::Value*>(argument);
      if (list != nullptr && !list->empty()) value = list->data();
      if (value == nullptr) continue;
      if (*value == nullptr || is_number(**value) || is_list(**value))
        refuse(node, fmt::format("{} must write to tensors", node.op));
      targets.emplace_back(&memory.view_of(*value), changes);
    }
    memory.read_arguments(*call);
    memory.emitter().place(call);
    for (const auto& [target, changes] : targets)
      memory.emitter().add_result(call, target->type(), *target->form);
    for (size_t j = 0; j < targets.size(); ++j) {
      if (targets[j].second) memory.write(*targets[j].first, call->outputs[j]);
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const auto* value = std::get_if<ir::Value*>(given(node, mutation.written.at(i).argument));
    if (value == nullptr) refuse(node, node.op + " returns what it does not write");
    memory.bind(node.outputs[i], memory.tensor_of(*value));
  }
}

void write_out(Memory& memory, ir::Node& node, const Mutation& mutation) {
  std::vector<Tensor*> tensors;
  std::vector<View*> targets;
  for (const std::string& name : mutation.outs) {
    const ir::AttributeValue* argument = given(node, name);
    const auto* value = argument == nullptr ? nullptr : std::get_if<ir::Value*>(argument);
    if (value == nullptr || is_number(**value)) refuse(node, node.op + " lacks its argument " + name);
    targets.push_back(tensors.emplace_back(&memory.tensor_of(*value))->view);
  }
  std::erase_if(node.attributes, [&](const ir::Attribute& argument) {
    return std::ranges::find(mutation.outs, argument.name) != mutation.outs.end();
  });
  for (View* target : targets) check_order(memory, node, *target, false);
  const std::vector<ir::Value*> outputs = node.outputs;
  const std::vector<ir::Value*> results = compute(memory, node, mutation.pure, targets);
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::optional<std::vector<Dim>>& before = targets[i]->type().dims;
    if (results[i]->tensor_type().dims == before) {
      memory.write(*targets[i], results[i]);
    } else if (before && std::ranges::any_of(*before, [](const Dim& dim) { return dim.is(0); })) {
      // PyTorch resizes an empty `out=` to the size of the result.
      memory.reassign(*tensors[i], memory.bind_new(results[i], results[i], false));
    } else {
      refuse(node, fmt::format("{} resizes %{}; pass an out= of the right size", memory.op(),
                               targets[i]->form->name));
    }
    if (i < outputs.size()) memory.bind(outputs[i], *tensors[i]);
  }
}

namespace {

// The running mean and variance that a normalization in training mode updates.
std::array<View*, 2> running_statistics(Memory& memory, const ir::Node& node) {
  std::array<View*, 2> statistics{};
  for (size_t i = 0; i < 2; ++i) {
    const std::string_view name = i == 0 ? "running_mean" : "running_var";
    const auto* value = std::get_if<ir::Value*>(given(node, name));
    if (value == nullptr || is_number(**value))
      refuse(node, fmt::format("{}: {} is not a tensor", node.op, name));
    statistics[i] = &memory.view_of(*value);
  }
  return statistics;
}

// instance_norm: running statistics move towards the statistics of the samples, averaged over the samples.
void normalize_by_instance(Memory& memory, ir::Node& node) {
  const std::array<View*, 2> statistics = running_statistics(memory, node);
  std::array<ir::Value*, 2> running{};
  for (size_t i = 0; i < 2; ++i) running[i] = memory.read(*statistics[i]);
  for (const char* name : {"running_mean", "running_var"}) node.set(name, std::monostate());
  memory.read_arguments(node);
  memory.emitter().place(&node);
  memory.bind_new(node.outputs.at(0), node.outputs.at(0), false);

  ir::Value* const* const tensor = std::get_if<ir::Value*>(given(node, "input"));
  if (tensor == nullptr) refuse(node, node.op + " has no input");
  ir::Value* input = *tensor;
  const ir::TensorType& type = input->tensor_type();
  const auto* momentum = std::get_if<double>(given(node, "momentum"));
  if (!type.ranked() || momentum == nullptr || type.element_type != statistics[0]->type().element_type)
    refuse(node, node.op + " updates running statistics; put the model into evaluation mode");
  std::vector<int64_t> pixels;
  for (int64_t axis = 2; axis < static_cast<int64_t>(type.rank()); ++axis) pixels.push_back(axis);
  const auto reduced = [&](const char* op, ir::Value* value, std::vector<int64_t> axes, ir::TensorType to) {
    std::vector<ir::Attribute> arguments{{"self", value}, {"dim", std::move(axes)}, {"keepdim", false}};
    return memory.emitter().emit(op, std::move(arguments), std::move(to), *statistics[0]->form);
  };
  // PyTorch rounds to a half type at the end.
  const ElementType wide =
      type.element_type == ElementType::float64 ? ElementType::float64 : ElementType::float32;
  const auto cast = [&](ir::Value* value, ElementType to) {
    ir::TensorType result = value->tensor_type();
    if (result.element_type == to) return value;
    result.element_type = to;
    return memory.emitter().emit("aten::to.dtype", {{"self", value}, {"dtype", to}}, result,
                                 *statistics[0]->form);
  };
  input = cast(input, wide);
  const ir::TensorType of_each{wide, {{type.dims->at(0), type.dims->at(1)}}};
  for (size_t i = 0; i < 2; ++i) {
    const ir::TensorType of_all{wide, statistics[i]->type().dims};
    // The default of `correction` gives the unbiased variance.
    ir::Value* each = reduced(i == 0 ? "aten::mean.dim" : "aten::var.correction", input, pixels, of_each);
    ir::Value* all = reduced("aten::mean.dim", each, {0}, of_all);
    const auto times = [&](ir::Value* value, double factor) {
      return memory.emitter().emit("aten::mul.Scalar", {{"self", value}, {"other", factor}}, of_all,
                                   *statistics[i]->form);
    };
    // Not by lerp, which subtracts: the statistics may be infinite.
    ir::Value* moved = memory.emitter().emit(
        "aten::add.Tensor",
        {{"self", times(all, *momentum)}, {"other", times(cast(running[i], wide), 1 - *momentum)}}, of_all,
        *statistics[i]->form);
    memory.write(*statistics[i], cast(moved, type.element_type));
  }
}

}  // namespace

void normalize_by_batch(Memory& memory, ir::Node& node) {
  if (node.op == "aten::instance_norm") return normalize_by_instance(memory, node);
  const bool with_reserve = node.op == "aten::_batch_norm_with_update";
  if (node.op != "aten::batch_norm" && !node.op.ends_with("native_batch_norm") &&
      !node.op.ends_with("native_batch_norm_legit") && !with_reserve)
    refuse(node, node.op + " updates running statistics; put the model into evaluation mode");
  const std::array<View*, 2> statistics = running_statistics(memory, node);
  memory.read_arguments(node);
  node.op =
      with_reserve ? "aten::_batch_norm_with_update_functional" : "aten::_native_batch_norm_legit_functional";
  std::erase_if(node.attributes,
                [](const ir::Attribute& argument) { return argument.name == "cudnn_enabled"; });
  memory.emitter().place(&node);
  for (ir::Value* output : node.outputs) memory.bind_new(output, output, false);
  // The results after the first: the batch's mean and inverse deviation, then the new running statistics.
  const size_t count = with_reserve ? 6 : 5;
  for (size_t i = node.outputs.size(); i < count; ++i) {
    const View& like = *statistics[(i + count) % 2];
    memory.emitter().add_result(&node, like.type(), *like.form);
  }
  for (size_t i = 0; i < 2; ++i) memory.write(*statistics[i], node.outputs[node.outputs.size() - 2 + i]);
}

bool call_by_schema(Memory& memory, ir::Node& node, const OperatorSchema& schema) {
  std::vector<std::pair<Tensor*, ir::Value*>> writes;
  for (const SchemaArgument& argument : schema.arguments) {
    if (!argument.type.written) continue;
    const ir::AttributeValue* value = given(node, argument.name);
    if (value == nullptr) continue;
    const auto* tensor = std::get_if<ir::Value*>(value);
    const auto result = std::ranges::find(schema.returns, argument.type.alias,
                                          [](const SchemaReturn& each) { return each.type.alias; });
    const auto index = static_cast<size_t>(result - schema.returns.begin());
    if (tensor == nullptr || is_number(**tensor) || index >= node.outputs.size()) {
      refuse(node,
             fmt::format("{} writes to its argument {} but does not return it; give it a schema that returns "
                         "Tensor({}!), or make it pure",
                         node.op, argument.name, argument.type.alias));
    }
    writes.emplace_back(&memory.tensor_of(*tensor), node.outputs[index]);
  }
  if (writes.empty()) return false;
  memory.read_arguments(node);
  memory.emitter().place(&node);
  for (ir::Value* output : node.outputs) {
    if (!is_number(*output)) memory.bind_new(output, output, false);
  }
  for (const auto& [tensor, written] : writes) {
    memory.write(*tensor->view, written);
    memory.bind(written, *tensor);
  }
  return true;
}

}  // namespace opbridge::functionalization
