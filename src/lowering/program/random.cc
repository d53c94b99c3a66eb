// Random numbers from PyTorch's distributions. The runtime's generator draws new ones at each run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <tuple>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/formula.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {
namespace {

// The arguments of operators that draw integers, which are int64 by default.
constexpr const char* integer_draws =
    "ScalarType? dtype=int64, Layout? layout=None, Device? device=None, bool? pin_memory=None";

// Draws numbers of `type`, float32 or float64, with "RandomUniform" in [0, 1) or the standard "RandomNormal".
Value draw(GraphBuilder& g, const std::string& op, const std::vector<Dim>& dims, ElementType type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : dims) {
    if (dim.is_static()) shape.push_back(dim.value());
  }
  const Attr of_type = attr("dtype", type);
  return g.typed(shape.size() == dims.size() ? g.op(op, attr("shape", shape), of_type)
                                             : g.op(op + "Like", filled(g, dims, 0, type), of_type),
                 dims);
}

ElementType drawn_type(ElementType type) {
  return type == ElementType::float64 ? ElementType::float64 : ElementType::float32;
}

// `location` + `scale` * drawn numbers, in the shape and type of the call's result.
template <class Location, class Scale>
Value result_of(GraphBuilder& g, const char* op, Location location, Scale scale) {
  const ElementType type = drawn_type(g.result().element_type);
  const auto number = [&](auto value) {
    if constexpr (std::is_same_v<decltype(value), Value>) {
      return g.cast(value, type);
    } else {
      return g.scalar(value, type);
    }
  };
  Value drawn = draw(g, op, *g.result().dims, type);
  return g.cast(g.op("Add", number(location), g.op("Mul", number(scale), drawn)), g.result().element_type);
}

Value uniform(GraphBuilder& g, double from, double to) {
  return result_of(g, "RandomUniform", from, to - from);
}

template <class Mean, class Deviation>
Value normal(GraphBuilder& g, Mean mean, Deviation deviation) {
  return result_of(g, "RandomNormal", mean, deviation);
}

// Draws integers in [low, high).
Value integers(GraphBuilder& g, const Dim& low, const Dim& high) {
  const ElementType wide = ElementType::float64;
  Value drawn = draw(g, "RandomUniform", *g.result().dims, wide);
  Value floor = g.op("Floor", g.op("Mul", drawn, g.cast(g.size(high - low), wide)));
  Value number = g.op("Add", g.cast(floor, ElementType::int64), g.size(low));
  return g.cast(number, g.result().element_type);
}

// Draws integers in [0, high) for a tensor of one number.
Value integers_below(GraphBuilder& g, Value high) {
  const ElementType wide = ElementType::float64;
  Value drawn = draw(g, "RandomUniform", *g.result().dims, wide);
  Value end = g.cast(g.reshape(high, std::vector<Dim>{}), wide);
  return g.cast(g.op("Floor", g.op("Mul", drawn, end)), g.result().element_type);
}

// 1 with probability `p`.
Value bernoulli(GraphBuilder& g, Value p) {
  // For an empty result PyTorch does not compare the shapes.
  if (element_count(*g.result().dims).is(0)) return filled(g, *g.result().dims, 0, g.result().element_type);
  const ElementType type = drawn_type(p.element_type());
  Value drawn = draw(g, "RandomUniform", *g.result().dims, type);
  return g.cast(g.op("Less", drawn, g.cast(p, type)), g.result().element_type);
}

// The kept elements, divided by the probability of keeping one, and the mask.
std::vector<Value> dropout(GraphBuilder& g, Value input, double p, Ignored) {
  std::vector<Value> results;
  if (p == 1) {  // a ratio that ONNX does not have
    results = {g.op("Mul", input, g.scalar_like(input, 0)), filled(g, input.dims(), 0, ElementType::boolean)};
  } else {
    results = g.op_list("Dropout", 2,
                        {input, g.scalar(p, ElementType::float32), g.scalar(true, ElementType::boolean)});
    g.typed(results[1], {ElementType::boolean, input.dims()});
  }
  results.resize(g.result_count());
  return results;
}

// Drops elements, or whole channels where `by_channel` is set. Alpha dropout (arXiv:1706.02515) sets them to
// the negative limit of SELU, and scales and shifts all so that mean and variance stay.
Value noisy(GraphBuilder& g, Value input, double p, bool by_channel, bool is_alpha) {
  if (p == 1) return g.op("Mul", input, g.scalar_like(input, 0));
  std::vector<Dim> dims = input.dims();
  if (by_channel) {
    if (dims.size() < 2) g.refuse("channels are dropped from an input with at least 2 dims");
    std::fill(dims.begin() + 2, dims.end(), Dim(1));
  }
  const ElementType type = drawn_type(input.element_type());
  Value drawn = draw(g, "RandomUniform", dims, type);
  Value kept = g.cast(g.op("Less", drawn, g.scalar(1 - p, type)), input.element_type());
  if (!is_alpha) return g.op("Mul", input, g.op("Mul", kept, g.scalar_like(kept, 1 / (1 - p))));
  const double limit = 1.7580993408473766;
  const double scale = 1 / std::sqrt((limit * limit * p + 1) * (1 - p));
  Value dropped = g.op("Sub", kept, g.scalar_like(kept, 1));
  Value shift = g.op("Add", g.op("Mul", dropped, g.scalar_like(kept, limit * scale)),
                     g.scalar_like(kept, limit * scale * p));
  return g.op("Add", g.op("Mul", input, g.op("Mul", kept, g.scalar_like(kept, scale))), shift);
}

// Draws from the exponential distribution of mean 1; never 0.
Value exponential(GraphBuilder& g, const std::vector<Dim>& dims, ElementType type) {
  Value drawn = g.op("Sub", g.scalar(1, type), draw(g, "RandomUniform", dims, type));
  const double least =
      type == ElementType::float64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  return g.op("Max", g.op("Neg", g.op("Log", drawn)), g.scalar(least, type));
}

// One more than the largest integer that `random_` draws: from 0 on, all integers that the type holds
// exactly.
Dim end_of_integers(GraphBuilder& g) {
  const ElementType type = g.result().element_type;
  switch (type) {
    case ElementType::bfloat16:
      return (1 << 8) + 1;
    case ElementType::float16:
      return (1 << 11) + 1;
    case ElementType::float32:
      return (1 << 24) + 1;
    case ElementType::float64:
      return (int64_t{1} << 53) + 1;
    case ElementType::boolean:
      return 2;
    default:
      if (!is_integral(type) || bits_of(type) > 32)
        g.refuse("draws integers of 64 bits; give an end, as random_(0, end)");
      return highest_value(type).to_int() + 1;
  }
}

// Exponential variables with the rates `self` are smallest with probabilities proportional to the rates, and
// the indices of the smallest `count` are a sample without replacement.
Value multinomial(GraphBuilder& g, Value self, const Dim& count, bool replacement) {
  const ElementType type = drawn_type(self.element_type());
  Value rates = g.cast(self, type);
  std::vector<Dim> dims = first_dims(self.dims(), self.rank() - 1);
  if (replacement) dims.push_back(count);
  dims.push_back(self.dim(-1));
  if (replacement) {
    rates = g.unsqueeze(rates, {self.rank() - 1});
  }
  Value speed = g.op("Div", rates, exponential(g, dims, type));
  if (replacement) return g.op("ArgMax", speed, attr("axis", -1), attr("keepdims", 0));
  return g.ops<2>("TopK", speed, g.sizes({count}), attr("axis", -1))[1];
}

// Random numbers that the kernel `op` computes from the parameters of a distribution and uniform numbers.
Value by_kernel(GraphBuilder& g, const char* op, std::vector<Value> parameters) {
  const auto& [type, dims] = g.result();
  std::vector<Operand> operands;
  for (Value& parameter : parameters) operands.emplace_back(g.expand(operand(g, parameter, type), *dims));
  operands.emplace_back(draw(g, "RandomUniform", *dims, ElementType::float64));
  return g.cast(kernel(g, op, std::move(operands), {opmath_type(type), dims}), type);
}

// The greater of `x` and `least`, which also takes the place of NaN.
Value at_least(GraphBuilder& g, Value x, double least) {
  return where(Formula(g, x) > least, Formula(g, x), least);
}

// Draws from the gamma distributions of the shapes `self`, in float64, by rejection (Marsaglia and Tsang
// 2000, doi:10.1145/358407.358414). A proposal is accepted with a probability of at least 0.95. Of 8
// proposals all are rejected with a probability below 1e-10; then the first one is the result, where a loop
// would go on.
Value gamma(GraphBuilder& g, Value self) {
  constexpr ElementType wide = ElementType::float64;
  const auto number = [](double value, const Formula& like) { return Formula::number(value, like); };
  const std::vector<Dim>& dims = self.dims();
  std::vector<Dim> proposals{Dim(8)};
  proposals.insert(proposals.end(), dims.begin(), dims.end());
  Formula shape(g, g.cast(self, wide));
  const auto uniform = [&](const std::vector<Dim>& sizes) {  // in (0, 1]
    return 1 - Formula(g, draw(g, "RandomUniform", sizes, wide));
  };
  // Below 1, the gamma distribution of shape + 1, times a power of a uniform number.
  Formula is_low = shape < 1, one = number(1, shape);
  Formula power = where(is_low, node("Pow", uniform(dims), one / shape), one);
  Formula d = where(is_low, shape + 1, shape) - 1.0 / 3;
  Formula x(g, draw(g, "RandomNormal", proposals, wide));
  Formula root = 1 + x / sqrt(d * 9), v = root * root * root;
  Formula is_positive = v > 0;
  Formula bound = x * x * 0.5 + d - d * v + d * log(where(is_positive, v, 1));
  Formula accepted = is_positive && log(uniform(proposals)) < bound;
  Value first = g.op("ArgMax", g.cast(accepted, ElementType::int32), attr("axis", 0), attr("keepdims", 1));
  Value chosen = g.squeeze(g.op("GatherElements", Value(v), first, attr("axis", 0)), {0});
  Formula sample = where(shape == 0, 0, d * Formula(g, chosen) * power);
  return at_least(g, sample, std::numeric_limits<double>::min());
}

// The least positive normal number, which PyTorch's kernels return instead of 0, and the number before 1.
struct Ends {
  double least, most;
};

// PyTorch has no kernels for the half types.
Ends ends_of(ElementType type) {
  if (type == ElementType::float64)
    return {std::numeric_limits<double>::min(), 1 - std::numeric_limits<double>::epsilon() / 2};
  return {std::numeric_limits<float>::min(), 1 - std::numeric_limits<float>::epsilon() / 2};
}

Value standard_gamma(GraphBuilder& g, Value self, Ignored) {
  Value drawn = gamma(g, self);
  const ElementType type = g.result().element_type;
  return g.cast(at_least(g, drawn, ends_of(type).least), type);
}

Value dirichlet(GraphBuilder& g, Value self, Ignored) {
  Value drawn = gamma(g, self);
  const ElementType type = g.result().element_type;
  Value share = g.op("Div", drawn, g.reduce("ReduceSum", drawn, {-1}, true));
  share = at_least(g, share, ends_of(type).least);
  return g.cast(g.op("Min", share, g.scalar_like(share, ends_of(type).most)), type);
}

// `type` is given because the declared type of the result is unreliable: the default type of torch's fake
// tensors differs from its kernel's.
Value permutation(GraphBuilder& g, const Dim& count, ElementType type) {
  Value drawn = draw(g, "RandomUniform", {count}, ElementType::float64);
  return g.cast(g.ops<2>("TopK", drawn, g.sizes({count}), attr("axis", 0))[1], type);
}

}  // namespace

void register_random(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const char* op : {"rand", "randn"}) {
    const auto drawn = [normally = std::string_view(op) == "randn"](GraphBuilder& g) {
      return normally ? normal(g, 0.0, 1.0) : uniform(g, 0, 1);
    };
    on(fmt::format("aten::{}(SymInt[] size, *, {}) -> Tensor", op, tensor_options), Since{9},
       [drawn](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored) { return drawn(g); });
    on(fmt::format("aten::{}_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", op,
                   tensor_options),
       Since{9},
       [drawn](GraphBuilder& g, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) { return drawn(g); });
  }
  on("aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Ignored, double from, double to, Ignored) { return uniform(g, from, to); });
  on("aten::normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> "
     "Tensor",
     Since{9}, [](GraphBuilder& g, Ignored, double mean, double deviation, Ignored) {
       return normal(g, mean, deviation);
     });
  on("aten::normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value mean, double deviation, Ignored) { return normal(g, mean, deviation); });
  on("aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, double mean, Value deviation, Ignored) { return normal(g, mean, deviation); });
  on("aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value mean, Value deviation, Ignored) { return normal(g, mean, deviation); });
  on(fmt::format("aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? "
                 "generator=None, {}) -> Tensor",
                 tensor_options),
     Since{9},
     [](GraphBuilder& g, double mean, double deviation, Ignored, Ignored, Ignored, Ignored, Ignored,
        Ignored) { return normal(g, mean, deviation); });

  on(fmt::format("aten::randint(SymInt high, SymInt[] size, *, {}) -> Tensor", integer_draws), Since{9},
     [](GraphBuilder& g, Dim high, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return integers(g, 0, high);
     });
  on(fmt::format("aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, {}) -> Tensor", integer_draws),
     Since{9}, [](GraphBuilder& g, Dim low, Dim high, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return integers(g, low, high);
     });
  on(fmt::format("aten::randint_like(Tensor self, SymInt high, *, {}, MemoryFormat? memory_format=None) -> "
                 "Tensor",
                 tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Dim high, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return integers(g, 0, high);
     });
  on(fmt::format(
         "aten::randint_like.Tensor(Tensor self, Tensor high, *, {}, MemoryFormat? memory_format=None) "
         "-> Tensor",
         tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Value high, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return integers_below(g, high);
     });
  on(fmt::format("aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, {}, MemoryFormat? "
                 "memory_format=None) -> Tensor",
                 tensor_options),
     Since{9}, [](GraphBuilder& g, Ignored, Dim low, Dim high, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return integers(g, low, high);
     });
  on(fmt::format("aten::randperm(SymInt n, *, {}) -> Tensor", integer_draws), Since{9},
     [](GraphBuilder& g, Dim count, std::optional<ElementType> type, Ignored, Ignored, Ignored) {
       return permutation(g, count, type.value_or(ElementType::int64));
     });

  on("aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value p, Ignored) { return bernoulli(g, p); });
  on("aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, Value p, Ignored) { return bernoulli(g, p); });
  on("aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, double p, Ignored) {
       return bernoulli(g, g.scalar(p, ElementType::float64));
     });
  on("aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, double rate, Ignored) {
       const ElementType type = drawn_type(g.result().element_type);
       Value drawn = exponential(g, *g.result().dims, type);
       return g.cast(g.op("Div", drawn, g.scalar(rate, type)), g.result().element_type);
     });
  // The inverse of each distribution function, of uniform numbers.
  on("aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Ignored, double median, double sigma, Ignored) {
       const auto& [result, dims] = g.result();
       const ElementType type = drawn_type(result);
       Value turns = g.op("Sub", draw(g, "RandomUniform", *dims, type), g.scalar(0.5, type));
       Value drawn = g.op("Tan", g.op("Mul", turns, g.scalar(std::numbers::pi, type)));
       return g.cast(g.op("Add", g.scalar(median, type), g.op("Mul", drawn, g.scalar(sigma, type))), result);
     });
  on("aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, double p, Ignored) {
       const ElementType type = drawn_type(g.result().element_type);
       Value drawn = exponential(g, *g.result().dims, type);
       return g.cast(g.op("Ceil", g.op("Div", drawn, g.scalar(-std::log1p(-p), type))),
                     g.result().element_type);
     });
  on("aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Ignored, double mean, double deviation, Ignored) {
       const ElementType type = drawn_type(g.result().element_type);
       Value drawn = g.op("Mul", draw(g, "RandomNormal", *g.result().dims, type), g.scalar(deviation, type));
       return g.cast(g.op("Exp", g.op("Add", g.scalar(mean, type), drawn)), g.result().element_type);
     });
  on("aten::random(Tensor self, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, Ignored) { return integers(g, 0, end_of_integers(g)); });
  on("aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, int64_t to, Ignored) { return integers(g, 0, to); });
  on("aten::random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, int64_t from, std::optional<int64_t> to, Ignored) {
       return integers(g, from, to ? Dim(*to) : end_of_integers(g));
     });
  on("aten::poisson(Tensor self, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return by_kernel(g, "opbridge::poisson", {self}); });
  on("aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value count, Value prob, Ignored) {
       return by_kernel(g, "opbridge::binomial", {count, prob});
     });
  on("aten::_standard_gamma(Tensor self, Generator? generator=None) -> Tensor", Since{11}, standard_gamma);
  on("aten::_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor", Since{11}, dirichlet);
  on("aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? "
     "generator=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Dim count, bool replacement, Ignored) {
       return multinomial(g, self, count, replacement);
     });

  on("opbridge::random_dropout(Tensor input, float p, bool train) -> Tensor", Since{9}, dropout);
  for (const auto& [name, by_channel, is_alpha] : {std::tuple{"feature_dropout", true, false},
                                                   {"alpha_dropout", false, true},
                                                   {"feature_alpha_dropout", true, true}}) {
    on(fmt::format("opbridge::random_{}(Tensor input, float p, bool train) -> Tensor", name), Since{9},
       [by_channel = by_channel, is_alpha = is_alpha](GraphBuilder& g, Value input, double p, Ignored) {
         return noisy(g, input, p, by_channel, is_alpha);
       });
  }
  on("opbridge::random_native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", Since{9},
     dropout);
}

}  // namespace opbridge::lowering
