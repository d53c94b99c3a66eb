#include "functionalize/operators.h"

#include <unordered_map>

namespace opbridge::functionalization {
namespace {

using Table = std::unordered_map<std::string_view, MemoryRule>;

// An operator that is not here makes new memory, or is an in-place operator by its name (mutations.h). A name
// without overload stands for all overloads that have no line of their own.
const Table& table() {
  static const Table rules = {
      {"aten::positive", {Effect::same}},
      {"aten::detach_", {Effect::same}},
      {"aten::requires_grad_", {Effect::same}},
      {"aten::alias", {Effect::alias}},
      {"aten::detach", {Effect::alias}},
      {"aten::clone", {Effect::copy}},
      {"aten::lift_fresh", {Effect::copy}},  // what it is given is made anew at each run
      {"aten::lift_fresh_copy", {Effect::copy}},
      {"aten::alias_copy", {Effect::copy}},
      {"aten::detach_copy", {Effect::copy}},
      {"aten::contiguous", {Effect::contiguous}},
      {"aten::to", {Effect::convert}},
      {"aten::_to_copy", {Effect::convert}},
      {"aten::type_as", {Effect::convert}},
      {"aten::cpu", {Effect::convert}},
      {"aten::cuda", {Effect::convert}},
      {"aten::pin_memory", {Effect::convert}},
      {"aten::_autocast_to_full_precision", {Effect::convert}},
      {"aten::_autocast_to_reduced_precision", {Effect::convert}},
      {"aten::dropout", {Effect::dropout}},
      {"aten::dropout_", {Effect::dropout}},
      {"aten::feature_dropout", {Effect::dropout}},
      {"aten::feature_dropout_", {Effect::dropout}},
      {"aten::alpha_dropout", {Effect::dropout}},
      {"aten::alpha_dropout_", {Effect::dropout}},
      {"aten::feature_alpha_dropout", {Effect::dropout}},
      {"aten::feature_alpha_dropout_", {Effect::dropout}},

      {"aten::view", {Effect::view, ViewKind::reshape}},
      {"aten::view_as", {Effect::view, ViewKind::reshape}},
      {"aten::_unsafe_view", {Effect::view, ViewKind::reshape}},
      {"aten::_reshape_alias", {Effect::view, ViewKind::reshape}},
      {"aten::unflatten", {Effect::view, ViewKind::reshape}},
      {"aten::squeeze", {Effect::view, ViewKind::reshape}},
      {"aten::unsqueeze", {Effect::view, ViewKind::reshape}},
      {"aten::reshape", {Effect::view_or_copy, ViewKind::reshape}},
      {"aten::reshape_as", {Effect::view_or_copy, ViewKind::reshape}},
      {"aten::flatten", {Effect::view_or_copy, ViewKind::reshape}},
      {"aten::ravel", {Effect::view_or_copy, ViewKind::reshape}},
      {"aten::permute", {Effect::view, ViewKind::permute}},
      {"aten::transpose", {Effect::view, ViewKind::permute}},
      {"aten::t", {Effect::view, ViewKind::permute}},
      {"aten::numpy_T", {Effect::view, ViewKind::permute}},
      {"aten::mT", {Effect::view, ViewKind::permute}},
      {"aten::movedim", {Effect::view, ViewKind::permute}},
      {"aten::moveaxis", {Effect::view, ViewKind::permute}},
      {"aten::swapaxes", {Effect::view, ViewKind::permute}},
      {"aten::swapdims", {Effect::view, ViewKind::permute}},
      {"aten::adjoint", {Effect::view, ViewKind::adjoint}},
      {"aten::mH", {Effect::view, ViewKind::adjoint}},
      {"aten::matrix_H", {Effect::view, ViewKind::adjoint}},
      {"aten::select", {Effect::view, ViewKind::select}},
      {"aten::slice", {Effect::view, ViewKind::slice}},
      {"aten::narrow", {Effect::view, ViewKind::narrow}},
      {"aten::diagonal", {Effect::view, ViewKind::diagonal}},
      {"aten::linalg_diagonal", {Effect::view, ViewKind::diagonal}},
      {"aten::split", {Effect::view, ViewKind::split}},
      {"aten::split_with_sizes", {Effect::view, ViewKind::split}},
      {"aten::unsafe_split", {Effect::view, ViewKind::split}},
      {"aten::unsafe_split_with_sizes", {Effect::view, ViewKind::split}},
      {"aten::chunk", {Effect::view, ViewKind::split}},
      {"aten::unsafe_chunk", {Effect::view, ViewKind::split}},
      {"aten::tensor_split", {Effect::view, ViewKind::split}},
      {"aten::hsplit", {Effect::view, ViewKind::split}},
      {"aten::vsplit", {Effect::view, ViewKind::split}},
      {"aten::dsplit", {Effect::view, ViewKind::split}},
      {"aten::unbind", {Effect::view, ViewKind::unbind}},
      {"aten::expand", {Effect::view, ViewKind::expand}},
      {"aten::expand_as", {Effect::view, ViewKind::expand}},
      {"aten::broadcast_to", {Effect::view, ViewKind::expand}},
      {"aten::unfold", {Effect::view, ViewKind::overlapping}},
      {"aten::as_strided", {Effect::view, ViewKind::strided}},
      {"aten::as_strided_copy", {Effect::view, ViewKind::strided}},
      {"aten::as_strided_scatter", {Effect::view, ViewKind::strided}},
      {"aten::view.dtype", {Effect::view, ViewKind::bits}},
      {"aten::view_as_real", {Effect::view, ViewKind::real_pairs}},
      {"aten::view_as_complex", {Effect::view, ViewKind::complex_numbers}},
      {"aten::_neg_view", {Effect::view, ViewKind::negative}},
      {"aten::imag", {Effect::view, ViewKind::imaginary_part}},
      {"aten::real", {Effect::complex_view, ViewKind::real_part}},
      {"aten::conj", {Effect::complex_view, ViewKind::conjugate}},
      {"aten::_conj", {Effect::complex_view, ViewKind::conjugate}},
      {"aten::conj_physical", {Effect::complex_view}},

      {"aten::resolve_conj", {Effect::unclear}},
      {"aten::resolve_neg", {Effect::unclear}},
      {"aten::atleast_1d", {Effect::unclear}},
      {"aten::atleast_2d", {Effect::unclear}},
      {"aten::atleast_3d", {Effect::unclear}},
      {"aten::broadcast_tensors", {Effect::unclear}},
      {"aten::meshgrid", {Effect::unclear}},
      {"aten::cartesian_prod", {Effect::unclear_alone}},
      {"aten::chain_matmul", {Effect::unclear_alone}},
      {"aten::channel_shuffle", {Effect::unclear}},
      {"aten::einsum", {Effect::unclear_alone}},
      {"aten::sum_to_size", {Effect::unclear}},

      {"aten::sym_size", {Effect::reads_sizes}},
      {"aten::size", {Effect::reads_sizes}},
      {"aten::sym_numel", {Effect::reads_sizes}},
      {"aten::numel", {Effect::reads_sizes}},
      {"aten::dim", {Effect::reads_sizes}},
      {"aten::empty_like", {Effect::reads_sizes}},
      {"aten::zeros_like", {Effect::reads_sizes}},
      {"aten::ones_like", {Effect::reads_sizes}},
      {"aten::full_like", {Effect::reads_sizes}},
      {"aten::rand_like", {Effect::reads_sizes}},
      {"aten::randn_like", {Effect::reads_sizes}},
      {"aten::new_empty", {Effect::reads_sizes}},
      {"aten::new_zeros", {Effect::reads_sizes}},
      {"aten::new_ones", {Effect::reads_sizes}},
      {"aten::new_full", {Effect::reads_sizes}},
      {"aten::_assert_tensor_metadata", {Effect::reads_sizes}},

      {"aten::squeeze_", {Effect::rearrange, ViewKind::reshape}},
      {"aten::unsqueeze_", {Effect::rearrange, ViewKind::reshape}},
      {"aten::t_", {Effect::rearrange, ViewKind::permute}},
      {"aten::transpose_", {Effect::rearrange, ViewKind::permute}},
      {"aten::swapaxes_", {Effect::rearrange, ViewKind::permute}},
      {"aten::swapdims_", {Effect::rearrange, ViewKind::permute}},

      {"aten::set_.source_Tensor", {Effect::reassign}},
      {"aten::set_data", {Effect::reassign}},
      // All that torch.export writes of `tensor.data = other`, which checks this first.
      {"aten::_has_compatible_shallow_copy_type", {Effect::reassign}},

      {"aten::as_strided_", {Effect::refused}},
      {"aten::resize_", {Effect::refused}},
      {"aten::resize_as_", {Effect::refused}},
      {"aten::_resize_output_", {Effect::refused}},
      {"aten::set_", {Effect::refused}},
      {"aten::shallow_copy_data_", {Effect::refused}},

      {"aten::_fused_moving_avg_obs_fq_helper", {Effect::observes}},
      {"aten::fused_moving_avg_obs_fake_quant", {Effect::observes}},
  };
  return rules;
}

}  // namespace

std::string_view without_overload(std::string_view op) {
  const size_t name = op.rfind("::");
  return op.substr(0, op.find('.', name == std::string_view::npos ? 0 : name));
}

MemoryRule memory_rule(std::string_view op) {
  const Table& rules = table();
  auto rule = rules.find(op);
  if (rule == rules.end()) rule = rules.find(without_overload(op));
  return rule == rules.end() ? MemoryRule{} : rule->second;
}

}  // namespace opbridge::functionalization
