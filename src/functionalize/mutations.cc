#include "functionalize/mutations.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "functionalize/arguments.h"
#include "opbridge/symbolic.h"
#include "torch/out_variants.h"
#include "torch/traits.h"

namespace opbridge::functionalization {
namespace {

using torch::Result;
using torch::without_overload;

// As a rule, `add_.Tensor` computes the same as `add.Tensor`. These are the in-place operators that break the
// rule.
const std::unordered_map<std::string_view, Mutation>& in_place_exceptions() {
  static const std::unordered_map<std::string_view, Mutation> table = {
      {"aten::_cummax_helper", {Write::computed, "aten::cummax", {"values", "indices"}}},
      {"aten::_cummin_helper", {Write::computed, "aten::cummin", {"values", "indices"}}},
      {"aten::copy_", {Write::copied}},
      {"aten::fill_.Scalar", {Write::filled}},
      {"aten::fill_.Tensor", {Write::copied}},
      {"aten::zero_", {Write::filled}},
      {"aten::fill_diagonal_", {Write::diagonal}},
      {"aten::__iand__.Scalar", {Write::computed, "aten::__and__.Scalar"}},
      {"aten::__iand__.Tensor", {Write::computed, "aten::__and__.Tensor"}},
      {"aten::__ior__.Scalar", {Write::computed, "aten::__or__.Scalar"}},
      {"aten::__ior__.Tensor", {Write::computed, "aten::__or__.Tensor"}},
      {"aten::__ixor__.Scalar", {Write::computed, "aten::__xor__.Scalar"}},
      {"aten::__ixor__.Tensor", {Write::computed, "aten::__xor__.Tensor"}},
      {"aten::__ilshift__.Scalar", {Write::computed, "aten::__lshift__.Scalar"}},
      {"aten::__ilshift__.Tensor", {Write::computed, "aten::__lshift__.Tensor"}},
      {"aten::__irshift__.Scalar", {Write::computed, "aten::__rshift__.Scalar"}},
      {"aten::__irshift__.Tensor", {Write::computed, "aten::__rshift__.Tensor"}},
      {"aten::bernoulli_.float", {Write::computed, "aten::bernoulli.p"}},
      {"aten::float_power_.Scalar", {Write::computed, "aten::float_power.Tensor_Scalar"}},
      {"aten::float_power_.Tensor", {Write::computed, "aten::float_power.Tensor_Tensor"}},
      {"aten::floor_divide_.Tensor", {Write::computed, "aten::floor_divide"}},
      {"aten::ldexp_", {Write::computed, "aten::ldexp.Tensor"}},
      {"aten::normal_", {Write::computed, "aten::normal_functional"}},
      {"aten::pow_.Scalar", {Write::computed, "aten::pow.Tensor_Scalar"}},
      {"aten::pow_.Tensor", {Write::computed, "aten::pow.Tensor_Tensor"}},
  };
  return table;
}

// In-place operators that write to several tensors or to lists of them. The underscore is all that their pure
// forms lack.
const std::vector<Written>* written_by(std::string_view name) {
  static const Written gradients{"grads", "grad_scale"};
  static const std::vector<Written> adam = {
      {"self"}, gradients, {"exp_avgs"}, {"exp_avg_sqs"}, {"max_exp_avg_sqs"}};
  static const std::unordered_map<std::string_view, std::vector<Written>> table = {
      {"aten::_fused_adam_", adam},
      {"aten::_fused_adamw_", adam},
      {"aten::_fused_sgd_", {{"self"}, gradients, {"momentum_buffer_list"}}},
      {"aten::_fused_adagrad_", {{"self"}, gradients, {"state_sums"}}},
      {"aten::_amp_foreach_non_finite_check_and_unscale_", {{"self"}, {"found_inf"}}},
      {"aten::_amp_update_scale_", {{"self"}, {"growth_tracker"}}},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

std::string_view overload_of(std::string_view op) {
  const size_t name = without_overload(op).size();
  return name == op.size() ? std::string_view() : op.substr(name + 1);
}

bool is_tensor(const ir::AttributeValue* value) {
  return value != nullptr && std::holds_alternative<ir::Value*>(*value);
}

std::optional<Mutation> out_variant_of(const ir::Node& node) {
  if (overload_of(node.op).empty()) return std::nullopt;
  if (const torch::OutVariant* variant = torch::irregular_out_variant(node.op)) {
    Mutation mutation{Write::computed, std::string(variant->pure)};
    for (const std::string_view out : variant->outs) {
      if (!out.empty()) mutation.outs.emplace_back(out);
    }
    return mutation;
  }
  const std::string name(without_overload(node.op));
  const std::string_view overload = overload_of(node.op);
  if ((overload == "grad_input" || overload == "out") && is_tensor(given(node, "grad_input")))
    return Mutation{Write::computed, name, {"grad_input"}};
  if (!is_tensor(given(node, "out"))) return std::nullopt;
  Mutation mutation{Write::computed, name, {"out"}};
  if (overload.ends_with("_out")) mutation.pure += "." + std::string(overload.substr(0, overload.size() - 4));
  return mutation;
}

std::optional<PromotionOperand> operand(const ir::Attribute& argument) {
  using Category = PromotionOperand::Category;
  if (argument.name == "alpha" || argument.name == "value")
    return std::nullopt;  // factors do not take part in promotion
  if (std::holds_alternative<bool>(argument.value))
    return PromotionOperand{ElementType::boolean, Category::number};
  if (std::holds_alternative<int64_t>(argument.value) || std::holds_alternative<Dim>(argument.value)) {
    return PromotionOperand{ElementType::int64, Category::number};
  }
  if (std::holds_alternative<double>(argument.value)) {
    return PromotionOperand{ElementType::float64, Category::number};
  }
  if (std::holds_alternative<std::complex<double>>(argument.value)) {
    return PromotionOperand{ElementType::complex128, Category::number};
  }
  const auto* value = std::get_if<ir::Value*>(&argument.value);
  if (value == nullptr || *value == nullptr) return std::nullopt;
  if (const auto* scalar = std::get_if<ir::ScalarType>(&(*value)->type)) {
    return PromotionOperand{scalar->element_type, Category::number};
  }
  if (!std::holds_alternative<ir::TensorType>((*value)->type)) return std::nullopt;
  const ir::TensorType& type = (*value)->tensor_type();
  const bool zero_dim = type.ranked() && type.rank() == 0;
  return PromotionOperand{type.element_type, zero_dim ? Category::zero_dim_tensor : Category::tensor};
}

}  // namespace

bool updates_statistics(const ir::Node& node) {
  const std::string_view op = without_overload(node.op);
  if (op == "aten::_batch_norm_with_update") return true;
  if (!op.ends_with("_norm") && op != "aten::_native_batch_norm_legit") return false;
  static const std::unordered_map<std::string_view, std::string_view> switches = {
      {"aten::batch_norm", "training"},
      {"aten::cudnn_batch_norm", "training"},
      {"aten::native_batch_norm", "training"},
      {"aten::_native_batch_norm_legit", "training"},
      {"aten::instance_norm", "use_input_stats"}};
  const auto argument = switches.find(op);
  return argument != switches.end() && given(node, "running_mean") != nullptr &&
         given(node, "running_var") != nullptr && flag(node, argument->second, false);
}

std::optional<Mutation> mutation_of(const ir::Node& node) {
  const std::string_view op = node.op, name = without_overload(op);
  const bool is_aten = op.starts_with("aten::");
  if (is_aten) {
    const auto& exceptions = in_place_exceptions();
    auto exception = exceptions.find(op);
    if (exception == exceptions.end()) exception = exceptions.find(name);
    if (exception != exceptions.end()) return exception->second;
  }
  if (op.starts_with("_operator::")) return std::nullopt;  // Python's and_, or_, not_
  if (!name.ends_with('_') || name.ends_with("__")) return is_aten ? out_variant_of(node) : std::nullopt;
  // No pure form of a custom operator is known; the node stays, and its result is assumed to be what it
  // writes.
  if (!is_aten) return Mutation{Write::computed, node.op};
  const std::string_view pure = name.substr(0, name.size() - 1);
  Mutation mutation{Write::computed, std::string(pure) + std::string(op.substr(name.size()))};
  if (const std::vector<Written>* written = written_by(name)) mutation.written = *written;
  return mutation;
}

void adapt_arguments(ir::Node& node, ElementType written) {
  const std::string_view op = without_overload(node.op);
  if (torch::traits_of(node.op).kind == torch::Kind::factory) node.set("dtype", written);
  if (op == "aten::polygamma") {  // polygamma(int n, Tensor self)
    std::stable_partition(node.attributes.begin(), node.attributes.end(),
                          [](const ir::Attribute& a) { return a.name == "n"; });
  } else if (op.ends_with("dropout")) {  // dropout(Tensor input, float p, bool train)
    for (ir::Attribute& argument : node.attributes) {
      if (argument.name == "self") argument.name = "input";
    }
  } else if (node.op == "aten::bernoulli.p" && given(node, "p") == nullptr) {  // bernoulli_(…, float p=0.5)
    node.set("p", 0.5);
  }
}

ElementType computed_type(const ir::Node& node, ElementType written) {
  const Result result = torch::traits_of(node.op).result;
  switch (result) {
    case Result::other:
      return written;
    case Result::boolean:
      return ElementType::boolean;
    case Result::same: {
      const ir::Value* self = subject(node);
      const auto* type = self == nullptr ? nullptr : std::get_if<ir::TensorType>(&self->type);
      const bool known = type != nullptr && type->element_type != ElementType::undefined;
      return known ? type->element_type : written;
    }
    case Result::promoted:
    case Result::promoted_float:
      break;
  }
  std::vector<PromotionOperand> operands;
  for (const ir::Attribute& argument : node.attributes) {
    if (std::optional<PromotionOperand> each = operand(argument)) operands.push_back(*each);
  }
  const auto unknown = [](const PromotionOperand& o) { return o.element_type == ElementType::undefined; };
  if (operands.empty() || std::ranges::any_of(operands, unknown)) return written;
  const ElementType type = promote(operands);
  const bool is_float = result == Result::promoted_float && given(node, "rounding_mode") == nullptr;
  return is_float && (is_integral(type) || type == ElementType::boolean) ? ElementType::float32 : type;
}

}  // namespace opbridge::functionalization
