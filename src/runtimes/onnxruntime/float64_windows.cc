// Versions: all that were tried, 1.20 and 1.32.
// Model: Conv, ConvTranspose, AveragePool or GlobalAveragePool of float64.
// Fault: there are no kernels; the model does not load.
// Rewrite: a product of the gathered windows; their sum, divided by the number of elements that count; a
// ReduceMean.
// Tests: test_runtime_faults.py, test_lowering_convolution.py, test_lowering_pooling_windows.py.
#include <functional>
#include <numeric>

#include "ir/attribute_or.h"
#include "lowering/nn/convolution.h"
#include "lowering/nn/pooling.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {
namespace {

using Ints = std::vector<int64_t>;

bool is_float64(const ir::Node& node) { return Value(node.inputs[0]).element_type() == ElementType::float64; }

int64_t product(const Ints& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

Value float64_convolution(GraphBuilder& g, const ir::Node& node) {
  if (!is_float64(node)) return {};
  const Value x(node.inputs[0]), weight(node.inputs[1]);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2];
  const auto axes = static_cast<size_t>(weight.rank() - 2);
  const auto ints = [&](const char* name, size_t count, int64_t otherwise) {
    return ir::attribute_or(node, name, Ints(count, otherwise));
  };
  const lowering::Convolution convolution{
      ints("strides", axes, 1),   {},
      ints("dilations", axes, 1), ir::attribute_or<int64_t>(node, "group", 1),
      node.op == "ConvTranspose", ints("output_padding", axes, 0)};
  return lowering::convolution_by_products(g, x, weight,
                                           has_bias ? std::optional<Value>(node.inputs[2]) : std::nullopt,
                                           convolution, ints("pads", 2 * axes, 0));
}

Value float64_mean_of_windows(GraphBuilder& g, const ir::Node& pool) {
  if (!is_float64(pool)) return {};
  const Value x(pool.inputs[0]);
  const Ints kernel = ir::attribute_or(pool, "kernel_shape", Ints());
  const size_t axes = kernel.size();
  const Ints pads = ir::attribute_or(pool, "pads", Ints(2 * axes, 0));
  const lowering::Window window{kernel, ir::attribute_or(pool, "strides", Ints(axes, 1)),
                                Ints(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes)),
                                Ints(axes, 1)};
  std::vector<Dim> sizes, counts;
  for (size_t i = 0; i < axes; ++i) {
    const Dim& size = x.dim(static_cast<int64_t>(i) + 2);
    const bool stays = kernel[i] == 1 && window.stride[i] == 1 && pads[i] == 0 && pads[axes + i] == 0;
    sizes.push_back(stays ? Dim(1) : size);
    const Dim reach = size + Dim(pads[i] + pads[axes + i] - kernel[i]);
    counts.push_back(stays ? Dim(1) : floor_div(reach, Dim(window.stride[i])) + Dim(1));
  }
  const bool count_pads = ir::attribute_or<int64_t>(pool, "count_include_pad", 0) != 0;
  Value divisors = count_pads ? g.scalar(product(kernel), ElementType::int64)
                              : lowering::pool_divisors(g, window, sizes, counts, false);
  return lowering::gathered_avg_pool(g, x, window, counts, divisors);
}

Value float64_mean_of_image(GraphBuilder& g, const ir::Node& pool) {
  if (!is_float64(pool)) return {};
  const Value x(pool.inputs[0]);
  std::vector<int64_t> axes(static_cast<size_t>(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return g.reduce("ReduceMean", x, axes, true);
}

}  // namespace opbridge::onnxruntime
