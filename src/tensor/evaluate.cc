#include "tensor/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ir/attribute_or.h"
#include "tensor/constants.h"

namespace opbridge::tensor {
namespace {

using Inputs = std::span<const ir::Weight* const>;

// Broadcasts `a` and `b` and writes apply(a, b) as elements of type R.
template <class T, class R, class Apply>
std::optional<ir::Weight> elementwise(const ir::Weight& a, const ir::Weight& b, ElementType result_type,
                                      Apply apply) {
  const std::vector<int64_t> dims = broadcast_shape({a.dims, b.dims});
  const auto strides_a = broadcast_strides(a.dims, dims), strides_b = broadcast_strides(b.dims, dims);
  if (!strides_a || !strides_b || !NewWeight::fits(result_type, dims)) return std::nullopt;
  NewWeight result(result_type, dims);
  const auto* values_a = reinterpret_cast<const T*>(a.bytes.data());
  const auto* values_b = reinterpret_cast<const T*>(b.bytes.data());
  auto* values = reinterpret_cast<R*>(result.bytes.data());
  std::vector<T> left(static_cast<size_t>(count_of(dims)));
  for_each_offset(result.dims, *strides_a, 0,
                  [&](int64_t i, int64_t offset) { left[static_cast<size_t>(i)] = values_a[offset]; });
  bool valid = true;
  for_each_offset(result.dims, *strides_b, 0, [&](int64_t i, int64_t offset) {
    const std::optional<R> value = apply(left[static_cast<size_t>(i)], values_b[offset]);
    valid &= value.has_value();
    values[i] = value.value_or(R());
  });
  if (!valid) return std::nullopt;
  return std::move(result).finish();
}

template <class T>
std::optional<ir::Weight> arithmetic(const std::string& op, const ir::Weight& a, const ir::Weight& b) {
  using Result = std::optional<T>;
  auto with = [&](auto apply) { return elementwise<T, T>(a, b, a.element_type, apply); };
  // Integers wrap around, as in PyTorch.
  using Wide = std::conditional_t<std::is_integral_v<T>,
                                  std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>, T>;
  if (op == "Add") return with([](T x, T y) -> Result { return static_cast<T>(Wide(x) + Wide(y)); });
  if (op == "Sub") return with([](T x, T y) -> Result { return static_cast<T>(Wide(x) - Wide(y)); });
  if (op == "Mul") return with([](T x, T y) -> Result { return static_cast<T>(Wide(x) * Wide(y)); });
  if constexpr (std::is_integral_v<T>) {
    const auto undefined = [](T x, T y) {
      return y == 0 || (y == T(-1) && x == std::numeric_limits<T>::min());
    };
    if (op == "Div")
      return with([&](T x, T y) -> Result { return undefined(x, y) ? Result() : static_cast<T>(x / y); });
    if (op == "Mod") {
      return with([&](T x, T y) -> Result {
        if (undefined(x, y)) return std::nullopt;
        const T rest = static_cast<T>(x % y);
        return rest != 0 && ((rest < 0) != (y < 0)) ? static_cast<T>(rest + y) : rest;
      });
    }
    if (op == "Min") return with([](T x, T y) -> Result { return std::min(x, y); });
    if (op == "Max") return with([](T x, T y) -> Result { return std::max(x, y); });
  } else {
    if (op == "Div") return with([](T x, T y) -> Result { return x / y; });
    if (op == "Min") return with([](T x, T y) -> Result { return std::isnan(x) || x < y ? x : y; });
    if (op == "Max") return with([](T x, T y) -> Result { return std::isnan(x) || x > y ? x : y; });
  }
  return std::nullopt;
}

template <class T>
std::optional<ir::Weight> comparison(const std::string& op, const ir::Weight& a, const ir::Weight& b) {
  using Result = std::optional<uint8_t>;
  auto with = [&](auto apply) { return elementwise<T, uint8_t>(a, b, ElementType::boolean, apply); };
  if (op == "Equal") return with([](T x, T y) -> Result { return x == y; });
  if (op == "Less") return with([](T x, T y) -> Result { return x < y; });
  if (op == "LessOrEqual") return with([](T x, T y) -> Result { return x <= y; });
  if (op == "Greater") return with([](T x, T y) -> Result { return x > y; });
  if (op == "GreaterOrEqual") return with([](T x, T y) -> Result { return x >= y; });
  return std::nullopt;
}

template <class T>
std::optional<ir::Weight> binary(const std::string& op, const ir::Weight& a, const ir::Weight& b) {
  std::optional<ir::Weight> result = arithmetic<T>(op, a, b);
  return result ? result : comparison<T>(op, a, b);
}

std::optional<ir::Weight> binary_of_bool(const std::string& op, const ir::Weight& a, const ir::Weight& b) {
  using Result = std::optional<uint8_t>;
  auto with = [&](auto apply) { return elementwise<uint8_t, uint8_t>(a, b, ElementType::boolean, apply); };
  if (op == "And") return with([](uint8_t x, uint8_t y) -> Result { return x && y; });
  if (op == "Or") return with([](uint8_t x, uint8_t y) -> Result { return x || y; });
  if (op == "Xor") return with([](uint8_t x, uint8_t y) -> Result { return (x != 0) != (y != 0); });
  if (op == "Equal") return with([](uint8_t x, uint8_t y) -> Result { return (x != 0) == (y != 0); });
  return std::nullopt;
}

std::optional<ir::Weight> where(const ir::Weight& condition, const ir::Weight& x, const ir::Weight& y) {
  if (condition.element_type != ElementType::boolean || x.element_type != y.element_type) return std::nullopt;
  const std::vector<int64_t> dims = broadcast_shape({condition.dims, x.dims, y.dims});
  const auto strides_c = broadcast_strides(condition.dims, dims), strides_x = broadcast_strides(x.dims, dims),
             strides_y = broadcast_strides(y.dims, dims);
  if (!strides_c || !strides_x || !strides_y || !NewWeight::fits(x.element_type, dims)) return std::nullopt;
  NewWeight result(x.element_type, dims);
  const size_t size = size_of(x.element_type);
  std::vector<uint8_t> chosen(static_cast<size_t>(count_of(dims)));
  for_each_offset(dims, *strides_c, 0, [&](int64_t i, int64_t offset) {
    chosen[static_cast<size_t>(i)] = condition.bytes[static_cast<size_t>(offset)] != std::byte{0};
  });
  auto copy_where = [&](const ir::Weight& source, const std::vector<int64_t>& strides, bool wanted) {
    for_each_offset(dims, strides, 0, [&](int64_t i, int64_t offset) {
      if ((chosen[static_cast<size_t>(i)] != 0) != wanted) return;
      std::memcpy(result.at(i), source.bytes.data() + static_cast<size_t>(offset) * size, size);
    });
  };
  copy_where(x, *strides_x, true);
  copy_where(y, *strides_y, false);
  return std::move(result).finish();
}

std::optional<ir::Weight> range(Inputs inputs) {
  for (const ir::Weight* input : inputs) {
    if (input->element_type != ElementType::int64 || input->element_count() != 1) return std::nullopt;
  }
  const int64_t start = inputs[0]->as<int64_t>()[0], limit = inputs[1]->as<int64_t>()[0],
                delta = inputs[2]->as<int64_t>()[0];
  if (delta == 0) return std::nullopt;
  const double exact =
      std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
  if (exact > static_cast<double>(largest_folded_bytes)) return std::nullopt;
  const int64_t count = exact < 0 ? 0 : static_cast<int64_t>(exact);
  if (!NewWeight::fits(ElementType::int64, std::span(&count, 1))) return std::nullopt;
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = (Dim(start) + Dim(i) * Dim(delta)).value();
  return ir::Weight::of<int64_t>(values, {count});
}

template <class T>
std::optional<ir::Weight> unary(const std::string& op, const ir::Weight& input) {
  const auto with = [&](auto apply) {
    NewWeight result(input.element_type, input.dims);
    std::ranges::transform(input.as<T>(), reinterpret_cast<T*>(result.bytes.data()), apply);
    return std::move(result).finish();
  };
  if constexpr (std::is_floating_point_v<T>) {
    if (op == "Cos") return with([](T x) { return static_cast<T>(std::cos(static_cast<double>(x))); });
    if (op == "Sin") return with([](T x) { return static_cast<T>(std::sin(static_cast<double>(x))); });
    if (op == "Sqrt") return with([](T x) { return std::sqrt(x); });
    if (op == "Neg") return with([](T x) { return -x; });
    if (op == "Abs") return with([](T x) { return std::abs(x); });
  } else {
    // The least integer wraps around.
    using Wide = std::make_unsigned_t<T>;
    if (op == "Neg") return with([](T x) { return static_cast<T>(-Wide(x)); });
    if (op == "Abs") return with([](T x) { return x < 0 ? static_cast<T>(-Wide(x)) : x; });
  }
  return std::nullopt;
}

// ReduceMax of bool: a logical or along the axes.
std::optional<ir::Weight> any(const ir::Node& node, const ir::Weight& input, std::vector<int64_t> axes) {
  const auto rank = static_cast<int64_t>(input.dims.size());
  std::vector<int64_t> kept = input.dims, dims;
  for (int64_t& axis : axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || input.dims[axis] == 0) return std::nullopt;
    kept[axis] = 1;
  }
  const bool keepdims = ir::attribute_or<int64_t>(node, "keepdims", 1) != 0;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (keepdims || std::ranges::find(axes, axis) == axes.end()) dims.push_back(kept[axis]);
  }
  NewWeight result(ElementType::boolean, kept);
  for_each_offset(input.dims, *broadcast_strides(kept, input.dims), 0,
                  [&](int64_t i, int64_t offset) { result.bytes[offset] |= input.bytes[i]; });
  result.dims = std::move(dims);
  return std::move(result).finish();
}

// (batch…, rows, terms) by (batch…, terms, columns) of float32; nothing for products that would take long.
std::optional<ir::Weight> matmul(const ir::Weight& a, const ir::Weight& b) {
  constexpr int64_t most_products = int64_t{1} << 24;
  if (a.dims.size() < 2 || b.dims.size() < 2 || a.dims.back() != b.dims[b.dims.size() - 2])
    return std::nullopt;
  const int64_t rows = a.dims[a.dims.size() - 2], terms = a.dims.back(), columns = b.dims.back();
  const std::span batch_a(a.dims.data(), a.dims.size() - 2), batch_b(b.dims.data(), b.dims.size() - 2);
  const auto batch = broadcast_shape({batch_a, batch_b});
  const auto strides_a = broadcast_strides(batch_a, batch), strides_b = broadcast_strides(batch_b, batch);
  std::vector<int64_t> dims = batch;
  for (const int64_t dim : {rows, columns}) dims.push_back(dim);
  if (!strides_a || !strides_b || !NewWeight::fits(ElementType::float32, dims)) return std::nullopt;
  if (terms > 0 && count_of(dims) > most_products / terms) return std::nullopt;
  NewWeight result(ElementType::float32, dims);
  if (result.bytes.empty()) return std::move(result).finish();
  auto* out = reinterpret_cast<float*>(result.bytes.data());
  std::vector<const float*> left, right;
  for_each_offset(batch, *strides_a, 0,
                  [&](int64_t, int64_t i) { left.push_back(a.as<float>().data() + i * rows * terms); });
  for_each_offset(batch, *strides_b, 0,
                  [&](int64_t, int64_t i) { right.push_back(b.as<float>().data() + i * terms * columns); });
  std::vector<double> sums(static_cast<size_t>(columns));
  for (size_t matrix = 0; matrix < left.size(); ++matrix) {
    const float *x = left[matrix], *const y = right[matrix];
    for (int64_t row = 0; row < rows; ++row, x += terms) {
      std::ranges::fill(sums, 0);
      for (int64_t k = 0; k < terms; ++k) {
        for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<double>(x[k]) * y[k * columns + j];
      }
      out = std::ranges::copy(sums, out).out;
    }
  }
  return std::move(result).finish();
}

template <class T>
std::optional<ir::Weight> clip(Inputs inputs) {
  NewWeight result(inputs[0]->element_type, inputs[0]->dims);
  auto* const values = reinterpret_cast<T*>(result.bytes.data());
  std::ranges::copy(inputs[0]->as<T>(), values);
  for (size_t bound = 1; bound < inputs.size(); ++bound) {
    if (!inputs[bound]) continue;
    if (inputs[bound]->element_count() != 1) return std::nullopt;
    const T limit = inputs[bound]->as<T>()[0];
    for (T& value : std::span(values, inputs[0]->as<T>().size())) {
      value = bound == 1 ? std::max(value, limit) : std::min(value, limit);
    }
  }
  return std::move(result).finish();
}

std::optional<ir::Weight> logical_not(const ir::Weight& input) {
  NewWeight result(ElementType::boolean, input.dims);
  for (size_t i = 0; i < result.bytes.size(); ++i) {
    result.bytes[i] = input.bytes[i] == std::byte{0} ? std::byte{1} : std::byte{0};
  }
  return std::move(result).finish();
}

std::optional<ir::Weight> cast(const ir::Node& node, const ir::Weight& input) {
  const ir::AttributeValue* to = node.find("to");
  const int64_t* number = to ? std::get_if<int64_t>(to) : nullptr;
  if (!number || *number < 0 || *number > 255) return std::nullopt;
  const auto type = static_cast<ElementType>(*number);
  return NewWeight::fits(type, input.dims) ? convert_weight(input, type) : std::nullopt;
}

}  // namespace

std::optional<ir::Weight> evaluate(const ir::Node& node, Inputs inputs) {
  if (inputs.empty() || !inputs[0]) return std::nullopt;
  if (std::optional<ir::Weight> moved = evaluate_movement(node, inputs)) return moved;
  const ElementType type = inputs[0]->element_type;
  for (const ir::Weight* input : inputs) {
    if (!input && node.op != "Clip") return std::nullopt;
  }
  if (node.op == "Cast") return cast(node, *inputs[0]);
  if (node.op == "Range" && inputs.size() == 3) return range(inputs);
  if (node.op == "Not" && type == ElementType::boolean) return logical_not(*inputs[0]);
  if (node.op == "ReduceMax" && type == ElementType::boolean) {
    const std::optional<std::vector<int64_t>> axes = ints_of(inputs, 1);
    return axes && !axes->empty() ? any(node, *inputs[0], *axes) : std::nullopt;
  }
  if (node.op == "Where" && inputs.size() == 3) return where(*inputs[0], *inputs[1], *inputs[2]);
  if (node.op == "MatMul" && type == ElementType::float32 && inputs[1]->element_type == type)
    return matmul(*inputs[0], *inputs[1]);
  const auto of_type = [&]<class T>(std::type_identity<T>) -> std::optional<ir::Weight> {
    // Before opset 11 the bounds are attributes.
    if (node.op == "Clip" && node.attributes.empty()) return clip<T>(inputs);
    if (inputs.size() == 1) return unary<T>(node.op, *inputs[0]);
    if (node.op == "Mod" && ir::attribute_or<int64_t>(node, "fmod", 0) != 0) return std::nullopt;
    return inputs.size() == 2 ? binary<T>(node.op, *inputs[0], *inputs[1]) : std::nullopt;
  };
  for (const ir::Weight* input : inputs) {
    if (input && input->element_type != type) return std::nullopt;
  }
  switch (type) {
    case ElementType::int64:
      return of_type(std::type_identity<int64_t>());
    case ElementType::int32:
      return of_type(std::type_identity<int32_t>());
    case ElementType::float32:
      return of_type(std::type_identity<float>());
    case ElementType::float64:
      return of_type(std::type_identity<double>());
    case ElementType::boolean:
      return inputs.size() == 2 ? binary_of_bool(node.op, *inputs[0], *inputs[1]) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace opbridge::tensor
