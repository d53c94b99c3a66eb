// Creation of tensors. Size and element type are those of PyTorch's result.
#include <fmt/format.h>

#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

Value filled_result(GraphBuilder& g, const Scalar& value) {
  return filled(g, *g.result().dims, value, g.result().element_type);
}

Value from_numbers(GraphBuilder& g, std::span<const double> values, std::vector<int64_t> dims) {
  return g.cast(g.constant(ir::Weight::of(values, std::move(dims))), g.result().element_type);
}

// start, start + step, …: as many elements as PyTorch's result has. Each is computed from its index, in
// float64.
Value counted_from(GraphBuilder& g, const Scalar& start, const Scalar& step) {
  const ElementType type = g.result().element_type;
  auto is = [](const Scalar& number, int64_t value) {
    return number.is_static() && number.to_double() == static_cast<double>(value);
  };
  Value zero = g.scalar(0, ElementType::int64), one = g.scalar(1, ElementType::int64);
  Value result = g.typed(g.op("Range", zero, g.size(g.result().dims->at(0)), one), *g.result().dims);
  const ElementType wide = is_integral(type) ? ElementType::int64 : ElementType::float64;
  if (is(start, 0) && is(step, 1)) return g.cast(result, type);
  result = g.cast(result, wide);
  if (!is(step, 1)) result = g.op("Mul", result, g.scalar(step, wide));
  if (!is(start, 0)) result = g.op("Add", result, g.scalar(start, wide));
  return g.cast(result, type);
}

Value arange(GraphBuilder& g, const Scalar& start, const Scalar& end, const Scalar& step) {
  const ElementType type = g.result().element_type;
  const bool all_integral = start.is_integral() && end.is_integral() && step.is_integral();
  if (is_integral(type) && all_integral) {
    const ElementType wide = integral_promotion(type);  // the end may lie beyond the type
    return g.cast(g.op("Range", g.scalar(start, wide), g.scalar(end, wide), g.scalar(step, wide)), type);
  }
  return counted_from(g, start, step);
}

// Counts from both ends to the middle, with steps in the precision of the result, as PyTorch does. Products
// and sums are rounded once, as in its kernels for processors that fuse them: integers are truncated.
template <class T>
std::vector<double> linspace(T start, T end, int64_t steps) {
  std::vector<double> values(steps);
  const T step = steps > 1 ? (end - start) / static_cast<T>(steps - 1) : T(0);
  for (int64_t i = 0; i < steps; ++i) {
    values[i] = i < steps / 2 || steps == 1 ? std::fma(step, static_cast<T>(i), start)
                                            : std::fma(-step, static_cast<T>(steps - 1 - i), end);
  }
  return values;
}

std::vector<double> linspace(GraphBuilder& g, const Scalar& start, const Scalar& end, int64_t steps) {
  check_constant(g, steps);
  const ElementType type = g.result().element_type;
  if (is_integral(type))
    return linspace<double>(static_cast<double>(start.to_int()), static_cast<double>(end.to_int()), steps);
  if (type == ElementType::float64) return linspace<double>(start.to_double(), end.to_double(), steps);
  return linspace<float>(static_cast<float>(start.to_double()), static_cast<float>(end.to_double()), steps);
}

// a * count + c in float64, rounded once. The halves of `a` (Dekker 1971) have exact products with counts of
// up to 26 bits; the first sum's error is exact too (Knuth's TwoSum).
Value fused_multiply_add(GraphBuilder& g, Value a, Value count, Value c) {
  Value scaled = g.op("Mul", a, g.scalar((1 << 27) + 1, ElementType::float64));
  Value high = g.op("Sub", scaled, g.op("Sub", scaled, a));
  Value product = g.op("Mul", high, count), rest = g.op("Mul", g.op("Sub", a, high), count);
  Value sum = g.op("Add", product, c);
  Value of_c = g.op("Sub", sum, product);
  Value error = g.op("Add", g.op("Sub", product, g.op("Sub", sum, of_c)), g.op("Sub", c, of_c));
  return g.op("Add", sum, g.op("Add", error, rest));
}

// The same for ends that are data, computed when the model runs.
Value linspace(GraphBuilder& g, Value start, Value end, int64_t steps) {
  check_constant(g, steps);
  const ElementType type = g.result().element_type;
  const ElementType wide = is_integral(type) ? ElementType::float64 : opmath_type(type);
  start = g.cast(g.cast(start, type), wide);
  if (steps == 1) return g.reshape(start, {Dim(1)});
  end = g.cast(g.cast(end, type), wide);
  std::vector<double> steps_from_end(steps);
  std::vector<uint8_t> first_half(steps);
  for (int64_t i = 0; i < steps; ++i) {
    first_half[i] = i < steps / 2;
    steps_from_end[i] = static_cast<double>(first_half[i] ? i : steps - 1 - i);
  }
  Value step = g.op("Div", g.op("Sub", end, start), g.scalar(steps - 1, wide));
  Value from_start =
      g.cast(g.constant(ir::Weight::of(std::span<const uint8_t>(first_half), {steps})), ElementType::boolean);
  Value counts = g.cast(g.constant(ir::Weight::of(std::span<const double>(steps_from_end), {steps})), wide);
  Value nearest = g.op("Where", from_start, start, end);
  step = g.op("Where", from_start, step, g.op("Neg", step));
  return is_integral(type) ? fused_multiply_add(g, step, counts, nearest)
                           : g.op("Add", nearest, g.op("Mul", step, counts));
}

Value eye(GraphBuilder& g) {
  const ElementType type = g.result().element_type, wide = opmath_type(type);
  return g.cast(g.op("EyeLike", filled(g, *g.result().dims, 0, wide), attr("dtype", wide)), type);
}

// 0, 1, … size - 1 as a column (axis -2) or a row (axis -1).
Value indices_along(GraphBuilder& g, Value like, int64_t axis) {
  Value range = arithmetic(g, 0, 1, like.dim(axis));
  return axis == -1 ? range : g.unsqueeze(range, {-1});
}

// The upper or lower triangle of `self`, bounded by the diagonal `diagonal`; zero elsewhere.
Value triangle(GraphBuilder& g, bool upper, Value self, const Dim& diagonal) {
  const ElementType type = g.result().element_type;
  // Trilu selects elements, of any type.
  Value x = type == ElementType::boolean ? self : operand(g, self, type);
  if (g.opset() >= 14) return g.cast(g.op("Trilu", x, g.size(diagonal), attr("upper", upper)), type);
  Value border = g.op("Add", indices_along(g, self, -2), g.size(diagonal));
  Value kept = g.op(upper ? "GreaterOrEqual" : "LessOrEqual", indices_along(g, self, -1), border);
  if (type == ElementType::boolean) return g.op("And", x, kept);
  return g.cast(g.op("Where", kept, x, g.scalar_like(x, 0)), type);
}

Value triangle_indices(GraphBuilder& g, bool upper, int64_t rows, int64_t columns, int64_t offset) {
  for (const Dim& number : {Dim(rows), Dim(columns), Dim(rows) * Dim(columns)})
    check_constant(g, number.value());
  offset = std::clamp(offset, -rows, columns);
  std::vector<double> row, column;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (upper ? j < i + offset : j > i + offset) continue;
      row.push_back(static_cast<double>(i));
      column.push_back(static_cast<double>(j));
    }
  }
  const auto count = static_cast<int64_t>(row.size());
  row.insert(row.end(), column.begin(), column.end());
  return from_numbers(g, row, {2, count});
}

Value one_hot(GraphBuilder& g, Value self, int64_t classes) {
  if (classes < 0) g.refuse("the number of classes depends on the values; pass num_classes");
  Value indices = self.rank() == 0 ? g.unsqueeze(self, {0}) : self;
  Value result = g.op("OneHot", indices, g.scalar(classes, ElementType::int64), g.ints({0, 1}));
  return self.rank() == 0 ? g.reshape(result, *g.result().dims) : result;
}

// The frequencies of a discrete Fourier transform of `n` samples at `distance`. `half`: only the first half,
// in which the last frequency is positive.
Value frequencies(GraphBuilder& g, int64_t n, double distance, bool half) {
  const int64_t count = half ? n / 2 + 1 : n;
  check_constant(g, count);
  const bool single = g.result().element_type != ElementType::float64;
  const double unit = 1 / (static_cast<double>(n) * distance);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<double>(half || i < (n + 1) / 2 ? i : i - n);
    values.push_back(single ? static_cast<float>(number) * static_cast<float>(unit) : number * unit);
  }
  return from_numbers(g, values, {static_cast<int64_t>(values.size())});
}

}  // namespace

void register_creation(SymbolicRegistry& registry) {
  auto on = add(registry);

  // The derivative of a step.
  on(fmt::format("aten::_efficientzerotensor(SymInt[] size, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored) { return filled_result(g, 0); });

  // Tensors that PyTorch leaves uninitialized are zero.
  for (const auto& [name, value] : {std::pair{"zeros", 0}, {"ones", 1}, {"empty", 0}}) {
    const bool is_empty = std::string_view(name) == "empty";
    on(fmt::format("aten::new_{}(Tensor self, SymInt[] size, *, {}) -> Tensor", name, tensor_options),
       Since{9}, [value = value](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) {
         return filled_result(g, value);
       });
    on(fmt::format("aten::{}_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", name,
                   tensor_options),
       Since{9}, [value = value](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) {
         return filled_result(g, value);
       });
    if (is_empty) continue;
    on(fmt::format("aten::{}(SymInt[] size, *, {}) -> Tensor", name, tensor_options), Since{9},
       [value = value](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored) {
         return filled_result(g, value);
       });
  }
  on(fmt::format(
         "aten::empty.memory_format(SymInt[] size, *, {}, MemoryFormat? memory_format=None) -> Tensor",
         tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return filled_result(g, 0);
     });
  on(fmt::format("aten::empty_permuted(SymInt[] size, int[] physical_layout, *, {}) -> Tensor",
                 tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return filled_result(g, 0);
     });
  on(fmt::format("aten::empty_strided(SymInt[] size, SymInt[] stride, *, {}) -> Tensor", tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return filled_result(g, 0);
     });

  on(fmt::format("aten::full(SymInt[] size, Scalar fill_value, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Ignored, Scalar value, Ignored, Ignored, Ignored, Ignored) {
       return filled_result(g, value);
     });
  on(fmt::format("aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, {}) -> Tensor",
                 tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Ignored, Scalar value, Ignored, Ignored, Ignored, Ignored) {
       return filled_result(g, value);
     });
  on(fmt::format("aten::full_like(Tensor self, Scalar fill_value, *, {}, MemoryFormat? memory_format=None) "
                 "-> Tensor",
                 tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Scalar value, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return filled_result(g, value);
     });
  on("aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, Scalar value) { return filled_result(g, value); });
  on("aten::fill.Tensor(Tensor self, Tensor value) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, Value value) { return filled_result(g, value); });
  on("aten::zero(Tensor self) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored) { return filled_result(g, 0); });
  on(fmt::format("aten::scalar_tensor(Scalar s, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Scalar value, Ignored, Ignored, Ignored, Ignored) {
       return filled_result(g, value);
     });

  on("aten::_dim_arange(Tensor like, int dim) -> Tensor", Since{9},
     [](GraphBuilder& g, Value like, int64_t dim) { return arithmetic(g, 0, 1, like.dim(dim)); });
  on(fmt::format("aten::arange(Scalar end, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Scalar end, Ignored, Ignored, Ignored, Ignored) { return arange(g, 0, end, 1); });
  on(fmt::format("aten::arange.start(Scalar start, Scalar end, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Scalar start, Scalar end, Ignored, Ignored, Ignored, Ignored) {
       return arange(g, start, end, 1);
     });
  on(fmt::format("aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {}) -> Tensor",
                 tensor_options),
     Since{9},
     [](GraphBuilder& g, Scalar start, Scalar end, Scalar step, Ignored, Ignored, Ignored, Ignored) {
       return arange(g, start, end, step);
     });
  // The range contains the end; PyTorch gives its number of elements.
  on(fmt::format("aten::range(Scalar start, Scalar end, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Scalar start, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return counted_from(g, start, 1);
     });
  on(fmt::format("aten::range.step(Scalar start, Scalar end, Scalar step=1, *, {}) -> Tensor",
                 tensor_options),
     Since{9}, [](GraphBuilder& g, Scalar start, Ignored, Scalar step, Ignored, Ignored, Ignored, Ignored) {
       return counted_from(g, start, step);
     });
  on(fmt::format("aten::linspace(Scalar start, Scalar end, int steps, *, {}) -> Tensor", tensor_options),
     Since{9},
     [](GraphBuilder& g, Scalar start, Scalar end, int64_t steps, Ignored, Ignored, Ignored, Ignored) {
       return from_numbers(g, linspace(g, start, end, steps), {steps});
     });
  for (const char* name : {"fftfreq", "rfftfreq"}) {
    on(fmt::format("aten::fft_{}(int n, float d=1.0, *, {}) -> Tensor", name, tensor_options), Since{9},
       [half = *name == 'r'](GraphBuilder& g, int64_t n, double distance, Ignored, Ignored, Ignored,
                             Ignored) { return frequencies(g, n, distance, half); });
  }
  on(fmt::format("aten::logspace(Scalar start, Scalar end, int steps, float base=10., *, {}) -> Tensor",
                 tensor_options),
     Since{9},
     [](GraphBuilder& g, Scalar start, Scalar end, int64_t steps, double base, Ignored, Ignored, Ignored,
        Ignored) {
       std::vector<double> values = linspace(g, start, end, steps);
       for (double& value : values) value = std::pow(base, value);
       return from_numbers(g, values, {steps});
     });

  for (const char* ends : {"Tensor_Tensor(Tensor start, Tensor end", "Tensor_Scalar(Tensor start, Scalar end",
                           "Scalar_Tensor(Scalar start, Tensor end"}) {
    on(fmt::format("aten::linspace.{}, int steps, *, {}) -> Tensor", ends, tensor_options), Since{9},
       [](GraphBuilder& g, Value start, Value end, int64_t steps, Ignored, Ignored, Ignored, Ignored) {
         return g.cast(linspace(g, start, end, steps), g.result().element_type);
       });
    on(fmt::format("aten::logspace.{}, int steps, float base=10., *, {}) -> Tensor", ends, tensor_options),
       Since{9},
       [](GraphBuilder& g, Value start, Value end, int64_t steps, double base, Ignored, Ignored, Ignored,
          Ignored) {
         // For more than one step, PyTorch rounds the ends to the result's type first.
         Value exponents = steps == 1 ? g.reshape(g.cast(start, ElementType::float64), {Dim(1)})
                                      : linspace(g, start, end, steps);
         return g.cast(g.op("Pow", g.scalar_like(exponents, base), exponents), g.result().element_type);
       });
  }

  on(fmt::format("aten::eye(SymInt n, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored) { return eye(g); });
  on(fmt::format("aten::eye.m(SymInt n, SymInt m, *, {}) -> Tensor", tensor_options), Since{9},
     [](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) { return eye(g); });
  for (const bool upper : {true, false}) {
    const char* name = upper ? "triu" : "tril";
    on(fmt::format("aten::{}(Tensor self, SymInt diagonal=0) -> Tensor", name), Since{9},
       [upper](GraphBuilder& g, Value self, Dim diagonal) { return triangle(g, upper, self, diagonal); });
    on(fmt::format("aten::{}_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, "
                   "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
                   name),
       Since{9},
       [upper](GraphBuilder& g, int64_t rows, int64_t columns, int64_t offset, Ignored, Ignored, Ignored,
               Ignored) { return triangle_indices(g, upper, rows, columns, offset); });
  }
  on("aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", Since{9}, one_hot);
}

}  // namespace opbridge::lowering
