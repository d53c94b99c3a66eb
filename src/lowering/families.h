// Registers the bundled mappings: one function and one file for each family of operators.
#pragma once

#include "opbridge/registry.h"

namespace opbridge::lowering {

void register_activation(SymbolicRegistry& registry);
void register_activation_gradients(SymbolicRegistry& registry);
void register_adaptive_pooling(SymbolicRegistry& registry);
void register_affine_quantization(SymbolicRegistry& registry);
void register_arithmetic(SymbolicRegistry& registry);
void register_attention(SymbolicRegistry& registry);
void register_bit_views(SymbolicRegistry& registry);
void register_bitwise(SymbolicRegistry& registry);
void register_calculus(SymbolicRegistry& registry);
void register_cast(SymbolicRegistry& registry);
void register_comparison(SymbolicRegistry& registry);
void register_control_flow(SymbolicRegistry& registry);
void register_convolution(SymbolicRegistry& registry);
void register_convolution_gradients(SymbolicRegistry& registry);
void register_creation(SymbolicRegistry& registry);
void register_ctc_loss(SymbolicRegistry& registry);
void register_cumulative(SymbolicRegistry& registry);
void register_diagonal(SymbolicRegistry& registry);
void register_distance(SymbolicRegistry& registry);
void register_distance_gradients(SymbolicRegistry& registry);
void register_dynamic_quantization(SymbolicRegistry& registry);
void register_einsum(SymbolicRegistry& registry);
void register_embedding_bag(SymbolicRegistry& registry);
void register_factorization(SymbolicRegistry& registry);
void register_fft(SymbolicRegistry& registry);
void register_flipping(SymbolicRegistry& registry);
void register_fractional_pooling(SymbolicRegistry& registry);
void register_grouped(SymbolicRegistry& registry);
void register_im2col(SymbolicRegistry& registry);
void register_indexing(SymbolicRegistry& registry);
void register_indexing_gradients(SymbolicRegistry& registry);
void register_indexing_write(SymbolicRegistry& registry);
void register_linalg(SymbolicRegistry& registry);
void register_linear(SymbolicRegistry& registry);
void register_loss(SymbolicRegistry& registry);
void register_loss_gradients(SymbolicRegistry& registry);
void register_matrix_functions(SymbolicRegistry& registry);
void register_normalization(SymbolicRegistry& registry);
void register_normalization_gradients(SymbolicRegistry& registry);
void register_optimizers(SymbolicRegistry& registry);
void register_pooling(SymbolicRegistry& registry);
void register_pooling_gradients(SymbolicRegistry& registry);
void register_quantization(SymbolicRegistry& registry);
void register_random(SymbolicRegistry& registry);
void register_recurrent(SymbolicRegistry& registry);
void register_reduction(SymbolicRegistry& registry);
void register_repetition(SymbolicRegistry& registry);
void register_resize(SymbolicRegistry& registry);
void register_sampling(SymbolicRegistry& registry);
void register_sampling_gradients(SymbolicRegistry& registry);
void register_searching(SymbolicRegistry& registry);
void register_segment_gradients(SymbolicRegistry& registry);
void register_shape(SymbolicRegistry& registry);
void register_shuffling(SymbolicRegistry& registry);
void register_sobol(SymbolicRegistry& registry);
void register_sorting(SymbolicRegistry& registry);
void register_special(SymbolicRegistry& registry);
void register_stacking(SymbolicRegistry& registry);
void register_statistics(SymbolicRegistry& registry);
void register_symbolic_scalars(SymbolicRegistry& registry);
void register_transformer(SymbolicRegistry& registry);
void register_unary(SymbolicRegistry& registry);
void register_unique(SymbolicRegistry& registry);
void register_views(SymbolicRegistry& registry);
void register_vision(SymbolicRegistry& registry);
void register_window_functions(SymbolicRegistry& registry);

}  // namespace opbridge::lowering
