#include <fmt/format.h>

#include "lowering/add.h"

namespace opbridge::lowering {
namespace {

struct Interpolation {
  std::string mode = "nearest";  // of ONNX: nearest, linear, cubic
  std::string coordinates = "asymmetric";
  std::string nearest = "floor";
  double cubic = -0.75;
  bool antialias = false;
};

// (N, C, spatial…) resized in its spatial dims. Where scales are given PyTorch computes coordinates with them
// and not with the quotient of the sizes; so does Resize.
Value resize(GraphBuilder& g, Value input, const std::optional<std::vector<Dim>>& size,
             const std::optional<std::vector<double>>& scales, const Interpolation& how) {
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

}  // namespace

void register_resize(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Dims = std::optional<std::vector<Dim>>;
  using Scales = std::optional<std::vector<double>>;

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
  // With antialiasing PyTorch takes Pillow's cubic.
  for (const auto& [name, mode] : {std::pair("bilinear2d", "linear"), std::pair("bicubic2d", "cubic")}) {
    const auto how = [mode = std::string(mode)](GraphBuilder& g, bool align_corners) {
      if (align_corners) g.refuse("with antialiasing ONNX Runtime aligns corners otherwise");
      return Interpolation{mode, "half_pixel", {}, -0.5, true};
    };
    on(fmt::format(
           "aten::_upsample_{}_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? "
           "scale_factors) -> Tensor",
           name),
       Since{18}, [how](GraphBuilder& g, Value input, Dims size, bool align_corners, Scales scales) {
         return resize(g, input, size, scales, how(g, align_corners));
       });
    on(fmt::format("aten::_upsample_{}_aa(Tensor self, SymInt[2] output_size, bool align_corners, "
                   "float? scales_h=None, float? scales_w=None) -> Tensor",
                   name),
       Since{18},
       [how](GraphBuilder& g, Value input, std::vector<Dim> size, bool align_corners,
             std::optional<double> height, std::optional<double> width) {
         Scales scales;
         if (height && width) scales = std::vector{*height, *width};
         return resize(g, input, size, scales, how(g, align_corners));
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
