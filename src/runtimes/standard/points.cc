// Point clouds: neighbours, sampling, and features of points.
#include <limits>

#include "lowering/add.h"
#include "lowering/common.h"
#include "runtimes/standard/bodies.h"
#include "runtimes/standard/counted_loop.h"

namespace opbridge::standard {
namespace {

// (batch, n, 3) and (batch, m, 3) to (batch, n, m).
Value squared_distances(GraphBuilder& g, Value from, Value to) {
  Value difference = g.op("Sub", g.unsqueeze(from, {2}), g.unsqueeze(to, {1}));
  return g.reduce("ReduceSum", g.op("Mul", difference, difference), {-1}, false);
}

// The least `count` along the last axis, in ascending order; of equals, the first comes first.
std::array<Value, 2> least(GraphBuilder& g, Value values, int64_t count) {
  return g.ops<2>("TopK", values, g.ints({count}), attr("largest", 0));
}

Value knn(GraphBuilder& g, int64_t k, Value xyz, Value center_xyz, bool transposed) {
  if (transposed) {
    xyz = g.transpose(xyz, {0, 2, 1});
    center_xyz = g.transpose(center_xyz, {0, 2, 1});
  }
  Value nearest = least(g, squared_distances(g, center_xyz, xyz), k)[1];
  return g.cast(g.transpose(nearest, {0, 2, 1}), ElementType::int32);
}

std::array<Value, 2> three_nn(GraphBuilder& g, Value target, Value source) {
  auto [distance, index] = least(g, squared_distances(g, target, source), 3);
  return {g.op("Sqrt", distance), g.cast(index, ElementType::int32)};
}

// Features (batch, channel, point) at indices (batch, …).
Value gather_points(GraphBuilder& g, Value features, Value indices) {
  const Dim &batch = features.dim(0), &channels = features.dim(1);
  std::vector<Dim> each = indices.dims();
  const Dim count = lowering::element_count(std::span(each).subspan(1));
  each.insert(each.begin() + 1, channels);
  Value flat = g.reshape(g.cast(indices, ElementType::int64), {batch, Dim(1), count});
  Value all = g.expand(flat, std::vector{batch, channels, count});
  return g.reshape(g.op("GatherElements", features, all, attr("axis", 2)), each);
}

Value three_interpolate(GraphBuilder& g, Value features, Value indices, Value weight) {
  Value gathered = gather_points(g, features, indices);
  return g.reduce("ReduceSum", g.op("Mul", gathered, g.unsqueeze(weight, {1})), {-1}, false);
}

// The first points within the ball. If there are too few, the first one is repeated; if there are none, point
// 0.
Value ball_query(GraphBuilder& g, double min_radius, double max_radius, int64_t sample_num, Value xyz,
                 Value center_xyz) {
  const Dim& points = xyz.dim(1);
  Value distance = squared_distances(g, center_xyz, xyz);
  const auto square = [&](double radius) {
    Value side = g.scalar_like(xyz, radius);
    return g.op("Mul", side, side);
  };
  Value in_shell = g.op("And", g.op("GreaterOrEqual", distance, square(min_radius)),
                        g.op("Less", distance, square(max_radius)));
  Value inside = g.op("Or", g.op("Equal", distance, g.scalar_like(distance, 0)), in_shell);
  Value none = g.size(points);
  Value order = g.op("Where", inside, lowering::arithmetic(g, 0, 1, points), none);
  // Append as many columns as there are samples, in case there are fewer points.
  std::vector<Dim> missing = order.dims();
  missing.back() = sample_num;
  order = g.concat({order, g.expand(none, missing)}, -1);
  Value found = least(g, order, sample_num)[0];
  Value first = g.slice(found, 2, 0, 1);
  first = g.op("Where", g.op("Equal", first, none), g.scalar(0, ElementType::int64), first);
  return g.cast(g.op("Where", g.op("Equal", found, none), first, found), ElementType::int32);
}

// Point 0, and then always the point that is furthest from those chosen so far.
Value furthest_point_sample(GraphBuilder& g, Value points, int64_t num_points) {
  const Dim &batch = points.dim(0), &count = points.dim(1);
  Value none = lowering::filled(g, std::vector{batch, Dim(num_points)}, 0, ElementType::int64);
  Value far = lowering::filled(g, std::vector{batch, count}, std::numeric_limits<double>::infinity(),
                               points.element_type());
  Value positions = lowering::arithmetic(g, 0, 1, count), samples = lowering::arithmetic(g, 0, 1, num_points);
  Value one = g.scalar(1, ElementType::int64);
  const auto choose = [&](GraphBuilder& on, Value index, std::span<const Value> values) {
    Value chosen = values[0], distances = values[1];
    Value last = on.unsqueeze(on.gather(chosen, index, 1), {1});
    Value before = on.op("Where", on.op("Equal", positions, last), on.scalar_like(distances, 0), distances);
    Value at = on.op("GatherND", points, on.unsqueeze(last, {-1}), attr("batch_dims", 1));
    Value difference = on.op("Sub", points, on.typed(at, std::vector{batch, Dim(1), points.dim(2)}));
    Value square = on.reduce("ReduceSum", on.op("Mul", difference, difference), {-1}, false);
    Value nearest = on.op("Where", on.op("Less", square, before), square, before);
    Value is_next = on.op("Equal", samples, on.op("Add", index, one));
    Value next = on.op("Where", is_next, on.op("ArgMax", nearest, attr("axis", 1)), chosen);
    return std::vector{next, nearest};
  };
  Value steps = g.scalar(num_points - 1, ElementType::int64);
  return g.cast(counted_loop(g, "furthest", steps, {none, far}, choose).front(), ElementType::int32);
}

}  // namespace

void register_points(SymbolicRegistry& registry) {
  auto on = lowering::add(registry);
  on("opbridge::knn(int k, Tensor xyz, Tensor center_xyz, bool transposed=False) -> Tensor", Since{13}, knn);
  on("opbridge::three_nn(Tensor target, Tensor source) -> (Tensor, Tensor)", Since{13}, three_nn);
  on("opbridge::gather_points(Tensor features, Tensor indices) -> Tensor", Since{13}, gather_points);
  on("opbridge::group_points(Tensor features, Tensor indices) -> Tensor", Since{13}, gather_points);
  on("opbridge::three_interpolate(Tensor features, Tensor indices, Tensor weight) -> Tensor", Since{13},
     three_interpolate);
  on("opbridge::ball_query(float min_radius, float max_radius, int sample_num, Tensor xyz, "
     "Tensor center_xyz) -> Tensor",
     Since{13}, ball_query);
  on("opbridge::furthest_point_sample(Tensor points_xyz, SymInt num_points) -> Tensor", Since{13},
     furthest_point_sample);
}

}  // namespace opbridge::standard
