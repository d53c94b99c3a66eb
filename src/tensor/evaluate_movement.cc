#include <algorithm>
#include <cstring>
#include <limits>

#include "ir/attribute_or.h"
#include "tensor/evaluate.h"
#include "tensor/shape.h"

namespace opbridge::tensor {
namespace {

using Inputs = std::span<const ir::Weight* const>;
using Dims = std::vector<int64_t>;

// `source` read with `strides` from element `start`, in the shape `dims`.
std::optional<ir::Weight> view_copy(const ir::Weight& source, Dims dims, std::span<const int64_t> strides,
                                    int64_t start) {
  if (!NewWeight::fits(source.element_type, dims)) return std::nullopt;
  NewWeight result(source.element_type, std::move(dims));
  const size_t size = size_of(source.element_type);
  for_each_offset(result.dims, strides, start, [&](int64_t i, int64_t offset) {
    std::memcpy(result.at(i), source.bytes.data() + offset * static_cast<int64_t>(size), size);
  });
  return std::move(result).finish();
}

// The same bytes in another shape.
ir::Weight reshaped(const ir::Weight& source, Dims dims) {
  return {source.element_type, std::move(dims), source.bytes, source.owner};
}

std::optional<ir::Weight> reshape(const ir::Node& node, const ir::Weight& source, Dims shape) {
  const bool allow_zero = ir::attribute_or<int64_t>(node, "allowzero", 0) != 0;
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= source.dims.size()) return std::nullopt;
      shape[i] = source.dims[i];
    }
    if (shape[i] != -1) continue;
    if (open) return std::nullopt;
    open = i;
    shape[i] = 1;
  }
  const int64_t count = source.element_count();
  const std::optional<int64_t> known = checked_count(shape);
  if (!known) return std::nullopt;
  if (open) shape[*open] = *known == 0 ? 0 : count / *known;
  if (count_of(shape) != count) return std::nullopt;
  return reshaped(source, std::move(shape));
}

std::optional<ir::Weight> slice(Inputs inputs) {
  const ir::Weight& source = *inputs[0];
  const auto rank = static_cast<int64_t>(source.dims.size());
  const std::optional<Dims> starts = ints_of(inputs, 1), ends = ints_of(inputs, 2);
  if (!starts || !ends) return std::nullopt;
  Dims axes(starts->size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  if (inputs.size() > 3 && inputs[3]) {
    std::optional<Dims> given = ints_of(inputs, 3);
    if (!given) return std::nullopt;
    axes = *given;
  }
  Dims steps = ints_of(inputs, 4).value_or(Dims(starts->size(), 1));
  if (ends->size() != starts->size() || axes.size() != starts->size() || steps.size() != starts->size())
    return std::nullopt;
  Dims dims = source.dims, strides = row_major_strides(source.dims);
  int64_t start = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || steps[i] < 1) return std::nullopt;
    const int64_t size = source.dims[axis], step = std::min(steps[i], std::max<int64_t>(size, 1));
    auto bound = [size](int64_t value) {
      return std::clamp<int64_t>(value < 0 ? value + size : value, 0, size);
    };
    const int64_t from = bound((*starts)[i]), to = bound((*ends)[i]);
    dims[axis] = to > from ? (to - from - 1) / step + 1 : 0;
    start += from * strides[axis];
    strides[axis] *= step;
  }
  return view_copy(source, std::move(dims), strides, start);
}

std::optional<ir::Weight> transpose(const ir::Node& node, const ir::Weight& source) {
  const ir::AttributeValue* value = node.find("perm");
  const auto* permutation = value ? std::get_if<Dims>(value) : nullptr;
  if (!permutation || permutation->size() != source.dims.size()) return std::nullopt;
  const Dims strides = row_major_strides(source.dims);
  Dims dims, permuted;
  for (int64_t axis : *permutation) {
    if (axis < 0 || axis >= std::ssize(strides)) return std::nullopt;
    dims.push_back(source.dims[axis]);
    permuted.push_back(strides[axis]);
  }
  return view_copy(source, std::move(dims), permuted, 0);
}

std::optional<ir::Weight> expand(Inputs inputs) {
  const std::optional<Dims> shape = ints_of(inputs, 1);
  if (!shape) return std::nullopt;
  Dims dims = broadcast_shape({*shape, inputs[0]->dims});  // either side may broadcast
  const std::optional<Dims> strides = broadcast_strides(inputs[0]->dims, dims);
  return strides ? view_copy(*inputs[0], std::move(dims), *strides, 0) : std::nullopt;
}

std::optional<ir::Weight> concat(const ir::Node& node, Inputs inputs) {
  Dims dims = inputs[0]->dims;
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t axis = ir::attribute_or<int64_t>(node, "axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  int64_t length = 0;
  for (const ir::Weight* input : inputs) {
    if (input->element_type != inputs[0]->element_type || input->dims.size() != dims.size())
      return std::nullopt;
    if (__builtin_add_overflow(length, input->dims[axis], &length)) return std::nullopt;
    dims[axis] = input->dims[axis];
    if (input->dims != dims) return std::nullopt;
  }
  dims[axis] = length;
  if (!NewWeight::fits(inputs[0]->element_type, dims)) return std::nullopt;
  NewWeight result(inputs[0]->element_type, dims);
  const int64_t outer = count_of(std::span(dims).first(axis));
  std::byte* to = result.bytes.data();
  for (int64_t i = 0; i < outer; ++i) {
    for (const ir::Weight* input : inputs) {
      const size_t run = input->bytes.size() / static_cast<size_t>(outer);
      if (run > 0) std::memcpy(to, input->bytes.data() + static_cast<size_t>(i) * run, run);
      to += run;
    }
  }
  return std::move(result).finish();
}

std::optional<ir::Weight> gather(const ir::Node& node, Inputs inputs) {
  const ir::Weight& source = *inputs[0];
  const std::optional<Dims> indices = ints_of(inputs, 1);
  if (!indices) return std::nullopt;
  const auto rank = static_cast<int64_t>(source.dims.size());
  int64_t axis = ir::attribute_or<int64_t>(node, "axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  Dims dims(source.dims.begin(), source.dims.begin() + axis);
  dims.insert(dims.end(), inputs[1]->dims.begin(), inputs[1]->dims.end());
  dims.insert(dims.end(), source.dims.begin() + axis + 1, source.dims.end());
  if (!NewWeight::fits(source.element_type, dims)) return std::nullopt;
  NewWeight result(source.element_type, std::move(dims));
  const int64_t outer = count_of(std::span(source.dims).first(axis)), size = source.dims[axis];
  const size_t run =
      static_cast<size_t>(count_of(std::span(source.dims).subspan(axis + 1))) * size_of(source.element_type);
  std::byte* to = result.bytes.data();
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t index : *indices) {
      if (index < -size || index >= size) return std::nullopt;
      const int64_t row = i * size + (index < 0 ? index + size : index);
      if (run > 0) std::memcpy(to, source.bytes.data() + static_cast<size_t>(row) * run, run);
      to += run;
    }
  }
  return std::move(result).finish();
}

std::optional<ir::Weight> unsqueeze(Inputs inputs) {
  std::optional<Dims> axes = ints_of(inputs, 1);
  if (!axes) return std::nullopt;
  Dims dims = inputs[0]->dims;
  const auto rank = static_cast<int64_t>(dims.size() + axes->size());
  for (int64_t& axis : *axes) axis = axis < 0 ? axis + rank : axis;
  std::ranges::sort(*axes);
  for (int64_t axis : *axes) {
    if (axis < 0 || axis > static_cast<int64_t>(dims.size())) return std::nullopt;
    dims.insert(dims.begin() + axis, 1);
  }
  return reshaped(*inputs[0], std::move(dims));
}

std::optional<ir::Weight> tile(Inputs inputs) {
  const std::optional<Dims> repeats = ints_of(inputs, 1);
  if (!repeats || repeats->size() != inputs[0]->dims.size()) return std::nullopt;
  // Each axis gets an extra axis before it, over which the copies are broadcast.
  Dims dims, once, spread;
  for (size_t axis = 0; axis < repeats->size(); ++axis) {
    const int64_t size = inputs[0]->dims[axis], copies = (*repeats)[axis];
    if (copies < 0 || (size > 0 && copies > std::numeric_limits<int64_t>::max() / size)) return std::nullopt;
    dims.push_back(copies * size);
    once.insert(once.end(), {1, size});
    spread.insert(spread.end(), {copies, size});
  }
  const std::optional<std::vector<int64_t>> strides = broadcast_strides(once, spread);
  if (!strides) return std::nullopt;
  const std::optional<ir::Weight> result = view_copy(*inputs[0], std::move(spread), *strides, 0);
  return result ? std::optional(reshaped(*result, std::move(dims))) : std::nullopt;
}

std::optional<ir::Weight> squeeze(Inputs inputs) {
  const std::optional<Dims> axes = ints_of(inputs, 1);
  if (!axes) return std::nullopt;
  const auto rank = static_cast<int64_t>(inputs[0]->dims.size());
  Dims dims;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool dropped = std::ranges::any_of(*axes, [&](int64_t a) { return a == axis || a + rank == axis; });
    if (dropped && inputs[0]->dims[axis] != 1) return std::nullopt;
    if (!dropped) dims.push_back(inputs[0]->dims[axis]);
  }
  return reshaped(*inputs[0], std::move(dims));
}

std::optional<ir::Weight> constant_of_shape(const ir::Node& node, Inputs inputs) {
  const std::optional<Dims> shape = ints_of(inputs, 0);
  if (!shape) return std::nullopt;
  const ir::AttributeValue* value = node.find("value");
  const auto* filler = value ? std::get_if<std::shared_ptr<const ir::Weight>>(value) : nullptr;
  const ElementType type = filler ? (*filler)->element_type : ElementType::float32;
  if (!NewWeight::fits(type, *shape)) return std::nullopt;
  NewWeight result(type, *shape);
  if (filler) {
    const int64_t count = count_of(*shape);
    for (int64_t i = 0; i < count; ++i) std::memcpy(result.at(i), (*filler)->bytes.data(), size_of(type));
  }
  return std::move(result).finish();
}

}  // namespace

std::optional<Dims> ints_of(Inputs inputs, size_t index) {
  if (index >= inputs.size() || !inputs[index] || inputs[index]->element_type != ElementType::int64)
    return std::nullopt;
  const std::span<const int64_t> values = inputs[index]->as<int64_t>();
  return Dims(values.begin(), values.end());
}

NewWeight::NewWeight(ElementType type, std::vector<int64_t> shape)
    : element_type(type),
      dims(std::move(shape)),
      bytes(static_cast<size_t>(count_of(dims)) * size_of(type)) {}

bool NewWeight::fits(ElementType type, std::span<const int64_t> shape) {
  if (size_of(type) == 0) return false;
  size_t bytes = size_of(type);
  for (int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && bytes > largest_folded_bytes / static_cast<size_t>(dim))) return false;
    bytes *= static_cast<size_t>(dim);
  }
  return true;
}

ir::Weight NewWeight::finish() && {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {element_type, std::move(dims), std::span(*owner), owner};
}

// Both wrap around for an empty tensor with huge dims.
std::vector<int64_t> row_major_strides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  uint64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(dims[axis]);
  }
  return strides;
}

int64_t count_of(std::span<const int64_t> dims) {
  uint64_t count = 1;
  for (int64_t dim : dims) count *= static_cast<uint64_t>(dim);
  return static_cast<int64_t>(count);
}

std::optional<int64_t> checked_count(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

std::vector<int64_t> broadcast_shape(std::initializer_list<std::span<const int64_t>> shapes) {
  std::vector<int64_t> dims;
  for (const std::span<const int64_t> shape : shapes) {
    dims = broadcast_shape(std::span<const int64_t>(dims), shape,
                           [](int64_t a, int64_t b) { return a == 1 ? b : a; });
  }
  return dims;
}

std::optional<std::vector<int64_t>> broadcast_strides(std::span<const int64_t> dims,
                                                      std::span<const int64_t> result) {
  if (dims.size() > result.size()) return std::nullopt;
  const std::vector<int64_t> own = row_major_strides(dims);
  std::vector<int64_t> strides(result.size(), 0);
  const size_t offset = result.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == result[offset + i]) {
      strides[offset + i] = dims[i] == 1 ? 0 : own[i];
    } else if (dims[i] != 1) {
      return std::nullopt;
    }
  }
  return strides;
}

std::optional<ir::Weight> evaluate_movement(const ir::Node& node, Inputs inputs) {
  const std::string& op = node.op;
  const size_t omitted_from = op == "Slice" ? 3 : inputs.size();
  for (size_t i = 0; i < std::min(omitted_from, inputs.size()); ++i) {
    if (!inputs[i] || size_of(inputs[i]->element_type) == 0) return std::nullopt;
  }
  if (op == "Identity") return *inputs[0];
  if (op == "Reshape") {
    std::optional<Dims> shape = ints_of(inputs, 1);
    return shape ? reshape(node, *inputs[0], std::move(*shape)) : std::nullopt;
  }
  if (op == "Slice" && inputs.size() >= 3) return slice(inputs);
  if (op == "Transpose") return transpose(node, *inputs[0]);
  if (op == "Expand") return expand(inputs);
  if (op == "Concat") return concat(node, inputs);
  if (op == "Gather") return gather(node, inputs);
  if (op == "Unsqueeze") return unsqueeze(inputs);
  if (op == "Squeeze") return squeeze(inputs);
  if (op == "Tile" && inputs.size() == 2) return tile(inputs);
  if (op == "ConstantOfShape") return constant_of_shape(node, inputs);
  return std::nullopt;
}

}  // namespace opbridge::tensor
