#include "lowering/complex/complex.h"

#include <algorithm>
#include <array>
#include <span>

#include "builder/stage.h"
#include "lowering/common.h"
#include "lowering/complex/complex_call.h"
#include "lowering/complex/complex_functions.h"
#include "torch/traits.h"

namespace opbridge::lowering {
namespace {

using namespace std::string_view_literals;
using torch::ComplexRule;

// Arguments that select elements, or the places of elements: they are the same for both parts.
constexpr std::array unsplit_arguments = {
    "index"sv,   "indices"sv, "mask"sv,   "condition"sv, "tensor_indices_or_sections"sv,
    "repeats"sv, "start"sv,   "spacing"sv};
// Number arguments that are values of elements; other numbers are factors.
constexpr std::array element_arguments = {"other"sv, "value"sv, "fill_value"sv, "self"sv, "fill"sv, "s"sv};
constexpr std::array linspace_arguments = {"start"sv, "end"sv};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

// The name without overload and without the `_copy` of view operators: "aten::unfold" for
// "aten::unfold_copy.out". "aten::view.dtype" keeps its overload, because it changes the element type, not
// the shape.
std::string base_name(std::string_view op) {
  std::string name = torch::without_copy(op);
  if (name != "aten::view.dtype") name.resize(torch::without_overload(name).size());
  return name;
}

// Whether PyTorch converts the factors to a real `dtype` before it multiplies them. Sums have the same real
// part if they are converted afterwards, products do not.
bool multiplies_real_parts(std::string_view op, const ir::Node& node) {
  return (op == "aten::prod" || op == "aten::cumprod") && !is_complex_value(node.outputs.at(0));
}

// A ValueMap that maps the complex tensors of a call to one of their parts.
class PartOfValues final : public ValueMap {
 public:
  explicit PartOfValues(const ValueMap& others) : others_(others) {}
  void set(const ir::Value* value, Value part) { parts_[value] = part; }
  Value operator[](const ir::Value* value) const override {
    const auto found = parts_.find(value);
    return found == parts_.end() ? others_[value] : found->second;
  }

 private:
  const ValueMap& others_;
  std::unordered_map<const ir::Value*, Value> parts_;
};

}  // namespace

bool is_complex_value(const ir::Value* value) {
  const auto* type = value ? std::get_if<ir::TensorType>(&value->type) : nullptr;
  return type && is_complex(type->element_type);
}

void for_each_tensor(const ir::AttributeValue& argument, const std::function<void(const ir::Value*)>& visit) {
  if (const auto* one = std::get_if<ir::Value*>(&argument)) {
    visit(*one);
  } else if (const auto* list = std::get_if<std::vector<ir::Value*>>(&argument)) {
    for (const ir::Value* value : *list) visit(value);
  }
}

ElementType part_type(ElementType type) {
  if (type == ElementType::complex64) return ElementType::float32;
  return type == ElementType::complex128 ? ElementType::float64 : type;
}

ir::TensorType in_pairs(ir::TensorType type) {
  if (!is_complex(type.element_type)) return type;
  type.element_type = part_type(type.element_type);
  if (type.dims) type.dims->push_back(Dim(2));
  return type;
}

ir::Weight in_pairs(ir::Weight weight) {
  if (!is_complex(weight.element_type)) return weight;
  weight.element_type = part_type(weight.element_type);
  weight.dims.push_back(2);
  return weight;
}

bool is_in_pairs(const GraphBuilder& g, std::string_view argument) {
  const ir::AttributeValue* value = g.call()->find(argument);
  ir::Value* const* tensor = value ? std::get_if<ir::Value*>(value) : nullptr;
  return tensor && is_complex_value(*tensor);
}

bool ComplexLowering::concerns(const ir::Node& node) {
  bool found = std::ranges::any_of(node.outputs, is_complex_value);
  for (const ir::Attribute& attribute : node.attributes)
    for_each_tensor(attribute.value, [&](const ir::Value* value) { found |= is_complex_value(value); });
  return found;
}

Complex ComplexLowering::from_pairs(Value pairs, const ir::Value* value) {
  auto part = [&](int64_t i) {
    const auto& [type, dims] = value->tensor_type();
    return g_.typed(g_.gather(pairs, g_.scalar(i, ElementType::int64), -1), {part_type(type), dims});
  };
  return {part(0), part(1)};
}

void ComplexLowering::set_pairs(const ir::Value* value, Value pairs) {
  parts_[value] = from_pairs(pairs, value);
}

Value ComplexLowering::pairs(const ir::Value* value) {
  const Complex z = parts(value);
  return g_.concat({g_.unsqueeze(z.re, {-1}), g_.unsqueeze(z.im, {-1})}, -1);
}

Complex ComplexLowering::parts(const ir::Value* value) const {
  const auto found = parts_.find(value);
  return found == parts_.end() ? Complex{values_[value], {}} : found->second;
}

// Calls the mapping for real tensors with one part of each argument.
std::vector<Value> ComplexLowering::call(const ir::Node& node, const Symbolic& symbolic,
                                         const Selector& select) {
  ir::Node* shadow = shadows_.make_node(node.op);
  shadow->name = node.name;
  shadow->source = node.source;
  const std::span<const std::string_view> elements =
      base_name(node.op) == "aten::linspace" ? std::span<const std::string_view>(linspace_arguments)
                                             : element_arguments;
  PartOfValues values(values_);
  // A tensor may be passed twice, each time with another part, so each use gets a value of its own.
  auto part = [&](ir::Value* tensor, std::string_view argument, size_t index) -> ir::Value* {
    const bool is_unsplit = contains(unsplit_arguments, argument) && !contains(elements, argument);
    if (!tensor || (is_unsplit && !is_complex_value(tensor))) return tensor;
    const Part wanted = is_unsplit ? Part::is_nonzero : select(argument, index);  // a complex mask
    if (wanted == Part::none) return nullptr;
    const Complex given = parts(tensor);
    const auto is_nonzero = [&](Value x) { return g_.cast(x, ElementType::boolean); };
    Value value = given.re;
    if (wanted == Part::imaginary) {
      value = given.im ? given.im : filled(g_, given.re.dims(), 0, given.re.element_type());
    } else if (wanted == Part::size) {
      value = absolute(g_, given);
    } else if (wanted == Part::is_nonzero) {
      value = is_nonzero(given.re);
      if (given.im) value = g_.op("Or", value, is_nonzero(given.im));
    }
    ir::Value* stand_in = shadows_.add_value(tensor->name, value.type());
    values.set(stand_in, value);
    return stand_in;
  };
  for (const ir::Attribute& attribute : node.attributes) {
    ir::AttributeValue value = attribute.value;
    const bool imaginary = select(attribute.name, 0) == Part::imaginary;
    if (auto* tensor = std::get_if<ir::Value*>(&value)) {
      *tensor = part(*tensor, attribute.name, 0);
      if (*tensor == nullptr) value = std::monostate();
    } else if (auto* list = std::get_if<std::vector<ir::Value*>>(&value)) {
      for (size_t i = 0; i < list->size(); ++i) (*list)[i] = part((*list)[i], attribute.name, i);
    } else if (const auto* number = std::get_if<std::complex<double>>(&value)) {
      value = imaginary ? number->imag() : number->real();
    } else if (imaginary && contains(elements, attribute.name) &&
               (std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value) ||
                std::holds_alternative<bool>(value) || std::holds_alternative<Dim>(value))) {
      value = 0.0;
    }
    shadow->attributes.push_back({attribute.name, std::move(value)});
  }
  for (const ir::Value* output : node.outputs) {
    ir::TensorType type = output->tensor_type();
    type.element_type = part_type(type.element_type);
    shadows_.add_output_of(shadow, output->name, std::move(type));
  }
  const ir::Node* const outer = g_.call();  // not always `node`, which may exist for this call only
  BuilderStage(g_).set_call(shadow, symbolic.label.empty() ? symbolic.key : symbolic.label, true);
  std::vector<Value> results =
      symbolic.function(SymbolicCall{g_, bind(*symbolic.schema, *shadow), values, *shadow, bodies_});
  BuilderStage(g_).set_call(outer, node.op, true);
  return results;
}

std::vector<Value> ComplexLowering::call(const ir::Node& node, const Symbolic& symbolic, Part part) {
  return call(node, symbolic, [part](std::string_view, size_t) { return part; });
}

std::vector<Complex> ComplexLowering::lower_by_parts(const ir::Node& node, const Symbolic& symbolic) {
  const std::vector<Value> real = call(node, symbolic, Part::real);
  std::vector<Value> imaginary(real.size());
  if (std::ranges::any_of(node.outputs, is_complex_value)) imaginary = call(node, symbolic, Part::imaginary);
  std::vector<Complex> results;
  for (size_t i = 0; i < real.size(); ++i) results.push_back({real[i], imaginary[i]});
  return results;
}

// The variance is the sum of the variances of the parts. The mean may be a second result.
std::vector<Complex> ComplexLowering::lower_deviation(const ir::Node& node, const Symbolic& symbolic) {
  const std::vector<Value> real = call(node, symbolic, Part::real),
                           imaginary = call(node, symbolic, Part::imaginary);
  std::vector<Complex> results;
  if (base_name(node.op).starts_with("aten::std")) {
    auto square = [&](Value x) { return g_.op("Mul", x, x); };
    results.push_back({g_.op("Sqrt", g_.op("Add", square(real[0]), square(imaginary[0]))), {}});
  } else {
    results.push_back({g_.op("Add", real[0], imaginary[0]), {}});
  }
  if (real.size() > 1) results.push_back({real[1], imaginary[1]});
  return results;
}

// Calls the mapping with each complex tensor as pairs. The node keeps PyTorch's types, which is_in_pairs
// reads.
std::vector<Complex> ComplexLowering::call_in_pairs(const ir::Node& node, const Symbolic& symbolic) {
  PartOfValues values(values_);
  for (const ir::Attribute& attribute : node.attributes) {
    for_each_tensor(attribute.value, [&](const ir::Value* tensor) {
      if (is_complex_value(tensor)) values.set(tensor, pairs(tensor));
    });
  }
  BuilderStage(g_).set_call(&node, symbolic.label.empty() ? symbolic.key : symbolic.label, true);
  const std::vector<Value> made =
      symbolic.function(SymbolicCall{g_, bind(*symbolic.schema, node), values, node, bodies_});
  std::vector<Complex> results;
  for (size_t i = 0; i < made.size(); ++i) {
    const bool is_pairs = made[i] && i < node.outputs.size() && is_complex_value(node.outputs[i]);
    results.push_back(is_pairs ? from_pairs(made[i], node.outputs[i]) : Complex{made[i], {}});
  }
  return results;
}

void ComplexLowering::refuse_complex(const ir::Node& node, std::string_view argument) const {
  const ir::AttributeValue* value = node.find(argument);
  if (value == nullptr) return;
  for_each_tensor(*value, [&](const ir::Value* tensor) {
    if (is_complex_value(tensor)) g_.refuse(std::string(argument) + " is complex; pass its real part");
  });
}

std::vector<Complex> ComplexLowering::lower(const ir::Node& node, const Symbolic* symbolic) {
  const std::string op = base_name(node.op);
  BuilderStage(g_).set_call(&node, node.op, true);
  const ir::AttributeValue* rounding = node.find("rounding_mode");
  if (rounding && !std::holds_alternative<std::monostate>(*rounding))
    g_.refuse(std::string(unsupported_complex));
  const Call arguments(*this, g_, node);
  if (symbolic && multiplies_real_parts(op, node)) {
    const bool of_truths = node.outputs[0]->tensor_type().element_type == ElementType::boolean;
    return call_by_rule(node, *symbolic, of_truths ? ComplexRule::truth : ComplexRule::real_part);
  }
  if (const auto special = specials().find(op); special != specials().end())
    return {special->second.function(arguments)};
  if (ComplexFunction function = complex_function(op)) return {function(g_, arguments.full("self"))};
  const ir::AttributeValue* alpha = node.find("alpha");
  const bool complex_alpha = alpha && std::holds_alternative<std::complex<double>>(*alpha);
  if (complex_alpha && (op == "aten::add" || op == "aten::sub" || op == "aten::subtract")) {
    const Complex scaled = multiply(g_, arguments["alpha"], arguments["other"]);
    return {add(g_, arguments["self"], op == "aten::add" ? scaled : negative(g_, scaled))};
  }
  const ComplexRule rule = torch::traits_of(op).complex;
  if (!symbolic && rule == ComplexRule::pairs)
    g_.refuse("needs a higher opset; Fourier transforms are in ONNX since opset 17");
  if (!symbolic || symbolic->origin == Origin::user || !symbolic->schema)
    g_.refuse(std::string(unsupported_complex));
  if (rule == ComplexRule::pairs) return call_in_pairs(node, *symbolic);
  if (const Product* product = product_of(op)) return {lower_product(node, *symbolic, *product)};
  if (complex_alpha) g_.refuse("a complex alpha is not supported; multiply the operand by it instead");
  if (op == "aten::gradient") refuse_complex(node, "spacing");
  if (const ir::AttributeValue* reduce = node.find("reduce")) {
    const auto* reduction = std::get_if<std::string>(reduce);
    if (reduction && *reduction == "multiply")  // the parts of a product are not products of parts
      g_.refuse("scatter does not multiply complex numbers; gather, multiply and scatter them instead");
  }
  // Results are linear in the values of elements, not in other numbers, which may be factors of complex
  // tensors.
  for (const ir::Attribute& argument : node.attributes) {
    if (!std::holds_alternative<std::complex<double>>(argument.value)) continue;
    if (!contains(element_arguments, argument.name) && op != "aten::linspace")
      g_.refuse("a complex number as " + argument.name +
                " is not supported; multiply or divide the tensors by it instead");
  }
  return call_by_rule(node, *symbolic, rule);
}

std::vector<Complex> ComplexLowering::call_by_rule(const ir::Node& node, const Symbolic& symbolic,
                                                   ComplexRule rule) {
  const auto real_ones = [&](Part part) {
    std::vector<Complex> results;
    for (Value value : call(node, symbolic, part)) results.push_back({value, {}});
    return results;
  };
  switch (rule) {
    case ComplexRule::parts:
      return lower_by_parts(node, symbolic);
    case ComplexRule::conjugated_parts: {
      const Complex turned = lower_by_parts(node, symbolic).at(0);
      return {{turned.re, g_.op("Neg", turned.im)}};
    }
    case ComplexRule::pairs:
      return call_in_pairs(node, symbolic);
    case ComplexRule::truth:
      return real_ones(Part::is_nonzero);
    case ComplexRule::magnitude:
      return real_ones(Part::size);
    case ComplexRule::real_part:
      if (is_complex_value(node.outputs.at(0))) break;
      return real_ones(Part::real);
    case ComplexRule::real_result: {
      Value value = call(node, symbolic, Part::real)[0];
      return {{value, filled(g_, value.dims(), 0, value.element_type())}};
    }
    case ComplexRule::deviation:
      return lower_deviation(node, symbolic);
    case ComplexRule::none:
      break;
  }
  g_.refuse(std::string(unsupported_complex));
}

}  // namespace opbridge::lowering
