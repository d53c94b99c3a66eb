#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

struct Interpolation {
  std::string mode = "nearest";  // of ONNX: nearest, linear, cubic
  std::string coordinates = "asymmetric";
  std::string nearest = "floor";
  double cubic = -0.75;
  bool antialias = false;
};

// How far apart in the input neighbours of the result lie; ATen's area_pixel_compute_scale.
double step_of_axis(int64_t from, int64_t to, std::optional<double> scale, bool align_corners) {
  const auto in = static_cast<double>(from), out = static_cast<double>(to);
  if (align_corners) return to > 1 ? (in - 1) / (out - 1) : 0;
  return scale && *scale > 0 ? 1 / *scale : in / out;
}

// The elements along one axis from which one of the result is made, with the weight of each; ATen's
// UpSample.h.
struct Taps {
  std::vector<int64_t> places;
  std::vector<double> weights;  // none: 1
};

std::vector<Taps> taps_of_axis(const Interpolation& how, int64_t from, int64_t to,
                               std::optional<double> scale) {
  const bool align_corners = how.coordinates == "align_corners", cubic = how.mode == "cubic";
  const double step = step_of_axis(from, to, scale, align_corners);
  if (how.mode == "nearest") {
    const auto narrow = static_cast<float>(step);
    Taps nearest;
    for (int64_t i = 0; i < to; ++i) {
      float source = static_cast<float>(i) * narrow;
      if (how.coordinates != "asymmetric") {
        // With a fused multiply-add, as ATen is compiled.
        const double center = static_cast<double>(narrow) * (static_cast<double>(i) + 0.5) - 0.5;
        source = std::max(static_cast<float>(center), 0.0F) + 0.5F;
      }
      nearest.places.push_back(std::min(static_cast<int64_t>(std::floor(source)), from - 1));
    }
    return {nearest};
  }
  std::vector<Taps> taps(cubic ? 4 : 2);
  for (int64_t i = 0; i < to; ++i) {
    const auto place = static_cast<double>(i);
    double source = align_corners ? step * place : step * (place + 0.5) - 0.5;
    if (!cubic) source = std::max(source, 0.0);
    const double floor = std::floor(source), t = source - floor, a = how.cubic;
    // Keys' cubic convolution.
    const auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    const auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    const std::vector<double> weights =
        cubic ? std::vector{far(t + 1), near(t), near(1 - t), far(2 - t)} : std::vector{1 - t, t};
    for (size_t k = 0; k < taps.size(); ++k) {
      const int64_t at = static_cast<int64_t>(floor) + static_cast<int64_t>(k) - (cubic ? 1 : 0);
      taps[k].places.push_back(std::clamp<int64_t>(at, 0, from - 1));
      taps[k].weights.push_back(weights[k]);
    }
  }
  return taps;
}

using Scales = std::optional<std::vector<double>>;  // of the spatial axes

std::optional<double> scale_of(const Scales& scales, size_t spatial_axis) {
  return scales ? std::optional(scales->at(spatial_axis)) : std::nullopt;
}

bool stays(const Dim& from, const Dim& to, std::optional<double> scale) {
  return from == to && (!scale || *scale == 1);
}

// ONNX Runtime's Resize computes sizes and places in float32, and divides by the scale where ATen multiplies
// by its reciprocal. Up to here is tried whether they agree where sizes are known only when the model runs.
constexpr int64_t most_tried = 1 << 14;

bool sizes_agree(const Dim& from, double scale) {
  const auto agree = [scale, narrow = static_cast<float>(scale)](int64_t size) {
    return std::floor(narrow * static_cast<float>(size)) == std::floor(scale * static_cast<double>(size));
  };
  return from.is_static() ? agree(from.value())
                          : std::ranges::all_of(std::views::iota(int64_t{1}, most_tried), agree);
}

bool nearest_pixels_agree(const Interpolation& how, int64_t from, int64_t to, std::optional<double> scale) {
  if (from == 0) return true;
  const float factor = scale ? static_cast<float>(*scale) : static_cast<float>(to) / static_cast<float>(from);
  const Taps taps = taps_of_axis(how, from, to, scale).front();
  for (int64_t i = 0; i < to; ++i) {
    const auto place = static_cast<float>(i);
    const float source = how.coordinates == "asymmetric" ? std::floor(place / factor)
                                                         : std::round((place + 0.5F) / factor - 0.5F);
    if (std::clamp<int64_t>(static_cast<int64_t>(source), 0, from - 1) != taps.places[i]) return false;
  }
  return true;
}

// Whether Resize gives an axis what PyTorch gives it.
bool resizes_alike(const Interpolation& how, const Dim& from, const Dim& to, std::optional<double> scale) {
  if (stays(from, to, scale)) return true;
  if (scale && !sizes_agree(from, *scale)) return false;
  if (how.mode != "nearest") return true;
  if (from.is_static() && to.is_static()) return nearest_pixels_agree(how, from.value(), to.value(), scale);
  return scale && nearest_pixels_agree(how, most_tried, most_tried, scale);
}

// The places that taps_of_axis gives, for sizes that are known only when the model runs.
Value nearest_places(GraphBuilder& g, const Interpolation& how, const Dim& from, const Dim& to,
                     std::optional<double> scale) {
  constexpr ElementType type = ElementType::float32;
  const auto size = [&](const Dim& dim) { return g.cast(g.size(dim), type); };
  Value step = scale ? g.scalar(1 / *scale, type) : g.op("Div", size(from), size(to));
  Value source = arithmetic(g, 0, 1, to);
  if (how.coordinates == "asymmetric") {
    source = g.op("Mul", g.cast(source, type), step);
  } else {
    constexpr ElementType wide = ElementType::float64;
    Value half = g.scalar(0.5, wide);
    Value center = g.op("Mul", g.op("Add", g.cast(source, wide), half), g.cast(step, wide));
    source = g.op("Max", g.cast(g.op("Sub", center, half), type), g.scalar(0.0, type));
    source = g.op("Add", source, g.scalar(0.5, type));
  }
  Value place = g.op("Min", g.op("Floor", source), size(from - Dim(1)));
  Value result = g.cast(place, ElementType::int64);
  result.get()->type = ir::TensorType{ElementType::int64, std::vector{to}};
  return result;
}

// Resized by Gather and sums, axis by axis.
Value resize_by_taps(GraphBuilder& g, Value x, const Scales& scales, const Interpolation& how) {
  for (int64_t axis = 2; axis < x.rank(); ++axis) {
    const Dim from = x.dim(axis), to = g.result().dims->at(axis);
    const std::optional<double> scale = scale_of(scales, axis - 2);
    if (stays(from, to, scale)) continue;
    if (!from.is_static() || !to.is_static()) {
      if (how.mode != "nearest") {
        g.refuse(x.element_type() == ElementType::float64
                     ? "resizing float64 needs an image of constant size; convert it to float32"
                     : "a scale factor that float32 rounds across a size needs an image of constant size");
      }
      x = g.gather(x, nearest_places(g, how, from, to, scale), axis);
      continue;
    }
    Value sum;
    for (const Taps& taps : taps_of_axis(how, from.value(), to.value(), scale)) {
      Value part = g.gather(x, g.ints(taps.places), axis);
      if (!taps.weights.empty()) {
        std::vector<int64_t> dims(x.rank() - axis, 1);
        dims[0] = to.value();
        part = g.op("Mul", part,
                    g.cast(g.constant(ir::Weight::of<double>(taps.weights, dims)), x.element_type()));
      }
      sum = sum ? g.op("Add", sum, part) : part;
    }
    x = sum;
  }
  return x;
}

// Rounds weights to whole numbers over a power of two and gives its exponent: the fixed-point numbers in
// which ATen resizes uint8 (_compute_index_ranges_int16_weights).
int to_fixed_point(std::vector<double>& weights) {
  const double greatest = std::ranges::max(weights);
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + std::ldexp(greatest, bits + 1)) < (1 << 15)) ++bits;
  for (double& weight : weights) weight = std::trunc(std::ldexp(weight, bits) + (weight < 0 ? -0.5 : 0.5));
  return bits;
}

// What each of `to` pixels of an axis takes of each of `from`: (to, from), row by row.
using AxisWeights = std::function<std::vector<double>(int64_t from, int64_t to, std::optional<double> scale)>;

// Images resized by products of matrices, columns and then rows; nothing where a size is not constant.
std::optional<Value> resized_by_matrices(GraphBuilder& g, Value input, const Scales& scales,
                                         const AxisWeights& weights_of) {
  const bool fixed_point = input.element_type() == ElementType::uint8;
  const ElementType type = fixed_point ? ElementType::float64 : kernel_type(input.element_type());
  const auto is_static = [](const Dim& dim) { return dim.is_static(); };
  const std::span<const Dim> size = last_dims(*g.result().dims, 2);
  if (!std::ranges::all_of(size, is_static) || !is_static(input.dim(2)) || !is_static(input.dim(3)))
    return std::nullopt;
  Value x = g.cast(input, type);
  for (const size_t i : {1, 0}) {
    const Dim &from = input.dim(static_cast<int64_t>(i) + 2), &to = size[i];
    if (from == to) continue;  // whatever the scale factor is
    check_constant(g, (from * to).value());
    std::vector<double> weights = weights_of(from.value(), to.value(), scale_of(scales, i));
    const int bits = fixed_point ? to_fixed_point(weights) : 0;
    Value matrix = g.cast(g.constant(ir::Weight::of<double>(weights, {to.value(), from.value()})), type);
    x = i == 0 ? g.op("MatMul", matrix, x) : g.op("MatMul", x, g.transpose(matrix, {1, 0}));
    if (!fixed_point) continue;
    const double one = std::ldexp(1, bits);
    x = g.op("Floor", g.op("Div", g.op("Add", x, g.scalar_like(x, one / 2)), g.scalar_like(x, one)));
    x = g.op("Clip", x, g.scalar_like(x, 0), g.scalar_like(x, 255));
  }
  return g.cast(x, input.element_type());
}

Value resize_bytes(GraphBuilder& g, Value input, const Scales& scales, const Interpolation& how) {
  const auto weights_of = [&](int64_t from, int64_t to, std::optional<double> scale) {
    std::vector<double> weights(static_cast<size_t>(from * to));
    for (const Taps& taps : taps_of_axis(how, from, to, scale)) {
      for (int64_t i = 0; i < to; ++i) weights[i * from + taps.places[i]] += taps.weights[i];
    }
    return weights;
  };
  const std::optional<Value> resized = resized_by_matrices(g, input, scales, weights_of);
  if (!resized)
    g.refuse("resizing uint8 needs an image of constant size; convert it to float32, and round after that");
  return *resized;
}

// (N, C, spatial…) resized in its spatial dims. Where scales are given PyTorch computes coordinates with them
// and not with the quotient of the sizes; so does Resize.
Value resize(GraphBuilder& g, Value input, const std::optional<std::vector<Dim>>& size, const Scales& scales,
             const Interpolation& how) {
  for (const Dim& dim : *g.result().dims) {
    if (dim.is_static()) check_constant(g, dim.value());  // a table of the pixels that one is made from
  }
  if (input.element_type() == ElementType::float64 && !how.antialias)
    return resize_by_taps(g, input, scales, how);
  if (input.element_type() == ElementType::uint8 && how.mode != "nearest" && input.rank() == 4)
    return resize_bytes(g, input, scales, how);
  for (int64_t axis = 2; axis < input.rank() && !how.antialias; ++axis) {
    if (resizes_alike(how, input.dim(axis), g.result().dims->at(axis), scale_of(scales, axis - 2))) continue;
    if (how.mode == "nearest") return resize_by_taps(g, input, scales, how);
    return in_kernel_type(g, input, [&](Value x) { return resize_by_taps(g, x, scales, how); });
  }
  if (g.opset() < 11) g.refuse("Resize as PyTorch computes it needs opset 11");
  if (how.mode != "nearest" && !is_floating_point(input.element_type()))
    g.refuse("PyTorch rounds integers otherwise; interpolate floating-point numbers, and round after that");
  Value nothing =
      g.opset() >= 13 ? Value() : g.constant(ir::Weight::of<float>(std::span<const float>(), {0}));
  std::vector<Operand> operands{input, nothing};
  if (scales) {
    std::vector<float> all{1, 1};
    for (double scale : *scales) all.push_back(static_cast<float>(scale));
    operands.push_back(g.constant(ir::Weight::of<float>(all, {static_cast<int64_t>(all.size())})));
  } else if (size) {
    std::vector<Dim> all{input.dim(0), input.dim(1)};
    all.insert(all.end(), size->begin(), size->end());
    operands.push_back(nothing);
    operands.push_back(g.sizes(all));
  } else {
    g.refuse("neither an output size nor scale factors are given");
  }
  operands.push_back(attr("mode", how.mode));
  operands.push_back(attr("coordinate_transformation_mode", how.coordinates));
  if (how.mode == "nearest") operands.push_back(attr("nearest_mode", how.nearest));
  if (how.mode == "cubic") operands.push_back(attr("cubic_coeff_a", how.cubic));
  if (how.antialias) {
    operands.push_back(attr("antialias", 1));
    operands.push_back(attr("exclude_outside", 1));
  }
  return g.op_list("Resize", 1, std::move(operands)).front();
}

struct Antialiasing {
  bool cubic = false;  // Keys' with a = -0.5, as Pillow has it; else linear
  bool align_corners = false;

  double operator()(double distance) const {
    const double x = std::abs(distance);
    if (!cubic) return std::max(1 - x, 0.0);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
  }
};

// ATen's _compute_indices_min_size_weights_aa.
std::vector<double> antialiasing_weights(int64_t from, int64_t to, std::optional<double> scale,
                                         const Antialiasing& how) {
  const double step = step_of_axis(from, to, scale, how.align_corners);
  const double spread = std::max(step, 1.0), support = (how.cubic ? 2 : 1) * spread;
  std::vector<double> weights(from * to);
  for (int64_t i = 0; i < to; ++i) {
    const double center = step * (static_cast<double>(i) + 0.5);
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto end = std::min(static_cast<int64_t>(center + support + 0.5), from);
    double* row = weights.data() + i * from;
    for (int64_t j = first; j < end; ++j) row[j] = how((static_cast<double>(j) - center + 0.5) / spread);
    const double total = std::accumulate(row, row + from, 0.0);
    for (int64_t j = first; j < end && total != 0; ++j) row[j] /= total;
  }
  return weights;
}

Value resize_antialiased(GraphBuilder& g, Value input, const std::optional<std::vector<Dim>>& size,
                         const Scales& scales, bool align_corners, bool cubic) {
  // What ONNX has no attribute for, or ONNX Runtime computes otherwise.
  const bool beyond_onnx =
      align_corners || (size && scales) || g.opset() < 18 || !is_floating_point(input.element_type());
  if (beyond_onnx || scales || input.element_type() == ElementType::float64) {
    const auto weights_of = [&](int64_t from, int64_t to, std::optional<double> scale) {
      return antialiasing_weights(from, to, scale, {cubic, align_corners});
    };
    if (auto resized = resized_by_matrices(g, input, scales, weights_of)) return *resized;
  }
  if (beyond_onnx)
    g.refuse(
        "antialiasing of uint8, with align_corners, with both a size and scale factors, or below opset 18 "
        "needs an image of constant size");
  return resize(g, input, size, scales, {cubic ? "cubic" : "linear", "half_pixel", {}, -0.5, true});
}

}  // namespace

void register_resize(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Dims = std::optional<std::vector<Dim>>;

  for (const auto& [name, mode] : {std::pair("linear1d", "linear"), std::pair("bilinear2d", "linear"),
                                   std::pair("trilinear3d", "linear"), std::pair("bicubic2d", "cubic")}) {
    on(fmt::format("aten::upsample_{}.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? "
                   "scale_factors) "
                   "-> Tensor",
                   name),
       Since{9},
       [mode = std::string(mode)](GraphBuilder& g, Value input, Dims size, bool align_corners,
                                  Scales scales) {
         return resize(g, input, size, scales, {mode, align_corners ? "align_corners" : "half_pixel", {}});
       });
  }
  for (const auto& [name, cubic] : {std::pair("bilinear2d", false), std::pair("bicubic2d", true)}) {
    on(fmt::format(
           "aten::_upsample_{}_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? "
           "scale_factors) -> Tensor",
           name),
       Since{9}, [cubic](GraphBuilder& g, Value input, Dims size, bool align_corners, Scales scales) {
         return resize_antialiased(g, input, size, scales, align_corners, cubic);
       });
    on(fmt::format("aten::_upsample_{}_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
                   "float? scales_h=None, float? scales_w=None) -> Tensor",
                   name),
       Since{9},
       [cubic](GraphBuilder& g, Value input, std::vector<Dim> size, bool align_corners,
               std::optional<double> height, std::optional<double> width) {
         Scales scales;
         if (height || width) scales = std::vector{height.value_or(0), width.value_or(0)};
         return resize_antialiased(g, input, size, scales, align_corners, cubic);
       });
  }
  for (int axes = 1; axes <= 3; ++axes) {
    on(fmt::format("aten::upsample_nearest{}d.vec(Tensor input, SymInt[]? output_size, float[]? "
                   "scale_factors) -> Tensor",
                   axes),
       Since{9}, [](GraphBuilder& g, Value input, Dims size, Scales scales) {
         return resize(g, input, size, scales, {});
       });
    on(fmt::format("aten::_upsample_nearest_exact{}d.vec(Tensor input, SymInt[]? output_size, float[]? "
                   "scale_factors) -> Tensor",
                   axes),
       Since{9}, [](GraphBuilder& g, Value input, Dims size, Scales scales) {
         return resize(g, input, size, scales, {"nearest", "half_pixel", "round_prefer_ceil"});
       });
  }
}

}  // namespace opbridge::lowering
