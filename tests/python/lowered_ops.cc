// Operators for test_operator_lowering.py: all but one say how standard ONNX does the same.
#include <numeric>

#include "opbridge/operator.h"

using namespace opbridge::op;

OPBRIDGE_OPERATOR("lowered::hard_clip(Tensor x, float limit=3.0) -> Tensor")
    .shape([](const Shape& x, double) { return x; })
    .cpu(types<float, double, Half>,
         []<class T>(Context&, TensorView<const T> x, double limit, TensorView<T> out) {
           const T most = static_cast<T>(static_cast<float>(limit));
           for (std::int64_t i = 0; i < out.size(); ++i) out[i] = std::clamp<T>(x[i], T(-most), most);
         })
    .onnx(Since{11}, [](GraphBuilder& g, Value x, double limit) {
      return g.op("Clip", x, g.scalar_like(x, -limit), g.scalar_like(x, limit));
    });

// Which lowering held is seen from the attributes of the node.
OPBRIDGE_OPERATOR("lowered::softened(Tensor x) -> Tensor")
    .shape([](const Shape& x) { return x; })
    .cpu(types<float>,
         []<class T>(Context&, TensorView<const T> x, TensorView<T> out) {
           for (std::int64_t i = 0; i < out.size(); ++i) out[i] = std::max(x[i], T(0.25) * x[i]);
         })
    .onnx(Since{17}, [](GraphBuilder& g, Value x) { return g.op("LeakyRelu", x, attr("alpha", 0.25)); })
    .onnx(Since{10}, [](GraphBuilder& g, Value x) { return g.op("Max", x, g.op("Mul", x, g.number(0.25))); });

// An optional input, a list of inputs, and every kind of attribute.
OPBRIDGE_OPERATOR(
    "lowered::total(Tensor x, Tensor? shift, Tensor[] more, int i, float f, bool b, str s, int[] ints, "
    "float[] floats, bool[] flags, str[] strings, int? maybe=None, int[2] pair=3) -> Tensor")
    .shape([](const Shape& x, const std::optional<Shape>&, const std::vector<Shape>&, std::int64_t, double,
              bool, std::string_view, std::span<const std::int64_t>, std::span<const double>,
              std::span<const bool>, std::span<const std::string_view>, std::optional<std::int64_t>,
              std::span<const std::int64_t>) { return x; })
    .cpu([](Context&, TensorView<const double> x, std::optional<TensorView<const double>> shift,
            std::span<const TensorView<const double>> more, std::int64_t i, double f, bool b,
            std::string_view s, std::span<const std::int64_t> ints, std::span<const double> floats,
            std::span<const bool> flags, std::span<const std::string_view> strings,
            std::optional<std::int64_t> maybe, std::span<const std::int64_t> pair, TensorView<double> out) {
      const auto sum = [](auto values) { return std::accumulate(values.begin(), values.end(), 0.0); };
      const double others = static_cast<double>(i) + f + (b ? 100 : 0) + static_cast<double>(s.size()) +
                            sum(ints) + sum(floats) + sum(flags) + static_cast<double>(strings[1].size()) +
                            static_cast<double>(maybe.value_or(1000)) + sum(pair);
      for (std::int64_t k = 0; k < out.size(); ++k) {
        out[k] = x[k] + others - (shift ? (*shift)[k] : 0);
        for (const TensorView<const double>& tensor : more) out[k] += tensor[k];
      }
    })
    .onnx(Since{13}, [](GraphBuilder& g, Value x, std::optional<Value> shift, std::span<const Value> more,
                        std::int64_t i, double f, bool b, std::string_view s,
                        std::span<const std::int64_t> ints, std::span<const double> floats,
                        std::span<const bool> flags, std::span<const std::string_view> strings,
                        std::optional<std::int64_t> maybe, std::span<const std::int64_t> pair) {
      const Value doubles[] = {
          g.constant<double>(floats, {static_cast<std::int64_t>(floats.size())}),
          g.cast(g.ints(ints), opbridge::ElementType::float64),
          g.cast(g.ints(pair), opbridge::ElementType::float64),
          g.cast(g.constant<bool>(flags, {static_cast<std::int64_t>(flags.size())}),
                 opbridge::ElementType::float64),
          g.constant<double>({f, b ? 100.0 : 0.0}, {2}),
      };
      const Value lists = g.reduce("ReduceSum", g.op("Concat", doubles, attr("axis", 0)), {0}, false);
      const auto numbers = i + static_cast<std::int64_t>(s.size() + strings[1].size()) + maybe.value_or(1000);
      Value sum = g.op("Add", g.op("Sum", x, more, lists), g.number(numbers));
      return shift ? g.op("Sub", sum, *shift) : sum;
    });

// Sizes of a model that is open in them: in a Reshape, from a SymInt, in arithmetic.
OPBRIDGE_OPERATOR("lowered::centered(Tensor x, int block, SymInt[] repeats) -> Tensor")
    .shape([](const Shape& x, std::int64_t block, const Shape& repeats) {
      require(x.size() == 2 && repeats.size() == 1, "x must have 2 dimensions, repeats 1");
      return Shape{repeats[0], x[0], x[1] / block * block};
    })
    .cpu(types<float>,
         []<class T>(Context&, TensorView<const T> x, std::int64_t block, std::span<const std::int64_t>,
                     TensorView<T> out) {
           for (std::int64_t r = 0; r < out.dim(0); ++r) {
             for (std::int64_t b = 0; b < out.dim(1); ++b) {
               for (std::int64_t i = 0; i < out.dim(2); ++i) {
                 const std::int64_t first = i / block * block;
                 const T sum = std::accumulate(&x(b, first), &x(b, first) + block, T(0));
                 out(r, b, i) = x(b, i) - sum / static_cast<T>(block);
               }
             }
           }
         })
    .onnx(Since{9}, [](GraphBuilder& g, Value x, std::int64_t block, const Shape& repeats) {
      const Dim rows = x.dim(0), blocks = x.dim(-1) / block;
      require(x.dim(0) == rows, "a size is itself");
      const Value kept = g.slice(x, 1, 0, blocks * block);
      const Value parts = g.reshape(kept, {rows, blocks, block});
      const Value centered = g.op("Sub", parts, g.reduce("ReduceMean", parts, {2}, true));
      const Value flat = g.reshape(centered, {1, rows, blocks * block});
      return g.expand(flat, {repeats[0], rows, blocks * block});
    });

OPBRIDGE_OPERATOR("lowered::two_largest(Tensor x) -> (Tensor values, Tensor indices)")
    .shape([](const Shape& x) {
      return std::tuple{Shape{2}, Shape{x.size(), 2}};
    })
    .cpu(types<float>,
         []<class T>(Context&, TensorView<const T> x, TensorView<T> values,
                     TensorView<std::int64_t> indices) {
           std::vector<std::int64_t> order(static_cast<std::size_t>(x.size()));
           std::iota(order.begin(), order.end(), 0);
           std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return x[a] > x[b]; });
           for (std::int64_t i = 0; i < 2; ++i) {
             values[i] = x[order[static_cast<std::size_t>(i)]];
             indices[i] = order[static_cast<std::size_t>(i)];
           }
         })
    .onnx(Since{11}, [](GraphBuilder& g, Value x) {
      const auto [values, indices] = g.ops<2>("TopK", x, g.ints({2}), attr("axis", 0));
      return std::tuple{values, g.unsqueeze(g.set_dims(indices, {2}), {0})};
    });

OPBRIDGE_OPERATOR("lowered::halves(Tensor x) -> Tensor[]")
    .shape([](const Shape& x) {
      return std::vector{Shape{x[0] / 2}, Shape{(x[0] + 1) / 2}};
    })
    .cpu(types<float>,
         []<class T>(Context&, TensorView<const T> x, std::span<const TensorView<T>> out) {
           std::copy(x.begin(), x.begin() + out[0].size(), out[0].begin());
           std::copy(x.begin() + out[0].size(), x.end(), out[1].begin());
         })
    .onnx(Since{13}, [](GraphBuilder& g, Value x) {
      const Dim half = x.dim(0) / 2;
      return g.split(x, 0, {half, (x.dim(0) + 1) / 2});
    });

// The forms that change from opset to opset, a list as an attribute, a node without inputs.
OPBRIDGE_OPERATOR("lowered::forms(Tensor x) -> Tensor")
    .shape([](const Shape& x) {
      return Shape{x[1], x[0] + 1};
    })
    .cpu(types<float>,
         []<class T>(Context&, TensorView<const T> x, TensorView<T> out) {
           for (std::int64_t i = 0; i < out.dim(0); ++i) {
             T sum = 0;
             for (std::int64_t k = 0; k < x.dim(0); ++k) sum += out(i, k) = x(k, i);
             out(i, x.dim(0)) = sum * static_cast<T>(x.dim(0)) + 7;
           }
         })
    .onnx(Since{9}, [](GraphBuilder& g, Value x) {
      const Value turned = g.transpose(g.unsqueeze(x, {0}), {0, 2, 1});
      const Value sums = g.reduce("ReduceSum", turned, {-1}, false);
      const Value scaled = g.op("Mul", sums, g.cast(g.dim_of(x, 0), x.element_type()));
      const Value zero = g.set_dims(g.op("ConstantOfShape", g.ints({1})), {1});
      const Value last = g.op("Add", scaled, g.op("Add", zero, g.scalar_like(x, 7)));
      const Value all = g.concat({turned, g.unsqueeze(last, {2})}, 2);
      return g.op("Transpose", g.squeeze(all, {0}), attr("perm", {0, 1}));
    });

// The uses of a lowering's interface other than making nodes.
OPBRIDGE_OPERATOR("lowered::same(Tensor x, str how) -> Tensor")
    .shape([](const Shape& x, std::string_view) { return x; })
    .cpu(types<float>, []<class T>(Context&, TensorView<const T> x, std::string_view,
                                   TensorView<T> out) { std::copy(x.begin(), x.end(), out.begin()); })
    .onnx(Since{9}, [](GraphBuilder& g, Value x, std::string_view how) {
      if (how == "own") {
        g.op("Exp", x);
        g.use_own_node();
      }
      require(how != "require", "standard ONNX has no such thing");
      if (how == "attribute") return g.op("Identity", x, attr("axis", 1));
      if (how == "name") return g.op("Identify", x);
      if (how == "type") return g.cast(x, opbridge::ElementType::float64);
      if (how == "compare") require(x.dim(0) < 9, "x is long");
      if (how == "number") return g.reshape(x, {x.dim(0).number()});
      return g.op("Identity", x);
    });

OPBRIDGE_OPERATOR("lowered::unsaid(Tensor x) -> Tensor")
    .shape([](const Shape& x) { return x; })
    .cpu(types<float>, []<class T>(Context&, TensorView<const T> x, TensorView<T> out) {
      std::copy(x.begin(), x.end(), out.begin());
    });
