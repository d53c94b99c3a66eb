#include "lowering/families.h"

namespace opbridge {

SymbolicRegistry SymbolicRegistry::with_bundled() {
  SymbolicRegistry registry;
  lowering::register_activation(registry);
  lowering::register_activation_gradients(registry);
  lowering::register_adaptive_pooling(registry);
  lowering::register_affine_quantization(registry);
  lowering::register_arithmetic(registry);
  lowering::register_attention(registry);
  lowering::register_bit_views(registry);
  lowering::register_bitwise(registry);
  lowering::register_calculus(registry);
  lowering::register_cast(registry);
  lowering::register_comparison(registry);
  lowering::register_control_flow(registry);
  lowering::register_convolution(registry);
  lowering::register_convolution_gradients(registry);
  lowering::register_creation(registry);
  lowering::register_ctc_loss(registry);
  lowering::register_cumulative(registry);
  lowering::register_diagonal(registry);
  lowering::register_distance(registry);
  lowering::register_distance_gradients(registry);
  lowering::register_dynamic_quantization(registry);
  lowering::register_einsum(registry);
  lowering::register_embedding_bag(registry);
  lowering::register_factorization(registry);
  lowering::register_fft(registry);
  lowering::register_flipping(registry);
  lowering::register_fractional_pooling(registry);
  lowering::register_grouped(registry);
  lowering::register_im2col(registry);
  lowering::register_indexing(registry);
  lowering::register_indexing_gradients(registry);
  lowering::register_indexing_write(registry);
  lowering::register_linalg(registry);
  lowering::register_linear(registry);
  lowering::register_loss(registry);
  lowering::register_loss_gradients(registry);
  lowering::register_matrix_functions(registry);
  lowering::register_normalization(registry);
  lowering::register_normalization_gradients(registry);
  lowering::register_optimizers(registry);
  lowering::register_pooling(registry);
  lowering::register_pooling_gradients(registry);
  lowering::register_quantization(registry);
  lowering::register_random(registry);
  lowering::register_recurrent(registry);
  lowering::register_reduction(registry);
  lowering::register_repetition(registry);
  lowering::register_resize(registry);
  lowering::register_sampling(registry);
  lowering::register_sampling_gradients(registry);
  lowering::register_searching(registry);
  lowering::register_segment_gradients(registry);
  lowering::register_shape(registry);
  lowering::register_shuffling(registry);
  lowering::register_sobol(registry);
  lowering::register_sorting(registry);
  lowering::register_special(registry);
  lowering::register_stacking(registry);
  lowering::register_statistics(registry);
  lowering::register_symbolic_scalars(registry);
  lowering::register_transformer(registry);
  lowering::register_unary(registry);
  lowering::register_unique(registry);
  lowering::register_views(registry);
  lowering::register_vision(registry);
  lowering::register_window_functions(registry);
  return registry;
}

}  // namespace opbridge
