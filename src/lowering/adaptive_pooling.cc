// Adaptive pooling: output i of n takes the elements from floor(i * size / n) to ceil((i + 1) * size / n).
#include <fmt/format.h>

#include <numeric>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/pooling.h"
#include "lowering/reduce.h"

namespace opbridge::lowering {
namespace {

// The windows of one axis, all made as long as the longest by naming the last element again.
struct Windows {
  int64_t count, length;
  std::vector<int64_t> places;  // row by row
  std::vector<int64_t> sizes;   // without what is named again
};

Windows windows(int64_t size, int64_t count) {
  Windows result{count, 0, {}, {}};
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i) {
    starts.push_back(i * size / count);
    result.sizes.push_back((size * (i + 1) + count - 1) / count - starts.back());
    result.length = std::max(result.length, result.sizes.back());
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < result.length; ++k)
      result.places.push_back(starts[i] + std::min(k, result.sizes[i] - 1));
  }
  return result;
}

std::vector<int64_t> spatial_axes(size_t axes) {
  std::vector<int64_t> result(axes);
  std::iota(result.begin(), result.end(), -static_cast<int64_t>(axes));
  return result;
}

bool is_to_one(std::span<const Dim> output) {
  return std::ranges::all_of(output, [](const Dim& size) { return size.is(1); });
}

// The side of equal windows side by side; none where an output does not divide its input.
std::optional<std::vector<int64_t>> equal_windows(GraphBuilder& g, Value self, std::span<const Dim> output) {
  std::vector<int64_t> kernel;
  bool equal = true;
  for (size_t i = 0; i < output.size(); ++i) {
    const Dim& in = self.dim(static_cast<int64_t>(i) - static_cast<int64_t>(output.size()));
    const Dim& out = output[i];
    if (in == out) {
      kernel.push_back(1);
    } else if (!in.is_static() || !out.is_static()) {
      g.refuse(fmt::format("from {} to {} elements: needs constant sizes, or an output of size 1", in.str(),
                           out.str()));
    } else if (out.value() > 0 && in.value() > 0 && in.value() % out.value() == 0) {
      kernel.push_back(in.value() / out.value());
    } else {
      equal = false;
    }
  }
  if (!equal) return std::nullopt;
  return kernel;
}

// The windows of `axis` on two axes in its place: which one, and where in it.
Value gather_windows(GraphBuilder& g, Value x, int64_t axis, const Windows& of) {
  return g.gather(x, g.reshape(g.ints(of.places), {Dim(of.count), Dim(of.length)}), axis);
}

Value mean_along(GraphBuilder& g, Value x, int64_t axis, int64_t count) {
  const Windows of = windows(x.dim(axis).value(), count);
  Value parts = gather_windows(g, x, axis, of);
  std::vector<double> sizes(of.sizes.begin(), of.sizes.end());
  std::vector<int64_t> shape(x.rank() - axis, 1);
  shape[0] = count;
  const bool equal = std::ranges::all_of(of.sizes, [&](int64_t size) { return size == of.length; });
  if (equal) return g.reduce("ReduceMean", parts, {axis + 1}, false);
  // What is named again does not count.
  std::vector<uint8_t> counted;
  for (int64_t size : of.sizes) {
    for (int64_t k = 0; k < of.length; ++k) counted.push_back(k < size);
  }
  std::vector<int64_t> mask_shape(shape);
  mask_shape.insert(mask_shape.begin() + 1, of.length);
  Value mask =
      g.cast(g.constant(ir::Weight::of(std::span<const uint8_t>(counted), mask_shape)), ElementType::boolean);
  Value sum = g.reduce("ReduceSum", g.op("Where", mask, parts, g.scalar_like(x, 0)), {axis + 1}, false);
  Value divisor = g.constant(ir::Weight::of(std::span<const double>(sizes), shape));
  return g.op("Div", sum, g.cast(divisor, x.element_type()));
}

Value adaptive_avg_pool(GraphBuilder& g, Value self, const std::vector<Dim>& output) {
  const size_t axes = output.size();
  if (is_to_one(output)) {
    const bool has_batch = self.rank() == static_cast<int64_t>(axes) + 2;
    if (has_batch && !needs_gathered_windows(self.element_type())) return g.op("GlobalAveragePool", self);
    return g.reduce("ReduceMean", self, spatial_axes(axes), true);
  }
  const std::optional<std::vector<int64_t>> kernel = equal_windows(g, self, output);
  if (!kernel || needs_gathered_windows(self.element_type())) {
    Value x = g.cast(self, kernel_type(self.element_type()));
    for (size_t i = 0; i < axes; ++i) {
      const int64_t axis = x.rank() - static_cast<int64_t>(axes - i);
      if (!(x.dim(axis) == output[i])) x = mean_along(g, x, axis, output[i].value());
    }
    return g.cast(x, self.element_type());
  }
  if (std::ranges::all_of(*kernel, [](int64_t size) { return size == 1; })) return self;
  return on_batch(g, self, axes, [&](Value x) {
    return g.op("AveragePool", x, attr("kernel_shape", *kernel), attr("strides", *kernel));
  });
}

// (…, outputs…, elements of a window), and where each of these stands in its channel.
struct AllWindows {
  Value elements, places;
};

AllWindows all_windows(GraphBuilder& g, Value self, const std::vector<Dim>& output) {
  const auto axes = static_cast<int64_t>(output.size());
  const int64_t leading = self.rank() - axes;
  std::vector<int64_t> places{0}, order(leading);
  std::vector<Dim> dims(self.dims().begin(), self.dims().begin() + leading), place_dims;
  std::iota(order.begin(), order.end(), 0);
  Value x = self;
  int64_t length = 1, count = 1;
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t size = self.dim(leading + i).value();
    const Windows of = windows(size, output[i].value());
    x = gather_windows(g, x, leading + 2 * i, of);
    // Places so far are (outputs, elements of their windows).
    std::vector<int64_t> next;
    for (int64_t before = 0; before < count; ++before) {
      for (int64_t place = 0; place < of.count; ++place) {
        for (int64_t k = 0; k < length; ++k) {
          for (int64_t l = 0; l < of.length; ++l)
            next.push_back(places[before * length + k] * size + of.places[place * of.length + l]);
        }
      }
    }
    places = std::move(next);
    count *= of.count;
    length *= of.length;
    dims.push_back(Dim(of.count));
    place_dims.push_back(Dim(of.count));
    order.push_back(leading + 2 * i);
  }
  for (int64_t i = 0; i < axes; ++i) order.push_back(leading + 2 * i + 1);
  dims.push_back(Dim(length));
  place_dims.push_back(Dim(length));
  Value table = g.expand(g.reshape(g.ints(places), place_dims), dims);
  return {g.reshape(g.transpose(x, order), dims), table};
}

// Greatest elements, and their places, which count from 0 in each channel of each sample.
std::array<Value, 2> adaptive_max_pool(GraphBuilder& g, Value self, const std::vector<Dim>& output) {
  const ElementType type = self.element_type();
  Value elements, places;
  if (is_to_one(output)) {
    std::vector<Dim> dims = self.dims();
    dims.resize(dims.size() - output.size());
    Dim channel(1);
    for (size_t i = 0; i < output.size(); ++i) channel = channel * self.dim(-1 - static_cast<int64_t>(i));
    dims.push_back(channel);
    elements = g.reshape(self, dims);
  } else {
    equal_windows(g, self, output);  // refuses symbolic sizes
    for (size_t i = 0; i < output.size(); ++i) {
      if (!output[i].is_static()) g.refuse("the output size is not constant");
    }
    const AllWindows all = all_windows(g, self, output);
    elements = all.elements;
    places = all.places;
  }
  Extremum greatest(g, true, elements);
  const std::vector<Dim>& result = *g.result().dims;
  Value values = g.reshape(g.cast(greatest.value(std::vector<int64_t>{-1}, false), type), result);
  Value place = greatest.place(-1, true);
  if (places) place = g.op("GatherElements", places, place, attr("axis", -1));
  return {values, g.reshape(place, result)};
}

}  // namespace

void register_adaptive_pooling(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (size_t axes = 1; axes <= 3; ++axes) {
    on(fmt::format("aten::adaptive_avg_pool{0}d(Tensor self, {1}[{0}] output_size) -> Tensor", axes,
                   axes == 1 ? "int" : "SymInt"),
       Since{9}, adaptive_avg_pool);
    if (axes > 1) {
      on(fmt::format("aten::_adaptive_avg_pool{0}d(Tensor self, SymInt[{0}] output_size) -> Tensor", axes),
         Since{9}, adaptive_avg_pool);
    }
    on(fmt::format("aten::adaptive_max_pool{0}d(Tensor self, int[{0}] output_size) -> (Tensor, Tensor)",
                   axes),
       Since{11}, adaptive_max_pool);
  }
}

}  // namespace opbridge::lowering
