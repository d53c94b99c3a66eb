// ONNX Runtime computes these single nodes wrongly. A function replaces each by other nodes, as a mapping
// does. Each fault has its own file, which begins with the versions, the fault, the rewrite and the tests.
// Nodes of a user's own mappings stay as they are written.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "opbridge/symbolic.h"

namespace opbridge::onnxruntime {

// Makes nodes for the results of `node`. Nothing if the runtime computes the node correctly.
using Replacement = std::vector<Value> (*)(GraphBuilder& g, const ir::Node& node);

// Adds the attributes of `node`, except those with these names.
void add_attributes(std::vector<Operand>& operands, const ir::Node& node,
                    std::initializer_list<std::string_view> except = {});

std::vector<Value> float64_recurrent_layer(GraphBuilder& g, const ir::Node& layer);
std::vector<Value> pool_with_indices_in_float32(GraphBuilder& g, const ir::Node& pool);
std::vector<Value> random_numbers(GraphBuilder& g, const ir::Node& node);
std::vector<Value> recurrent_layer_of_any_size(GraphBuilder& g, const ir::Node& layer);
std::vector<Value> recurrent_layer_without_state(GraphBuilder& g, const ir::Node& layer);
std::vector<Value> scan_along_first_axis(GraphBuilder& g, const ir::Node& scan);

// For nodes with one result. An empty Value if the runtime computes the node correctly.

Value attention_of_bfloat16(GraphBuilder& g, const ir::Node& attention);
Value division_by_no_number(GraphBuilder& g, const ir::Node& division);
Value dequantized_by_arithmetic(GraphBuilder& g, const ir::Node& dequantize);
Value dequantized_after_movement(GraphBuilder& g, const ir::Node& movement);
Value expansion_to_nothing(GraphBuilder& g, const ir::Node& expansion);
Value float64_convolution(GraphBuilder& g, const ir::Node& convolution);
Value float64_mean_of_image(GraphBuilder& g, const ir::Node& pool);
Value float64_mean_of_windows(GraphBuilder& g, const ir::Node& pool);
Value sample_near_image(GraphBuilder& g, const ir::Node& sampling);
Value clip_by_max_and_min(GraphBuilder& g, const ir::Node& clip);
Value quantized_by_arithmetic(GraphBuilder& g, const ir::Node& quantize);
Value own_roi_align(GraphBuilder& g, const ir::Node& align);
Value range_from_zero(GraphBuilder& g, const ir::Node& range);
Value normalized_by_number(GraphBuilder& g, const ir::Node& product);
Value square_not_to_fuse(GraphBuilder& g, const ir::Node& power);
Value transposed_convolution(GraphBuilder& g, const ir::Node& convolution);
Value log_softmax_of_float64(GraphBuilder& g, const ir::Node& log_softmax);
Value log_of_sum_in_parts(GraphBuilder& g, const ir::Node& reduction);
Value einsum_of_adjacent_letters(GraphBuilder& g, const ir::Node& einsum);
Value exact_einsum_of_integers(GraphBuilder& g, const ir::Node& einsum);
Value exact_product_of_integers(GraphBuilder& g, const ir::Node& reduction);
Value exact_remainder_of_integers(GraphBuilder& g, const ir::Node& remainder);
Value exact_sum_of_integers(GraphBuilder& g, const ir::Node& reduction);
Value long_reduction_in_float64(GraphBuilder& g, const ir::Node& reduction);
Value product_by_column(GraphBuilder& g, const ir::Node& product);
Value product_of_scaled(GraphBuilder& g, const ir::Node& product);
Value scaled_product(GraphBuilder& g, const ir::Node& scaling);
Value scattered_by_one_thread(GraphBuilder& g, const ir::Node& scatter);

}  // namespace opbridge::onnxruntime
