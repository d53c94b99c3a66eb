// Operators for test_operator_sdk.py: every kind of argument and return that the SDK has.
#include <complex>
#include <numeric>

#include "opbridge/operator.h"

using namespace opbridge::op;

// Every kind of attribute, written out so that the test can see what arrives.
OPBRIDGE_OPERATOR(
    "sdktest::attributes(Tensor x, int i, float f, bool b, str s, int[] ints, float[] floats, bool[] flags, "
    "str[] strings, int? maybe_i=None, float? maybe_f=None, str? maybe_s=None, int[]? maybe_ints=None, "
    "int[2] pair=3, str fallback='a, b', float[] halves=[0.5, 1.5]) -> Tensor")
    .shape([](const Shape&, std::int64_t, double, bool, std::string_view, std::span<const std::int64_t>,
              std::span<const double>, std::span<const bool>, std::span<const std::string_view>,
              std::optional<std::int64_t>, std::optional<double>, std::optional<std::string_view>,
              std::optional<std::span<const std::int64_t>>, std::span<const std::int64_t>, std::string_view,
              std::span<const double>) { return Shape{16}; })
    .cpu([](Context&, TensorView<const double> x, std::int64_t i, double f, bool b, std::string_view s,
            std::span<const std::int64_t> ints, std::span<const double> floats, std::span<const bool> flags,
            std::span<const std::string_view> strings, std::optional<std::int64_t> maybe_i,
            std::optional<double> maybe_f, std::optional<std::string_view> maybe_s,
            std::optional<std::span<const std::int64_t>> maybe_ints, std::span<const std::int64_t> pair,
            std::string_view fallback, std::span<const double> halves, TensorView<double> out) {
      const auto sum = [](auto values) { return std::accumulate(values.begin(), values.end(), 0.0); };
      double letters = 0;
      for (const std::string_view text : strings) letters = letters * 10 + static_cast<double>(text.size());
      const double values[] = {x[0],
                               static_cast<double>(i),
                               f,
                               b ? 1.0 : 0.0,
                               static_cast<double>(s.size()),
                               sum(ints),
                               sum(floats),
                               sum(flags),
                               letters,
                               maybe_i ? static_cast<double>(*maybe_i) : -1,
                               maybe_f ? *maybe_f : -1,
                               maybe_s ? static_cast<double>(maybe_s->size()) : -1,
                               maybe_ints ? sum(*maybe_ints) : -1,
                               sum(pair) + 100 * static_cast<double>(pair.size()),
                               static_cast<double>(fallback.size()),
                               sum(halves)};
      std::copy(std::begin(values), std::end(values), out.begin());
    })
    .version(2);

// Optional inputs in the middle and at the end.
OPBRIDGE_OPERATOR("sdktest::sum_present(Tensor a, Tensor? b, Tensor c, Tensor? d=None) -> Tensor")
    .shape([](const Shape& a, const std::optional<Shape>& b, const Shape& c, const std::optional<Shape>& d) {
      require_same_shape(a, c, "a and c");
      if (b) require_same_shape(a, *b, "a and b");
      if (d) require_same_shape(a, *d, "a and d");
      return a;
    })
    .cpu(types<float, std::int64_t>,
         []<class T>(Context&, TensorView<const T> a, std::optional<TensorView<const T>> b,
                     TensorView<const T> c, std::optional<TensorView<const T>> d, TensorView<T> out) {
           for (std::int64_t i = 0; i < out.size(); ++i) {
             out[i] = a[i] + (b ? (*b)[i] * 10 : T(0)) + c[i] * 100 + (d ? (*d)[i] * 1000 : T(0));
           }
         });

// A list of inputs; a list of outputs, as many as inputs.
OPBRIDGE_OPERATOR("sdktest::scale_all(float factor, Tensor[] tensors) -> Tensor[]")
    .shape([](double, const std::vector<Shape>& tensors) { return tensors; })
    .cpu(floating_types, []<class T>(Context&, double factor, std::span<const TensorView<const T>> tensors,
                                     std::span<const TensorView<T>> out) {
      for (std::size_t k = 0; k < out.size(); ++k) {
        for (std::int64_t i = 0; i < out[k].size(); ++i) out[k][i] = static_cast<T>(factor * tensors[k][i]);
      }
    });

// Two lists of element types, two returns of other shapes and types.
OPBRIDGE_OPERATOR("sdktest::gather_rows(Tensor table, Tensor rows) -> (Tensor, Tensor)")
    .shape([](const Shape& table, const Shape& rows) {
      require(table.size() == 2 && rows.size() == 1, "table must have 2 dimensions, rows 1");
      return std::tuple{Shape{rows[0], table[1]}, Shape{rows[0]}};
    })
    .cpu(floating_types, types<std::int32_t, std::int64_t>,
         []<class T, class I>(Context&, TensorView<const T> table, TensorView<const I> rows,
                              TensorView<T> out, TensorView<bool> first) {
           for (std::int64_t i = 0; i < rows.size(); ++i) {
             require(rows[i] >= 0 && rows[i] < table.dim(0),
                     "row " + std::to_string(rows[i]) + " is not in table");
             const TensorView<const T> row = table.slice(rows[i]);
             std::copy(row.begin(), row.end(), out.slice(i).begin());
             first[i] = rows[i] == 0;
           }
         });

// The data decides the size of the output.
OPBRIDGE_OPERATOR("sdktest::positive(Tensor x) -> (Tensor, Tensor)")
    .shape([](const Shape& x) {
      return std::tuple{Shape{Dim::from_data()}, Shape{Dim::from_data(), x.size()}};
    })
    .cpu(types<float>, []<class T>(Context& context, TensorView<const T> x, Output<T> values,
                                   Output<std::int64_t> indices) {
      const std::span<std::int64_t> found = context.scratch<std::int64_t>(x.size());
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        if (x[i] > 0) found[static_cast<std::size_t>(count++)] = i;
      }
      const TensorView<T> value = values.allocate({count});
      const TensorView<std::int64_t> index = indices.allocate({count, x.rank()});
      for (std::int64_t k = 0; k < count; ++k) {
        std::int64_t rest = found[static_cast<std::size_t>(k)];
        value[k] = x[rest];
        for (int d = x.rank() - 1; d >= 0; --d) {
          index(k, d) = rest % x.dim(d);
          rest /= x.dim(d);
        }
      }
    });

// Sizes computed from sizes: arithmetic, branches, demands; SymInt.
OPBRIDGE_OPERATOR("sdktest::windows(Tensor x, SymInt size, SymInt[] extra, int step=1) -> Tensor")
    .shape([](const Shape& x, const Dim& size, const Shape& extra, std::int64_t step) {
      require(x.size() == 1, "x must have 1 dimension");
      require(size > 0, "size must be positive");
      require(size <= x[0], "size must not be larger than x");
      Shape out{(x[0] - size) / step + 1, size};
      for (const Dim& dim : extra) out.push_back(min(max(dim, 1), x[0]) * 2 - dim % 2);
      return out;
    })
    .cpu(types<float>, []<class T>(Context&, TensorView<const T> x, std::int64_t,
                                   std::span<const std::int64_t>, std::int64_t step, TensorView<T> out) {
      std::int64_t repeats = 1;
      for (int d = 2; d < out.rank(); ++d) repeats *= out.dim(d);
      for (std::int64_t i = 0; i < out.dim(0); ++i) {
        for (std::int64_t j = 0; j < out.dim(1); ++j) {
          std::fill_n(out.data() + (i * out.dim(1) + j) * repeats, repeats, x[i * step + j]);
        }
      }
    });

// Errors from the calling thread and from a part of a parallel_for; scratch inside parts.
OPBRIDGE_OPERATOR("sdktest::fail_at(Tensor x, int at) -> Tensor")
    .shape([](const Shape& x, std::int64_t) { return x; })
    .cpu(types<float>,
         []<class T>(Context& context, TensorView<const T> x, std::int64_t at, TensorView<T> out) {
           if (at < 0) throw std::runtime_error("failed before it began");
           context.parallel_for(x.size(), 1, [&](std::int64_t begin, std::int64_t end) {
             const std::span<T> copy = context.scratch<T>(end - begin);
             for (std::int64_t i = begin; i < end; ++i) {
               if (i == at) throw std::runtime_error("failed at " + std::to_string(i));
               copy[static_cast<std::size_t>(i - begin)] = x[i];
             }
             std::copy(copy.begin(), copy.end(), out.begin() + begin);
           });
         });

// A gradient with an argument that has none, an optional one, and attributes; two returns.
OPBRIDGE_OPERATOR("sdktest::affine(Tensor x, Tensor rows, Tensor? shift, float scale) -> (Tensor, Tensor)")
    .shape([](const Shape& x, const Shape& rows, const std::optional<Shape>& shift, double) {
      require_same_shape(x, rows, "x and rows");
      if (shift) require_same_shape(x, *shift, "x and shift");
      return std::tuple{x, x};
    })
    .cpu(floating_types,
         []<class T>(Context&, TensorView<const T> x, TensorView<const std::int64_t> rows,
                     std::optional<TensorView<const T>> shift, double scale, TensorView<T> y,
                     TensorView<T> square) {
           for (std::int64_t i = 0; i < x.size(); ++i) {
             y[i] = static_cast<T>(scale) * x[i] * static_cast<T>(rows[i]) + (shift ? (*shift)[i] : T(0));
             square[i] = x[i] * x[i];
           }
         })
    .backward(floating_types, []<class T>(Context&, TensorView<const T> grad_y,
                                          TensorView<const T> grad_square, TensorView<const T> x,
                                          TensorView<const std::int64_t> rows,
                                          std::optional<TensorView<const T>>, double scale,
                                          std::optional<TensorView<T>> grad_x, NoGradient,
                                          std::optional<TensorView<T>> grad_shift) {
      for (std::int64_t i = 0; i < x.size(); ++i) {
        if (grad_x) {
          (*grad_x)[i] =
              static_cast<T>(scale) * static_cast<T>(rows[i]) * grad_y[i] + 2 * x[i] * grad_square[i];
        }
        if (grad_shift) (*grad_shift)[i] = grad_y[i];
      }
    });

// Allocates its output in the shape given, as often as the test says, and then throws a value that is not an
// exception.
OPBRIDGE_OPERATOR("sdktest::allocates(Tensor x, int[] dims, int times=1, bool fails=False) -> Tensor")
    .shape([](const Shape&, std::span<const std::int64_t>, std::int64_t, bool) {
      return Shape{Dim::from_data(), 3};
    })
    .cpu(types<float>, []<class T>(Context&, TensorView<const T>, std::span<const std::int64_t> dims,
                                   std::int64_t times, bool fails, Output<T> out) noexcept(false) {
      for (std::int64_t i = 0; i < times; ++i) {
        TensorView<T> made = out.allocate(dims);
        std::fill(made.begin(), made.end(), T(1));
      }
      if (fails) throw "no exception";
    });

// No operator writes to its inputs, whatever its name.
OPBRIDGE_OPERATOR("sdktest::negated_(Tensor x) -> Tensor")
    .shape([](const Shape& x) { return x; })
    .cpu(types<float>, []<class T>(Context&, TensorView<const T> x, TensorView<T> out) {
      for (std::int64_t i = 0; i < x.size(); ++i) out[i] = -x[i];
    });

// Element types of which PyTorch alone has tensors.
OPBRIDGE_OPERATOR("sdktest::conjugated(Tensor x) -> Tensor")
    .shape([](const Shape& x) { return x; })
    .cpu(types<std::complex<float>>, []<class T>(Context&, TensorView<const T> x, TensorView<T> out) {
      for (std::int64_t i = 0; i < x.size(); ++i) out[i] = std::conj(x[i]);
    });
