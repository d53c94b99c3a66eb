// Evaluates random graphs before and after each pass.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "builder/stage.h"
#include "graph_evaluator.h"
#include "ir/dead_code.h"
#include "opbridge/convert.h"
#include "opbridge/symbolic.h"
#include "runtimes/onnxruntime/legalize.h"
#include "runtimes/standard/legalize.h"
#include "simplify/passes.h"

namespace opbridge {
namespace {

using test::GraphEvaluator;
using test::Sizes;

struct Pass {
  const char* name;
  void (*run)(ir::Graph&);
};

const Pass passes[] = {
    {"remove_dead_code", [](ir::Graph& g) { ir::remove_dead_code(g); }},
    {"fold_constants", [](ir::Graph& g) { simplification::fold_constants(g); }},
    {"remove_identities", [](ir::Graph& g) { simplification::remove_identities(g); }},
    {"canonicalize_transposes", [](ir::Graph& g) { simplification::canonicalize_transposes(g); }},
    {"divide_by_reciprocals", [](ir::Graph& g) { simplification::divide_by_reciprocals(g); }},
    {"fold_batch_normalization", [](ir::Graph& g) { simplification::fold_batch_normalization(g); }},
    {"fold_channel_scales", [](ir::Graph& g) { simplification::fold_channel_scales(g); }},
    {"merge_common_subexpressions", [](ir::Graph& g) { simplification::merge_common_subexpressions(g); }},
    {"legalize for ONNX Runtime",
     [](ir::Graph& g) {
       onnxruntime::legalize(g, default_opset, [](const ir::Node&, const Error& error) { throw error; });
     }},
    {"legalize for the standard",
     [](ir::Graph& g) {
       OnnxModel model;
       model.graph = std::move(g);
       standard::legalize(model, [](const ir::Node&, const Error& error) { throw error; });
       g = std::move(model.graph);
     }},
    {"simplify", [](ir::Graph& g) { simplify(g); }},
    {"simplify twice",
     [](ir::Graph& g) {
       simplify(g);
       simplify(g);
     }},
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), g_(graph_, default_opset) {}

  ir::Graph make() {
    // One symbol may be 0; the others have torch's names for sizes that depend on data.
    const Dim n = Dim::symbol("u0", 1), m = Dim::symbol("size", 1), u = Dim::symbol("s0", 0);
    const std::vector<std::vector<Dim>> shapes = {{n, 4, 6},    {2, 1, n, 6}, {n, m, 4},
                                                  {1, 4, 1, 6}, {u, 2, 6},    {n, 4, 2, 3}};
    condition_ = graph_.add_input("condition", ir::TensorType{ElementType::boolean, std::vector<Dim>{}});
    for (size_t i = 0, count = 1 + below(3); i < count; ++i) {
      const ir::TensorType type{ElementType::float32, shapes[below(shapes.size())]};
      pool_.push_back(graph_.add_input(fmt::format("x{}", i), type));
      g_.bind_dims(pool_.back());
    }
    // With few kinds of steps in a graph, these combine more often.
    for (size_t i = 0, count = 2 + below(5); i < count; ++i) kinds_.push_back(below(15));
    for (size_t i = 0, count = 3 + below(14); i < count; ++i) step(g_, pool_);
    for (size_t i = 0, count = 1 + below(4); i < count; ++i) {
      Value value = pool_[below(pool_.size())];
      const bool taken = std::ranges::find(graph_.outputs, value.get()) != graph_.outputs.end();
      if (!value.get()->producer || taken) value = typed(g_.op("Identity", value), value.dims());
      graph_.outputs.push_back(value.get());
    }
    return std::move(graph_);
  }

 private:
  using Pool = std::vector<Value>;

  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  int64_t axis_of(Value value) { return static_cast<int64_t>(below(static_cast<size_t>(value.rank()))); }

  static Value typed(Value value, std::vector<Dim> dims, ElementType type = ElementType::float32) {
    value.get()->type = ir::TensorType{type, std::move(dims)};
    return value;
  }

  Value weight(std::vector<int64_t> dims, float low = -1, float high = 1) {
    std::vector<float> values(static_cast<size_t>(tensor::count_of(dims)));
    for (float& value : values) value = std::uniform_real_distribution<float>(low, high)(random_);
    return graph_.add_initializer(BuilderStage(g_).unique_name("w"), ir::Weight::of<float>(values, dims));
  }

  // Prefers recent values.
  Value pick(const Pool& pool) {
    return pool[chance(3) ? below(pool.size()) : pool.size() - 1 - below(std::min<size_t>(pool.size(), 3))];
  }

  void step(GraphBuilder& g, Pool& pool) {
    const Value x = pick(pool);
    const std::vector<Dim>& dims = x.dims();
    switch (kinds_[below(kinds_.size())]) {
      case 0:
      case 1: {
        std::vector<int64_t> order(dims.size());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::shuffle(order, random_);
        if (chance(4)) std::ranges::sort(order);
        pool.push_back(g.op("Transpose", x, attr("perm", order)));
        if (chance(3)) pool.push_back(g.op("Transpose", pick(pool)));
        break;
      }
      case 2:
      case 3:
        if (const auto to = reshaped(dims)) pool.push_back(g.reshape(x, *to));
        break;
      case 4:  // changes nothing
        pool.push_back(typed(g.op("Reshape", x, g.sizes(dims), attr("allowzero", 1)), dims));
        break;
      case 5:
        if (dims.size() < 5) pool.push_back(g.unsqueeze(x, {static_cast<int64_t>(below(dims.size() + 1))}));
        break;
      case 6:
        for (size_t i = 0; i < dims.size(); ++i) {
          if (!dims[i].is(1)) continue;
          pool.push_back(g.squeeze(x, {static_cast<int64_t>(i)}));
          break;
        }
        break;
      case 7: {
        const char* names[] = {"Neg", "Abs", "Cos", "Identity"};
        if (const size_t which = below(5); which < 4) {
          pool.push_back(g.op(names[which], x));
        } else {
          const Value wide = typed(g.op("Cast", x, attr("to", static_cast<int64_t>(ElementType::float64))),
                                   dims, ElementType::float64);
          pool.push_back(
              typed(g.op("Cast", wide, attr("to", static_cast<int64_t>(ElementType::float32))), dims));
        }
        break;
      }
      case 8: {
        const char* names[] = {"Add", "Sub", "Mul"};
        Value y = x;
        for (Value other : pool) {
          if (other.dims() == dims && chance(2)) y = other;
        }
        pool.push_back(g.op(names[below(3)], x, y));
        break;
      }
      case 9: {
        const char* names[] = {"Add", "Sub", "Mul", "Div"};
        const Value number =
            g.scalar(static_cast<double>(1 + below(2)) - (chance(2) ? 1 : 0) + (chance(2) ? 1 : 0),
                     ElementType::float32);
        const char* name = names[below(4)];
        const bool zero = number.weight()->as<float>()[0] == 0;
        pool.push_back(chance(4) && std::string_view(name) != "Div" ? g.op(name, number, x)
                                                                    : g.op(zero ? "Add" : name, x, number));
        break;
      }
      case 10: {
        const Value shifted = g.op("Add", g.op("Abs", x), g.scalar(1.0, ElementType::float32));
        const Value inverse = g.op("Reciprocal", shifted);
        pool.push_back(chance(2) ? g.op("Mul", x, inverse) : g.op("Mul", inverse, x));
        if (chance(3)) pool.push_back(inverse);
        break;
      }
      case 11: {
        const Value condition = graph_.add_initializer(
            BuilderStage(g).unique_name("c"),
            ir::Weight{ElementType::boolean, {1}, std::as_bytes(std::span(&truths[below(2)], 1)), nullptr});
        pool.push_back(typed(g.op("Where", condition, x, g.op("Neg", x)), dims));
        break;
      }
      case 12:
        linear(g, pool, x);
        break;
      case 13:
        convolution(g, pool, x);
        break;
      default:
        if (&g == &g_ || chance(2)) branch(g, pool, x);
        break;
    }
  }

  std::optional<std::vector<Dim>> reshaped(const std::vector<Dim>& dims) {
    std::vector<Dim> to = dims;
    const size_t i = below(dims.size());
    switch (below(4)) {
      case 0:  // merges two axes
        if (i + 1 == dims.size()) return std::nullopt;
        to[i] = to[i] * to[i + 1];
        to.erase(to.begin() + static_cast<int64_t>(i) + 1);
        return to;
      case 1:  // splits one
        if (!dims[i].is_static() || dims[i].value() % 2 != 0 || dims.size() > 5) return std::nullopt;
        to[i] = dims[i].value() / 2;
        to.insert(to.begin() + static_cast<int64_t>(i), Dim(2));
        return to;
      case 2: {
        Dim all = 1;
        for (const Dim& dim : dims) all = all * dim;
        return std::vector<Dim>{all};
      }
      default:
        if (dims.size() > 4) return std::nullopt;
        to.insert(to.begin() + static_cast<int64_t>(i), Dim(1));
        return to;
    }
  }

  void linear(GraphBuilder& g, Pool& pool, Value x) {
    const Dim last = x.dims().back();
    if (x.rank() < 2 || !last.is_static()) return;
    const int64_t width = 2 + static_cast<int64_t>(below(3));
    const Value matrix =
        chance(2) ? weight({last.value(), width}) : g.op("Transpose", weight({width, last.value()}));
    Value product = g.op("MatMul", x, matrix);
    if (chance(4)) pool.push_back(product);
    if (chance(2)) product = g.op("Add", product, weight({width}));
    if (chance(4)) pool.push_back(product);
    if (chance(2)) {
      std::vector<int64_t> order(product.dims().size());
      std::iota(order.begin(), order.end(), 0);
      std::swap(order[below(order.size())], order.back());
      const auto axis = static_cast<size_t>(std::ranges::find(order, std::ssize(order) - 1) - order.begin());
      product = g.op("Transpose", product, attr("perm", order));
      std::vector<int64_t> scale(order.size(), 1);
      scale[axis] = width;
      product = g.op("Mul", product, weight(scale));
    } else {
      product = g.op("Mul", product, weight({width}));
    }
    pool.push_back(product);
    if (chance(4)) pool.push_back(g.op("MatMul", x, matrix));
  }

  void convolution(GraphBuilder& g, Pool& pool, Value x) {
    if (x.rank() != 4 || !x.dim(1).is_static()) return;
    const int64_t channels = 2 + static_cast<int64_t>(below(2));
    std::vector<Dim> dims = x.dims();
    dims[1] = Dim(channels);
    const Value w = weight({channels, x.dim(1).value(), 1, 1});
    Value y = typed(chance(2) ? g.op("Conv", x, w, weight({channels})) : g.op("Conv", x, w), dims);
    if (chance(4)) pool.push_back(y);
    if (chance(2)) {
      y = typed(g.op("BatchNormalization", y, weight({channels}), weight({channels}), weight({channels}),
                     weight({channels}, 0.5, 2)),
                dims);
    }
    if (chance(4)) pool.push_back(y);
    if (chance(2)) y = g.op("Mul", y, weight({channels, 1, 1}));
    pool.push_back(y);
    if (chance(4)) pool.push_back(typed(g.op("Conv", x, w), dims));
  }

  // Both branches return a value with the dims of `x`.
  void branch(GraphBuilder& g, Pool& pool, Value x) {
    if (++depth_ > 3) {
      --depth_;
      return;
    }
    const auto body = [&](const char* name) {
      if (chance(6)) {  // one without nodes
        auto empty = std::make_shared<ir::Graph>();
        empty->name = BuilderStage(g).unique_name(name);
        empty->outputs = {x.get()};
        return empty;
      }
      return g.subgraph(name, {}, [&](GraphBuilder& inner, std::vector<Value>) {
        Pool values = pool;
        values.push_back(x);
        for (size_t i = 0, count = below(4); i < count; ++i) step(inner, values);
        std::vector<Value> fitting;
        for (Value value : values) {
          if (value.dims() == x.dims()) fitting.push_back(value);
        }
        return std::vector<Value>{fitting[chance(2) ? fitting.size() - 1 : below(fitting.size())]};
      });
    };
    const ir::GraphPtr then_branch = body("then"), else_branch = body("else");
    pool.push_back(
        typed(g.op("If", condition_, attr("then_branch", then_branch), attr("else_branch", else_branch)),
              x.dims()));
    --depth_;
  }

  static constexpr bool truths[] = {false, true};
  std::mt19937_64 random_;
  ir::Graph graph_;
  GraphBuilder g_;
  Value condition_;
  Pool pool_;
  std::vector<size_t> kinds_;
  int depth_ = 0;
};

std::map<std::string, ir::Weight> inputs_of(const ir::Graph& graph, const Sizes& sizes, bool condition) {
  std::map<std::string, ir::Weight> inputs;
  float next = 0;
  for (const ir::Value* input : graph.inputs) {
    if (input->tensor_type().element_type == ElementType::boolean) {
      const auto byte = static_cast<std::byte>(condition);
      ir::Weight weight = ir::Weight::of<uint8_t>(std::vector<uint8_t>{static_cast<uint8_t>(byte)}, {});
      weight.element_type = ElementType::boolean;
      inputs[input->name] = weight;
      continue;
    }
    std::vector<int64_t> dims;
    for (const Dim& dim : *input->tensor_type().dims)
      dims.push_back(dim.evaluate([&](const std::string& symbol) { return sizes.at(symbol); }));
    std::vector<float> values(static_cast<size_t>(tensor::count_of(dims)));
    for (float& value : values) value = std::sin(next += 0.7f) * 2;
    inputs[input->name] = ir::Weight::of<float>(values, dims);
  }
  return inputs;
}

std::string difference(const ir::Weight& a, const ir::Weight& b) {
  if (a.dims != b.dims)
    return fmt::format("dims [{}] and [{}]", fmt::join(a.dims, ", "), fmt::join(b.dims, ", "));
  float greatest = 1;
  for (const float value : a.as<float>()) greatest = std::max(greatest, std::abs(value));
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    const float x = a.as<float>()[i], y = b.as<float>()[i];
    if (!(std::abs(x - y) <= 1e-4f * greatest) && !(std::isnan(x) && std::isnan(y)) && x != y)
      return fmt::format("element {}: {} and {}", i, x, y);
  }
  return "";
}

// One set of inputs, and the outputs of the graph before a pass.
struct Example {
  Sizes sizes;
  std::map<std::string, ir::Weight> inputs;
  std::vector<ir::Weight> expected;
};

std::vector<Example> examples_of(const ir::Graph& graph) {
  std::vector<Example> examples;
  for (const Sizes& sizes :
       {Sizes{{"u0", 3}, {"size", 2}, {"s0", 2}}, Sizes{{"u0", 1}, {"size", 1}, {"s0", 0}},
        Sizes{{"u0", 2}, {"size", 5}, {"s0", 1}}}) {
    for (const bool condition : {false, true}) {
      auto inputs = inputs_of(graph, sizes, condition);
      examples.push_back({sizes, inputs, GraphEvaluator(sizes, inputs).run(graph)});
    }
  }
  return examples;
}

// An error of the graph; empty if there is none.
std::string problem(const ir::Graph& before, const ir::Graph& after, std::span<const Example> examples) {
  ir::verify(after);
  for (const auto& [sizes, inputs, expected] : examples) {
    const std::vector<ir::Weight> actual = GraphEvaluator(sizes, inputs).run(after);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (after.outputs.at(i)->name != before.outputs[i]->name) return "an output has lost its name";
      const std::string found = difference(expected[i], actual.at(i));
      if (!found.empty()) return fmt::format("output {}: {}", i, found);
    }
  }
  return "";
}

void check_graphs(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const ir::Graph before = Generator(seed).make();
    const std::vector<Example> examples = examples_of(before);
    for (const Pass& pass : passes) {
      ir::Graph after = Generator(seed).make();
      std::string found;
      try {
        pass.run(after);
        found = problem(before, after, examples);
      } catch (const std::exception& error) {
        found = error.what();
      }
      ASSERT_EQ(found, "") << pass.name << " at OPBRIDGE_SEED=" << seed << "\n"
                           << ir::print(before) << "becomes\n"
                           << ir::print(after);
    }
  }
}

// OPBRIDGE_SEED repeats one graph; OPBRIDGE_GRAPHS sets their number.
uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(RandomGraphs, ComputeTheSameAfterEachPass) { check_graphs(0, from_environment("OPBRIDGE_GRAPHS", 500)); }

TEST(RandomGraphs, OfAFreshSeedComputeTheSameAfterEachPass) {
  const uint64_t seed = from_environment("OPBRIDGE_SEED", std::random_device()());
  std::cout << "OPBRIDGE_SEED=" << seed << '\n';
  const bool repeated = std::getenv("OPBRIDGE_SEED") != nullptr;
  check_graphs(seed, repeated ? 1 : from_environment("OPBRIDGE_GRAPHS", 500));
}

}  // namespace
}  // namespace opbridge
