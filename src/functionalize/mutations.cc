#include "functionalize/mutations.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "functionalize/arguments.h"
#include "opbridge/symbolic.h"
#include "torch/traits.h"

namespace opbridge::functionalization {
namespace {

using torch::Result;
using torch::without_overload;

// `add_.Tensor` computes what `add.Tensor` does; here are the in-place operators of which that does not hold.
const std::unordered_map<std::string_view, Mutation>& in_place_exceptions() {
  static const std::unordered_map<std::string_view, Mutation> table = {
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

// `abs.out` computes what `abs` does, `ne.Tensor_out` what `ne.Tensor` does, and both write to `out`; here
// are the variants of which that does not hold.
const std::unordered_map<std::string_view, Mutation>& out_exceptions() {
  const auto named = [](std::string pure, std::vector<std::string> targets = {"out"}) {
    return Mutation{Write::computed, std::move(pure), std::move(targets)};
  };
  static const std::unordered_map<std::string_view, Mutation> table = {
      {"aten::add.out", named("aten::add.Tensor")},
      {"aten::all.all_out", named("aten::all")},
      {"aten::all.out", named("aten::all.dim")},
      {"aten::any.all_out", named("aten::any")},
      {"aten::any.out", named("aten::any.dim")},
      {"aten::arange.start_out", named("aten::arange.start_step")},
      {"aten::copysign.out", named("aten::copysign.Tensor")},
      {"aten::div.out", named("aten::div.Tensor")},
      {"aten::div.out_mode", named("aten::div.Tensor_mode")},
      {"aten::divide.out", named("aten::divide.Tensor")},
      {"aten::divide.out_mode", named("aten::divide.Tensor_mode")},
      {"aten::frobenius_norm.out", named("aten::frobenius_norm.dim")},
      {"aten::kthvalue.values", named("aten::kthvalue", {"values", "indices"})},
      {"aten::ldexp.out", named("aten::ldexp.Tensor")},
      {"aten::linalg_cholesky_ex.L", named("aten::linalg_cholesky_ex", {"L", "info"})},
      {"aten::linalg_eigh.eigvals", named("aten::linalg_eigh", {"eigvals", "eigvecs"})},
      {"aten::linalg_inv_ex.inverse", named("aten::linalg_inv_ex", {"inverse", "info"})},
      {"aten::linalg_slogdet.out", named("aten::linalg_slogdet", {"sign", "logabsdet"})},
      {"aten::linalg_svd.U", named("aten::linalg_svd", {"U", "S", "Vh"})},
      {"aten::max.dim_max", named("aten::max.dim", {"max", "max_values"})},
      {"aten::max.out", named("aten::max.other")},
      {"aten::max.unary_out", named("aten::max")},
      {"aten::mean.dtype_out", named("aten::mean")},
      {"aten::mean.out", named("aten::mean.dim")},
      {"aten::median.dim_values", named("aten::median.dim", {"values", "indices"})},
      {"aten::min.dim_min", named("aten::min.dim", {"min", "min_indices"})},
      {"aten::min.out", named("aten::min.other")},
      {"aten::min.unary_out", named("aten::min")},
      {"aten::mode.values", named("aten::mode", {"values", "indices"})},
      {"aten::mul.out", named("aten::mul.Tensor")},
      {"aten::multiply.out", named("aten::multiply.Tensor")},
      {"aten::nanmedian.dim_values", named("aten::nanmedian.dim", {"values", "indices"})},
      {"aten::norm.dtype_out", named("aten::norm.ScalarOpt_dim_dtype")},
      {"aten::norm.out", named("aten::norm.ScalarOpt_dim")},
      {"aten::prod.int_out", named("aten::prod.dim_int")},
      {"aten::sort.values", named("aten::sort", {"values", "indices"})},
      {"aten::sort.values_stable", named("aten::sort.stable", {"values", "indices"})},
      {"aten::std.out", named("aten::std.dim")},
      {"aten::sub.out", named("aten::sub.Tensor")},
      {"aten::subtract.out", named("aten::subtract.Tensor")},
      {"aten::sum.IntList_out", named("aten::sum.dim_IntList")},
      {"aten::topk.values", named("aten::topk", {"values", "indices"})},
      {"aten::triangular_solve.X", named("aten::triangular_solve", {"X", "M"})},
      {"aten::true_divide.out", named("aten::true_divide.Tensor")},
      {"aten::var.out", named("aten::var.dim")},
      {"aten::xlogy.OutScalar_Other", named("aten::xlogy.Scalar_Other")},
      {"aten::xlogy.OutScalar_Self", named("aten::xlogy.Scalar_Self")},
      {"aten::xlogy.OutTensor", named("aten::xlogy.Tensor")},
  };
  return table;
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
  const auto exception = out_exceptions().find(node.op);
  if (exception != out_exceptions().end()) return exception->second;
  if (!is_tensor(given(node, "out"))) return std::nullopt;
  const std::string name(without_overload(node.op));
  const std::string_view overload = overload_of(node.op);
  Mutation mutation{Write::computed, name, {"out"}};
  if (overload.ends_with("_out")) mutation.pure += "." + std::string(overload.substr(0, overload.size() - 4));
  return mutation;
}

std::optional<PromotionOperand> operand(const ir::Attribute& argument) {
  using Category = PromotionOperand::Category;
  if (argument.name == "alpha" || argument.name == "value")
    return std::nullopt;  // they scale, and do not promote
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
  if (!name.ends_with('_')) return is_aten ? out_variant_of(node) : std::nullopt;
  if (is_aten) {
    const auto& exceptions = in_place_exceptions();
    auto exception = exceptions.find(op);
    if (exception == exceptions.end()) exception = exceptions.find(name);
    if (exception != exceptions.end()) return exception->second;
  }
  if (name.ends_with("__")) return std::nullopt;
  // A custom operator has no pure twin that is known; it stays, and its result is what it writes.
  if (!is_aten) return Mutation{Write::computed, node.op};
  const std::string_view pure = name.substr(0, name.size() - 1);
  return Mutation{Write::computed, std::string(pure) + std::string(op.substr(name.size()))};
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
