// Shuffles of channels, and of channels and pixels.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

// Transposes the channels, taken as a matrix with `groups` rows.
Value channel_shuffle(GraphBuilder& g, Value self, const Dim& groups) {
  const std::vector<Dim> dims = self.dims();
  const bool is_known = groups.is_static() && dims.at(1).is_static();
  if (is_known && (groups.value() < 1 || dims[1].value() % groups.value() != 0))
    g.refuse(fmt::format("{} channels cannot be divided into {} groups", dims[1].str(), groups.str()));
  std::vector<Dim> grouped = dims;
  grouped.at(1) = floor_div(dims.at(1), groups);
  grouped.insert(grouped.begin() + 1, groups);
  std::vector<int64_t> order(grouped.size());
  for (size_t axis = 0; axis < order.size(); ++axis) order[axis] = static_cast<int64_t>(axis);
  std::swap(order[1], order[2]);
  return g.reshape(g.transpose(g.reshape(self, grouped), order), dims);
}

// (…, channels * factor², height, width) to (…, channels, height * factor, width * factor), or back.
Value pixel_shuffle(GraphBuilder& g, Value self, int64_t factor, bool back) {
  const int64_t first = self.rank() - 2;  // of the image
  const std::vector<Dim>& result = *g.result().dims;
  const std::vector<Dim>& small = back ? result : self.dims();  // with more channels
  const std::vector<Dim>& large = back ? self.dims() : result;
  const Dim side(factor);
  for (const int64_t axis : {first, first + 1}) {
    const Dim &one = small.at(axis), &other = large.at(axis);
    if (factor < 1 || (one.is_static() && other.is_static() && !(one * side == other)))
      g.refuse(fmt::format("the factor {} does not fit the sizes {} and {}", factor, one.str(), other.str()));
  }
  if (!back && g.opset() >= 11 && self.rank() == 4 && self.element_type() == ElementType::float32)
    return g.op("DepthToSpace", self, attr("blocksize", factor), attr("mode", "CRD"));
  std::vector<Dim> split = first_dims(large, first);
  std::vector<int64_t> order(first);
  for (int64_t axis = 0; axis < first; ++axis) order[axis] = axis;
  const Dim &height = small.at(first), &width = small.at(first + 1);
  if (back) {
    split.insert(split.end(), {height, side, width, side});
    order.insert(order.end(), {first + 1, first + 3, first, first + 2});
  } else {
    split.insert(split.end(), {side, side, height, width});
    order.insert(order.end(), {first + 2, first, first + 3, first + 1});
  }
  return g.reshape(g.transpose(g.reshape(self, split), order), result);
}

}  // namespace

void register_shuffling(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor", Since{9}, channel_shuffle);
  on("aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor", Since{9}, channel_shuffle);
  on("aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t factor) { return pixel_shuffle(g, self, factor, false); });
  on("aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, int64_t factor) { return pixel_shuffle(g, self, factor, true); });
}

}  // namespace opbridge::lowering
