#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/image/resize_weights.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

using Mode = Interpolation::Mode;

// Removes the scales that ATen ignores.
void drop_ignored_scales(Image& image) {
  const bool always_small = image.is_small() == std::vector{true};
  for (Axis& axis : image.axes) {
    if (!axis.scale) continue;
    const bool same = axis.from == axis.to;
    const bool twice = axis.is_static() && axis.to.value() == 2 * axis.from.value();
    const bool ignored = (same && (image.how.copies_equal || *axis.scale == 1)) ||
                         (image.how.mode == Mode::nearest && always_small && (same || twice));
    // In older programs -1 stands for a missing scale.
    if (image.how.align_corners || ignored || !(*axis.scale > 0)) axis.scale.reset();
  }
}

// Resize takes float32 scales. Runtimes compute sizes and coordinates in float32, and divide by the scale
// where ATen multiplies by its reciprocal. For dynamic sizes, all sizes below this one are checked for
// agreement at export.
constexpr int64_t most_tried = 1 << 14;

double resized(int64_t from, float factor) { return std::floor(factor * static_cast<float>(from)); }

// The size that a runtime may infer when it loads the model; it does not round the product to float32.
double inferred_size(int64_t from, float factor) {
  return std::floor(static_cast<double>(factor) * static_cast<double>(from));
}

bool nearest_pixels_agree(GraphBuilder& g, const Image& image, const AxisSizes& axis, float factor) {
  const auto from = static_cast<int64_t>(axis.from.number()), to = static_cast<int64_t>(axis.to.number());
  for (const bool small : image.is_small()) {
    for (int64_t i = 0; i < to; ++i) {
      const auto pixel = static_cast<float>(i);
      const float source = image.how.mode == Mode::nearest ? std::floor(pixel / factor)
                                                           : std::round((pixel + 0.5F) / factor - 0.5F);
      const double taken = std::clamp<double>(source, 0, static_cast<double>(from - 1));
      if (taken != nearest_index(g, image.how, axis, small, static_cast<double>(i)).number()) return false;
    }
  }
  return true;
}

// The factor with which Resize computes the same as PyTorch along an axis; nothing if there is none.
std::optional<float> resize_factor(GraphBuilder& g, const Image& image, const Axis& axis) {
  if (axis.is_static()) {
    const double quotient = static_cast<double>(axis.to.value()) / static_cast<double>(axis.from.value());
    const auto factor = static_cast<float>(axis.scale.value_or(quotient));
    if (axis.from == axis.to) return axis.scale ? std::nullopt : std::optional(1.0F);  // Resize copies it
    const auto to = static_cast<double>(axis.to.value());
    if (resized(axis.from.value(), factor) != to || inferred_size(axis.from.value(), factor) != to)
      return std::nullopt;
    if (image.how.is_nearest() && !nearest_pixels_agree(g, image, sizes_of(g, axis), factor))
      return std::nullopt;
    return factor;
  }
  if (!axis.factor) return std::nullopt;
  const double factor = *axis.factor;
  const auto narrow = static_cast<float>(factor);
  const auto agrees = [&](int64_t size) {
    return resized(size, narrow) == std::floor(factor * static_cast<double>(size));
  };
  if (!std::ranges::all_of(std::views::iota(int64_t{1}, most_tried), agrees)) return std::nullopt;
  if (axis.scale) {
    // ATen and Resize differ where rounding keeps or doubles a size above 1 although the factor is greater.
    if ((factor > 1 && factor < 1.5) || (image.how.mode == Mode::nearest && factor > 2 && factor < 2.5))
      return std::nullopt;
    const Term many = static_cast<double>(most_tried);
    if (image.how.is_nearest() && !nearest_pixels_agree(g, image, {many, many, axis.scale}, narrow))
      return std::nullopt;
  }
  return narrow;
}

// The inputs of Resize after the image; nothing if Resize would not compute the same as PyTorch.
std::optional<std::vector<Operand>> resize_inputs(GraphBuilder& g, const Image& image) {
  Value nothing =
      g.opset() >= 13 ? Value() : g.constant(ir::Weight::of<float>(std::span<const float>(), {0}));
  const auto without_scale = [&](const Axis& axis) {
    if (axis.scale) return false;
    if (axis.stays() || !image.how.is_nearest()) return true;
    return axis.is_static() && resize_factor(g, image, axis).has_value();
  };
  const bool by_factors = std::ranges::any_of(
      image.axes, [](const Axis& axis) { return axis.scale || (axis.factor && !axis.is_static()); });
  if (!by_factors) {
    if (!std::ranges::all_of(image.axes, without_scale)) return std::nullopt;
    std::vector<Dim> sizes{image.pixels.dim(0), image.pixels.dim(1)};
    for (const Axis& axis : image.axes) sizes.push_back(axis.to);
    return std::vector<Operand>{nothing, nothing, g.sizes(sizes)};
  }
  std::vector<float> factors{1, 1};
  for (const Axis& axis : image.axes) {
    const std::optional<float> factor = resize_factor(g, image, axis);
    if (!factor) return std::nullopt;
    factors.push_back(*factor);
  }
  const auto count = static_cast<int64_t>(factors.size());
  return std::vector<Operand>{nothing, g.constant(ir::Weight::of<float>(factors, {count}))};
}

Value resize_node(GraphBuilder& g, const Image& image, std::vector<Operand> inputs) {
  const auto& [mode, align_corners, antialias, in_float64, copies_equal] = image.how;
  inputs.insert(inputs.begin(), image.pixels);
  inputs.push_back(attr("mode", mode == Mode::linear ? "linear" : mode == Mode::cubic ? "cubic" : "nearest"));
  inputs.push_back(attr("coordinate_transformation_mode", align_corners           ? "align_corners"
                                                          : mode == Mode::nearest ? "asymmetric"
                                                                                  : "half_pixel"));
  if (mode == Mode::nearest) inputs.push_back(attr("nearest_mode", "floor"));
  if (mode == Mode::nearest_exact) inputs.push_back(attr("nearest_mode", "round_prefer_ceil"));
  if (mode == Mode::cubic) inputs.push_back(attr("cubic_coeff_a", antialias ? -0.5 : -0.75));
  if (antialias) {
    inputs.push_back(attr("antialias", 1));
    inputs.push_back(attr("exclude_outside", 1));
  }
  return g.op_list("Resize", 1, std::move(inputs)).front();
}

// Resizes with Gather and weighted sums, axis by axis.
Value resize_by_taps(GraphBuilder& g, const Image& image) {
  Value x = image.pixels;
  for (int64_t axis = 2; axis < x.rank(); ++axis) {
    const Axis& sizes = image.axes.at(axis - 2);
    if (sizes.stays()) continue;
    if (image.how.is_nearest()) {
      x = g.gather(x, nearest_indices(g, image, sizes), axis);
      continue;
    }
    Value sum;
    for (const Taps& taps : taps_along(g, image, sizes)) {
      std::vector<int64_t> others(x.rank() - axis - 1);
      std::iota(others.begin(), others.end(), 1);
      Value weights = g.unsqueeze(g.cast(taps.weights, x.element_type()), others);
      Value part = g.op("Mul", g.gather(x, taps.indices, axis), weights);
      sum = sum ? g.op("Add", sum, part) : part;
    }
    if (!sum) g.refuse("the result has no elements");
    x = sum;
  }
  return x;
}

// Resizes with matrix products, first along columns, then along rows.
Value resize_by_matrices(GraphBuilder& g, const Image& image) {
  const ElementType type = image.pixels.element_type();
  const bool fixed_point = type == ElementType::uint8;
  const ElementType computed = fixed_point ? ElementType::float64 : opmath_type(type);
  Value x = g.cast(image.pixels, computed);
  for (const size_t i : {1, 0}) {
    const Axis& axis = image.axes[i];
    if (axis.stays()) continue;
    const Shares shares = shares_along(g, image, axis, fixed_point);
    Value matrix = g.cast(shares.matrix, computed);
    x = i == 0 ? g.op("MatMul", matrix, x) : g.op("MatMul", x, g.transpose(matrix, {1, 0}));
    if (!fixed_point) continue;
    const Term whole = floor((Term(g, x) + shares.one / 2) / shares.one);
    x = min(max(whole, 0), 255).value(g);
  }
  return g.cast(x, type);
}

using Scales = std::vector<std::optional<double>>;  // of the spatial axes

// There may be a table of weights for the sizes.
void check_sizes(GraphBuilder& g, const std::vector<Dim>& from, const std::vector<Dim>& to) {
  for (const std::vector<Dim>* dims : {&from, &to}) {
    for (const Dim& dim : *dims) {
      if (dim.is_static()) check_constant(g, dim.value());
    }
  }
}

// Resizes the spatial axes of (N, C, spatial…). `by_scales`: the sizes follow from the scales.
Value resize(GraphBuilder& g, Value input, const Scales& scales, bool by_scales, Interpolation how) {
  if (input.rank() != std::ssize(scales) + 2 || std::ssize(*g.result().dims) != input.rank())
    g.refuse(fmt::format("the input has {} dims; {} are expected", input.rank(), scales.size() + 2));
  check_sizes(g, input.dims(), *g.result().dims);
  for (const std::optional<double>& scale : scales) {
    // Products with scales outside these bounds may overflow. If sizes are given, -1 stands for no scale.
    constexpr double most = 1 << 30;
    if (scale && (by_scales || *scale > 0) && !(*scale >= 1 / most && *scale <= most))
      g.refuse(fmt::format("the scale {} is outside [2^-30, 2^30]", *scale));
  }
  const ElementType type = input.element_type();
  const bool wide = type == ElementType::float64, bytes = type == ElementType::uint8 && !how.is_nearest();
  how.in_float64 = wide || bytes;
  how.copies_equal = how.mode == Mode::linear || how.antialias || bytes;
  Image image{input, {}, how};
  for (int64_t axis = 2; axis < input.rank(); ++axis) {
    const std::optional<double> scale = scales.at(axis - 2);
    image.axes.push_back(
        {input.dim(axis), g.result().dims->at(axis), scale, by_scales ? scale : std::nullopt});
    if (image.axes.back().from.is(0)) g.refuse("the image has no pixels");
  }
  drop_ignored_scales(image);
  if (bytes) return resize_by_matrices(g, image);
  if (!how.is_nearest() && !is_floating_point(type))
    g.refuse("PyTorch and ONNX round integers differently; interpolate floating-point numbers and round");
  if (how.antialias) {
    // Cases that Resize cannot express, or for which ONNX leaves the rounding open.
    const bool has_scale =
        std::ranges::any_of(image.axes, [](const Axis& axis) { return axis.scale || axis.factor; });
    if (wide || has_scale || how.mode == Mode::lanczos || how.align_corners || g.opset() < 18)
      return resize_by_matrices(g, image);
  }
  if (!wide && g.opset() >= 11) {  // before, ONNX has other coordinates
    if (const auto inputs = resize_inputs(g, image)) return resize_node(g, image, *inputs);
  }
  if (how.is_nearest()) return resize_by_taps(g, image);
  return in_opmath_type(g, input, [&](Value x) { return resize_by_taps(g, {x, image.axes, image.how}); });
}

// Resizes with a scale for each of the `count` axes, or with none; `size` takes precedence over scales.
Value resize_vec(GraphBuilder& g, Value input, const std::optional<std::vector<Dim>>& size,
                 const std::optional<std::vector<double>>& scales, size_t count, const Interpolation& how) {
  if (scales && scales->size() != count)
    g.refuse(fmt::format("{} scales are given for {} axes", scales->size(), count));
  return resize(g, input, scales ? Scales(scales->begin(), scales->end()) : Scales(count), !size, how);
}

// Adds each element of `grad` to the elements of the image, of size `dims`, from which it was interpolated.
Value resize_gradient(GraphBuilder& g, Value grad, const std::vector<Dim>& dims, const Scales& scales,
                      Interpolation how) {
  const ElementType type = grad.element_type();
  if (!is_floating_point(type)) g.refuse("a gradient has a floating-point type");
  check_sizes(g, dims, grad.dims());
  how.in_float64 = type == ElementType::float64;
  how.copies_equal = how.mode == Mode::linear || how.antialias;
  Image image{g.cast(grad, opmath_type(type)), {}, how};
  for (int64_t axis = 2; axis < grad.rank(); ++axis)
    image.axes.push_back({dims.at(axis), grad.dim(axis), scales.at(axis - 2), std::nullopt});
  drop_ignored_scales(image);
  Value x = image.pixels;
  for (int64_t axis = 2; axis < grad.rank(); ++axis) {
    const Axis& sizes = image.axes[axis - 2];
    if (sizes.stays()) continue;
    std::vector<Dim> to = x.dims();
    to[axis] = sizes.from;
    Value sum = filled(g, to, 0, x.element_type());
    const auto add = [&](Value part, Value indices) {
      sum = scatter_rows(g, sum, axis, indices, part, Reduction::add);
    };
    if (how.is_nearest()) {
      add(x, nearest_indices(g, image, sizes));
    } else if (how.antialias) {
      const Shares shares = shares_along(g, image, sizes, false);
      Value rows = move_axis(g, x, axis, -1);
      sum = move_axis(g, g.op("MatMul", rows, g.cast(shares.matrix, x.element_type())), -1, axis);
    } else {
      for (const Taps& taps : taps_along(g, image, sizes)) {
        std::vector<int64_t> others(x.rank() - axis - 1);
        std::iota(others.begin(), others.end(), 1);
        Value weights = g.unsqueeze(g.cast(taps.weights, x.element_type()), others);
        add(g.op("Mul", x, weights), taps.indices);
      }
    }
    x = sum;
  }
  return g.cast(x, type);
}

template <size_t>
using Scale = std::optional<double>;

template <size_t... axes>
void add_overloads(SymbolicRegistry& registry, std::string_view name, Mode mode, bool antialias,
                   std::index_sequence<axes...>) {
  auto on = add(registry);
  using Dims = std::optional<std::vector<Dim>>;
  using Factors = std::optional<std::vector<double>>;
  static constexpr const char* scale_names[] = {
      "float? scales=None", "float? scales_h=None, float? scales_w=None",
      "float? scales_d=None, float? scales_h=None, float? scales_w=None"};
  constexpr size_t rank = sizeof...(axes);
  const bool nearest = mode == Mode::nearest || mode == Mode::nearest_exact;
  const std::string corners = nearest ? "" : "bool align_corners, ";
  const std::string vec = fmt::format(
      "aten::{}.vec(Tensor input, SymInt[]? output_size, {}float[]? scale_factors) -> Tensor", name, corners);
  const std::string sized = fmt::format("aten::{}(Tensor self, SymInt[{}] output_size, {}{}) -> Tensor", name,
                                        rank, corners, scale_names[rank - 1]);
  const std::string gradient = fmt::format(
      "aten::{}_backward(Tensor grad_output, SymInt[{}] output_size, SymInt[{}] input_size, {}{}) -> "
      "Tensor",
      name, rank, rank + 2, corners, scale_names[rank - 1]);
  if (nearest) {
    on(gradient, Since{16},
       [mode](GraphBuilder& g, Value grad, Ignored, std::vector<Dim> size, Scale<axes>... scales) {
         return resize_gradient(g, grad, size, {scales...}, {mode});
       });
    on(vec, Since{9}, [=](GraphBuilder& g, Value input, Dims size, Factors scales) {
      return resize_vec(g, input, size, scales, rank, {mode});
    });
    on(sized, Since{9}, [mode](GraphBuilder& g, Value input, Ignored, Scale<axes>... scales) {
      return resize(g, input, {scales...}, false, {mode});
    });
    return;
  }
  on(gradient, Since{16},
     [=](GraphBuilder& g, Value grad, Ignored, std::vector<Dim> size, bool align_corners,
         Scale<axes>... scales) {
       return resize_gradient(g, grad, size, {scales...}, {mode, align_corners, antialias});
     });
  on(vec, Since{9}, [=](GraphBuilder& g, Value input, Dims size, bool align_corners, Factors scales) {
    return resize_vec(g, input, size, scales, rank, {mode, align_corners, antialias});
  });
  on(sized, Since{9}, [=](GraphBuilder& g, Value input, Ignored, bool align_corners, Scale<axes>... scales) {
    return resize(g, input, {scales...}, false, {mode, align_corners, antialias});
  });
}

}  // namespace

void register_resize(SymbolicRegistry& registry) {
  constexpr std::make_index_sequence<1> lines{};
  constexpr std::make_index_sequence<2> images{};
  constexpr std::make_index_sequence<3> volumes{};
  add_overloads(registry, "upsample_linear1d", Mode::linear, false, lines);
  add_overloads(registry, "upsample_bilinear2d", Mode::linear, false, images);
  add_overloads(registry, "upsample_trilinear3d", Mode::linear, false, volumes);
  add_overloads(registry, "upsample_bicubic2d", Mode::cubic, false, images);
  add_overloads(registry, "_upsample_bilinear2d_aa", Mode::linear, true, images);
  add_overloads(registry, "_upsample_bicubic2d_aa", Mode::cubic, true, images);
  add_overloads(registry, "_upsample_lanczos2d_aa", Mode::lanczos, true, images);
  for (const auto& [prefix, mode] :
       {std::pair{"upsample_nearest", Mode::nearest}, {"_upsample_nearest_exact", Mode::nearest_exact}}) {
    add_overloads(registry, fmt::format("{}1d", prefix), mode, false, lines);
    add_overloads(registry, fmt::format("{}2d", prefix), mode, false, images);
    add_overloads(registry, fmt::format("{}3d", prefix), mode, false, volumes);
  }
}

}  // namespace opbridge::lowering
