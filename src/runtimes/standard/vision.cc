// Detection and deformable networks.
#include <array>
#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/image/roi_align.h"
#include "lowering/reduction/reduce.h"
#include "runtimes/standard/bodies.h"
#include "runtimes/standard/counted_loop.h"

namespace opbridge::standard {
namespace {

// Two boxes overlap if the intersection over the union, rounded to their element type, is greater than the
// threshold.
double threshold_of(ElementType type, double threshold) {
  if (type != ElementType::float32) return threshold;
  const auto rounded = static_cast<float>(threshold);
  return rounded > threshold ? std::nextafter(rounded, -INFINITY) : rounded;
}

// Whether each two of the boxes, (n, 4), overlap: (n, n).
Value overlaps(GraphBuilder& g, Value boxes, double threshold) {
  const auto coordinate = [&](int64_t i) { return g.slice(boxes, 1, i, i + 1); };
  const auto across = [&](Value value) { return g.transpose(value, {1, 0}); };
  const auto common_side = [&](Value low, Value high) {
    Value side = g.op("Sub", g.op("Min", high, across(high)), g.op("Max", low, across(low)));
    return g.op("Max", side, g.scalar_like(side, 0));
  };
  Value x1 = coordinate(0), y1 = coordinate(1), x2 = coordinate(2), y2 = coordinate(3);
  Value area = g.op("Mul", g.op("Sub", x2, x1), g.op("Sub", y2, y1));
  Value common = g.op("Mul", common_side(x1, x2), common_side(y1, y2));
  Value either = g.op("Sub", g.op("Add", area, across(area)), common);
  Value limit = g.scalar_like(boxes, threshold_of(boxes.element_type(), threshold));
  return g.op("Greater", g.op("Div", common, either), limit);
}

// Keeps boxes by descending score, each unless it overlaps one kept before; with `classes`, one of its class.
Value nms(GraphBuilder& g, Value boxes, Value scores, std::optional<Value> classes, double iou_threshold) {
  const Dim& count = boxes.dim(0);
  Value order = g.ops<2>("TopK", scores, g.sizes({count}), attr("axis", 0))[1];
  Value overlap = overlaps(g, g.gather(boxes, order, 0), iou_threshold);
  if (classes) {
    Value ordered = g.gather(*classes, order, 0);
    overlap = g.op("And", overlap, g.op("Equal", g.unsqueeze(ordered, {0}), g.unsqueeze(ordered, {1})));
  }
  Value none = lowering::filled(g, std::vector{count}, 0, ElementType::boolean);
  Value positions = lowering::arithmetic(g, 0, 1, count);
  const auto suppress = [&](GraphBuilder& on, Value index, std::span<const Value> values) {
    Value kept = values[0], taken = on.op("And", on.gather(overlap, index, 0), kept);
    Value keep = on.op("Not", lowering::any_along(on, taken, std::vector<int64_t>{0}, false));
    Value here = on.op("And", on.op("Equal", positions, index), keep);
    return std::vector{on.op("Or", kept, here)};
  };
  Value kept = counted_loop(g, "suppress", g.size(count), {none}, suppress).front();
  return g.op("Compress", order, kept, attr("axis", 0));
}

Value grid_sample(GraphBuilder& g, Value input, Value grid, int64_t interpolation, int64_t padding,
                  bool align_corners) {
  const bool old = g.opset() < 20;
  if (input.rank() == 5 && old) g.refuse("GridSample takes volumes from opset 20 on");
  if (input.rank() == 5 && interpolation == 2)
    g.refuse("ONNX does not define the cubic interpolation of volumes");
  constexpr std::array before{"bilinear", "nearest", "bicubic"}, since{"linear", "nearest", "cubic"};
  constexpr std::array paddings{"zeros", "border", "reflection"};
  return g.op("GridSample", input, grid, attr("mode", (old ? before : since).at(interpolation)),
              attr("padding_mode", paddings.at(padding)), attr("align_corners", align_corners));
}

Value roi_align(GraphBuilder& g, Value input, Value rois, double spatial_scale, int64_t pooled_height,
                int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  if (g.opset() < lowering::first_opset_of_roi_align(aligned))
    g.refuse("RoiAlign shifts regions by half a pixel from opset 16 on; export with opset_version=16");
  return lowering::roi_align_of_onnx(g, input, rois, spatial_scale, pooled_height, pooled_width,
                                     sampling_ratio, aligned);
}

using Ints = std::vector<int64_t>;

// One number stands for both axes.
Ints pair_of(Ints values) {
  if (values.size() == 1) values.push_back(values[0]);
  return values;
}

Value deform_conv2d(GraphBuilder& g, Value input, Value weight, Value offset, std::optional<Value> mask,
                    std::optional<Value> bias, const Ints& stride, const Ints& padding, const Ints& dilation,
                    int64_t groups, int64_t offset_groups) {
  const Ints pad = pair_of(padding);
  return g.op("DeformConv", input, weight, offset, bias, mask, attr("strides", pair_of(stride)),
              attr("pads", Ints{pad[0], pad[1], pad[0], pad[1]}), attr("dilations", pair_of(dilation)),
              attr("group", groups), attr("offset_group", offset_groups));
}

// `value` is (image, position, head, channel), `locations` (image, query, head, level, point, xy), and
// `attention` the same without xy. The levels follow each other in the positions; `shapes` holds the height
// and width of each, `starts` its first position. A location is between four positions; those outside of the
// level count as zero.
Value multi_scale_deformable_attention(GraphBuilder& g, Value value, Value shapes, Value starts,
                                       Value locations, Value attention, Ignored) {
  const ElementType type = value.element_type();
  const auto number = [&](double x) { return g.scalar(x, type); };
  const auto size = [&](int64_t i) { return g.cast(g.slice(shapes, 1, i, i + 1), type); };  // (level, 1)
  const auto coordinate = [&](int64_t i, Value length) {
    Value location = g.squeeze(g.slice(locations, 5, i, i + 1), {5});
    return g.op("Sub", g.op("Mul", location, length), number(0.5));
  };
  Value height = size(0), width = size(1);
  Value x = coordinate(0, width), y = coordinate(1, height);
  Value low_x = g.op("Floor", x), low_y = g.op("Floor", y);
  Value right = g.op("Sub", x, low_x), below = g.op("Sub", y, low_y);
  Value first = g.unsqueeze(starts, {1});
  const auto within = [&](Value at, Value length) {
    return g.op("And", g.op("GreaterOrEqual", at, number(0)), g.op("Less", at, length));
  };
  const auto share = [&](Value part, int step) { return step == 1 ? part : g.op("Sub", number(1), part); };
  std::vector<Value> positions, weights;
  for (const int down : {0, 1}) {
    for (const int along : {0, 1}) {
      Value row = g.op("Add", low_y, number(down)), column = g.op("Add", low_x, number(along));
      Value inside = g.op("And", within(row, height), within(column, width));
      const auto index = [&](Value at) {
        return g.cast(g.op("Where", inside, at, number(0)), ElementType::int64);
      };
      Value in_level = g.op("Add", g.op("Mul", index(row), g.cast(width, ElementType::int64)), index(column));
      Value position = g.op("Add", in_level, first);
      positions.push_back(g.op("Where", inside, position, g.scalar(0, ElementType::int64)));
      weights.push_back(
          g.op("Where", inside, g.op("Mul", share(below, down), share(right, along)), number(0)));
    }
  }
  Value nan = g.op("Or", g.op("IsNaN", x), g.op("IsNaN", y));
  for (Value& weight : weights) weight = g.op("Mul", g.op("Where", nan, number(NAN), weight), attention);

  // To (image, head, query, all points, …).
  const Dim &images = value.dim(0), &heads = value.dim(2), &channels = value.dim(3),
            &queries = locations.dim(1);
  const Dim points = locations.dim(3) * locations.dim(4) * Dim(4);
  const auto by_head = [&](const std::vector<Value>& parts) {
    return g.transpose(g.concat(parts, 4), {0, 2, 1, 3, 4});
  };
  Value indices = g.reshape(by_head(positions), {images, heads, queries * points, Dim(1)});
  Value features = g.op("GatherND", g.transpose(value, {0, 2, 1, 3}), indices, attr("batch_dims", 2));
  features = g.reshape(features, {images, heads, queries, points, channels});
  Value factors = g.reshape(by_head(weights), {images, heads, queries, points, Dim(1)});
  Value sum = g.reduce("ReduceSum", g.op("Mul", features, factors), {3}, false);
  return g.reshape(g.transpose(sum, {0, 2, 1, 3}), {images, queries, heads * channels});
}

}  // namespace

void register_vision(SymbolicRegistry& registry) {
  auto on = lowering::add(registry);

  on("opbridge::nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor", Since{13},
     [](GraphBuilder& g, Value boxes, Value scores, double iou_threshold) {
       return nms(g, boxes, scores, std::nullopt, iou_threshold);
     });
  on("opbridge::batched_nms(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold) -> Tensor",
     Since{13}, [](GraphBuilder& g, Value boxes, Value scores, Value idxs, double iou_threshold) {
       return nms(g, boxes, scores, idxs, iou_threshold);
     });
  on("opbridge::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
     "SymInt pooled_width, int sampling_ratio=-1, bool aligned=False) -> Tensor",
     Since{10}, roi_align);
  on("opbridge::grid_sample(Tensor input, Tensor grid, int interpolation_mode=0, int padding_mode=0, "
     "bool align_corners=False) -> Tensor",
     Since{16}, grid_sample);
  for (const std::string name : {"mmdeploy::grid_sampler", "mmcv::grid_sampler"}) {
    on(name +
           "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> "
           "Tensor",
       Since{16}, grid_sample);
  }
  for (const std::string name : {"opbridge::deform_conv2d", "custom::deform_conv2d"}) {
    on(name +
           "(Tensor input, Tensor weight, Tensor offset, Tensor? mask=None, Tensor? bias=None, "
           "int stride_h=1, int stride_w=1, int pad_h=0, int pad_w=0, int dilation_h=1, int dilation_w=1, "
           "int groups=1, int offset_groups=1, bool use_mask=True) -> Tensor",
       Since{19},
       [](GraphBuilder& g, Value input, Value weight, Value offset, std::optional<Value> mask,
          std::optional<Value> bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
          int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
         return deform_conv2d(g, input, weight, offset, use_mask ? mask : std::nullopt, bias,
                              {stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups,
                              offset_groups);
       });
  }
  for (const std::string name : {"mmdeploy::MMCVModulatedDeformConv2d", "mmcv::MMCVModulatedDeformConv2d"}) {
    on(name +
           "(Tensor input, Tensor offset, Tensor mask, Tensor weight, Tensor? bias=None, "
           "int[2] stride=1, int[2] padding=0, int[2] dilation=1, int groups=1, int deform_groups=1) -> "
           "Tensor",
       Since{19},
       [](GraphBuilder& g, Value input, Value offset, Value mask, Value weight, std::optional<Value> bias,
          const Ints& stride, const Ints& padding, const Ints& dilation, int64_t groups,
          int64_t deform_groups) {
         return deform_conv2d(g, input, weight, offset, mask, bias, stride, padding, dilation, groups,
                              deform_groups);
       });
  }
  on("mmdeploy::MMCVDeformConv2d(Tensor input, Tensor offset, Tensor weight, int[2] stride=1, "
     "int[] padding=[0, 0], int[2] dilation=1, int groups=1, int deform_groups=1) -> Tensor",
     Since{19},
     [](GraphBuilder& g, Value input, Value offset, Value weight, const Ints& stride, const Ints& padding,
        const Ints& dilation, int64_t groups, int64_t deform_groups) {
       // mmdeploy writes each padding twice.
       if (padding.size() == 4 && (padding[0] != padding[1] || padding[2] != padding[3]))
         g.refuse("padding must be (height, height, width, width)");
       const Ints pair = padding.size() == 4 ? Ints{padding[0], padding[2]} : padding;
       return deform_conv2d(g, input, weight, offset, std::nullopt, std::nullopt, stride, pair, dilation,
                            groups, deform_groups);
     });
  on("mmcv::MMCVDeformConv2d(Tensor input, Tensor offset, Tensor weight, int[2] stride=1, "
     "int[2] padding=0, int[2] dilation=1, int groups=1, int deform_groups=1, bool bias=False, "
     "int im2col_step=32) -> Tensor",
     Since{19},
     [](GraphBuilder& g, Value input, Value offset, Value weight, const Ints& stride, const Ints& padding,
        const Ints& dilation, int64_t groups, int64_t deform_groups, bool, int64_t) {
       return deform_conv2d(g, input, weight, offset, std::nullopt, std::nullopt, stride, padding, dilation,
                            groups, deform_groups);
     });
  for (const std::string name :
       {"opbridge::multi_scale_deformable_attention", "mmdeploy::MMCVMultiScaleDeformableAttention"}) {
    on(name +
           "(Tensor value, Tensor value_spatial_shapes, Tensor value_level_start_index, Tensor "
           "sampling_locations, Tensor attention_weights, int im2col_step=64) -> Tensor",
       Since{13}, multi_scale_deformable_attention);
  }
}

}  // namespace opbridge::standard
