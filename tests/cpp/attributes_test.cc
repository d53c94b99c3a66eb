// Attributes of every ONNX kind through GraphBuilder, writer and reader.
#include <gtest/gtest.h>

#include <complex>
#include <set>

#include "model_samples.h"
#include "onnx/attribute_kind.h"
#include "onnx/model_reader.h"
#include "opbridge/symbolic.h"

namespace opbridge {
namespace {

using onnx::AttributeKind;
using test::floats;

ir::Weight ramp(std::vector<int64_t> dims, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return ir::Weight::of<float>(values, std::move(dims));
}

ir::Weight indices(std::vector<int64_t> values, std::vector<int64_t> dims) {
  return ir::Weight::of<int64_t>(values, std::move(dims));
}

// 3 of the 4 x 5 elements.
ir::SparseTensor sparse() { return {ramp({3}, 3), indices({0, 1, 2, 4, 3, 0}, {3, 2}), {4, 5}}; }

ir::GraphPtr body(GraphBuilder& g) {
  return g.subgraph("body", {floats({2})}, [](GraphBuilder& inner, std::vector<Value> inputs) {
    return std::vector{inner.op("Neg", inputs[0])};
  });
}

struct Kind {
  AttributeKind kind;
  std::function<Attr(GraphBuilder&)> make;
  std::string text;  // as the graph is printed
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {AttributeKind::int_, [](auto&) { return attr("a", -3); }, "-3"},
      {AttributeKind::float_, [](auto&) { return attr("a", 0.5); }, "0.5"},
      {AttributeKind::string, [](auto&) { return attr("a", "x\ny"); }, "\"x\\ny\""},
      {AttributeKind::ints,
       [](auto&) {
         return attr("a", std::vector<int64_t>{1, 2});
       },
       "[1, 2]"},
      {AttributeKind::floats,
       [](auto&) {
         return attr("a", std::vector<double>{1, 2.5});
       },
       "[1.0, 2.5]"},
      {AttributeKind::strings,
       [](auto&) {
         return attr("a", std::vector<std::string>{"p", ""});
       },
       "[\"p\", \"\"]"},
      {AttributeKind::tensor,
       [](auto&) {
         return attr("a", ramp({2, 2}, 4));
       },
       "tensor float32[2, 2] = [0.0, 1.0, 2.0, 3.0]"},
      {AttributeKind::tensors,
       [](auto&) {
         return attr("a", std::vector{ramp({2}, 2), ramp({}, 1)});
       },
       "[tensor float32[2] = [0.0, 1.0], tensor float32[] = [0.0]]"},
      {AttributeKind::sparse_tensor, [](auto&) { return attr("a", sparse()); }, "sparse float32[4, 5]"},
      {AttributeKind::sparse_tensors,
       [](auto&) {
         return attr("a", std::vector{sparse(), sparse()});
       },
       "[sparse float32[4, 5], sparse float32[4, 5]]"},
      {AttributeKind::graph, [](auto& g) { return attr("a", body(g)); }, "graph body"},
      {AttributeKind::graphs,
       [](auto& g) {
         return attr("a", std::vector{body(g), body(g)});
       },
       "[graph body, graph body_1]"},
      {AttributeKind::type_proto,
       [](auto&) {
         return attr("a", ir::Type(floats({Dim::symbol("n"), 2})));
       },
       "type float32[n, 2]"},
      {AttributeKind::type_protos,
       [](auto&) {
         return attr("a", std::vector<ir::Type>{floats({}), ir::ListType{{floats({2})}}});
       },
       "[type float32[], type (float32[2])]"},
  };
  return all;
}

OnnxModel model_with(const Kind& kind) {
  OnnxModel model;
  model.opset_imports = {{"", 21}, {"custom", 1}};
  Value x = model.graph.add_input("x", floats({2}));
  GraphBuilder g(model.graph, 21);
  model.graph.outputs = {g.op("custom::f", x, kind.make(g)).get()};
  return model;
}

TEST(Attributes, OfEveryKindAreReadAsTheyWereMade) {
  std::set<AttributeKind> seen;
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(onnx::name(kind.kind));
    seen.insert(kind.kind);
    const test::TemporaryFolder folder;
    const OnnxModel model = model_with(kind);
    write_onnx(model, folder / "m.onnx", {});
    const onnx::ModelFile file = onnx::read_onnx(folder / "m.onnx");
    ASSERT_EQ(file.model.graph.nodes.size(), 1u);
    for (const ir::Graph* graph : {&model.graph, &file.model.graph}) {
      const ir::AttributeValue* value = graph->nodes[0]->find("a");
      ASSERT_NE(value, nullptr);
      EXPECT_EQ(onnx::kind_of(*value), kind.kind);
      EXPECT_EQ(ir::str(*value), kind.text);
    }
    write_onnx(file.model, folder / "again.onnx", {});
    EXPECT_EQ(test::read_text(folder / "again.onnx"), test::read_text(folder / "m.onnx"));
  }
  EXPECT_EQ(seen.size(), 14u) << "a kind of AttributeProto.AttributeType is not tested";
}

TEST(Attributes, SparseTensorsKeepTheirParts) {
  const test::TemporaryFolder folder;
  const Kind& kind = *std::ranges::find(kinds(), AttributeKind::sparse_tensor, &Kind::kind);
  write_onnx(model_with(kind), folder / "m.onnx", {});
  const onnx::ModelFile file = onnx::read_onnx(folder / "m.onnx");
  const ir::AttributeValue& value = *file.model.graph.nodes[0]->find("a");
  const auto& read = *std::get<std::shared_ptr<const ir::SparseTensor>>(value);
  EXPECT_EQ(read.values.element_type, sparse().values.element_type);
  EXPECT_TRUE(std::ranges::equal(read.values.bytes, sparse().values.bytes));
  EXPECT_EQ(read.indices.element_type, sparse().indices.element_type);
  EXPECT_TRUE(std::ranges::equal(read.indices.bytes, sparse().indices.bytes));
  EXPECT_EQ(read.indices.dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(read.dims, (std::vector<int64_t>{4, 5}));
}

TEST(Attributes, TextTensorsKeepTheirText) {
  const test::TemporaryFolder folder;
  OnnxModel model = test::linear_model();
  const std::vector<std::string> words = {"", "a", std::string("with\0zero", 9), std::string(3000, 'x')};
  model.graph.add_initializer("words", ir::Weight::of_strings(words, {2, 2}));
  write_onnx(model, folder / "m.onnx", {.external_data = ExternalData::always});
  const onnx::ModelFile file = onnx::read_onnx(folder / "m.onnx");
  const ir::Weight& read = *file.model.graph.initializers.back()->weight;
  EXPECT_EQ(read.element_type, ElementType::string);
  EXPECT_EQ(read.dims, (std::vector<int64_t>{2, 2}));
  EXPECT_TRUE(std::ranges::equal(read.strings(), words));
}

std::string refusal(const std::function<void(GraphBuilder&, Value)>& build) {
  ir::Graph graph;
  Value x = graph.add_input("x", floats({2}));
  GraphBuilder g(graph, 21);
  try {
    build(g, x);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_node) << error.what();
    return error.message();
  }
  return "nothing";
}

TEST(Attributes, BuilderRefusesWhatNoAttributeHolds) {
  const auto refused = [](const std::function<Attr(GraphBuilder&, Value)>& make) {
    return refusal([&](GraphBuilder& g, Value x) { g.op("custom::f", x, make(g, x)); });
  };
  const auto holds = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos ? ::testing::AssertionSuccess()
                                                : ::testing::AssertionFailure() << text;
  };
  EXPECT_TRUE(holds(refused([](auto&, auto) {
                      return Attr{"a", std::complex<double>(1, 2)};
                    }),
                    "complex(1.0, 2.0), which no ONNX attribute can hold"));
  EXPECT_TRUE(holds(refused([](auto&, auto) { return Attr{"a", Dim::symbol("s0")}; }), "is s0, which"));
  EXPECT_TRUE(holds(refused([](auto&, Value x) { return Attr{"a", x.get()}; }), "is %x, which"));
  EXPECT_TRUE(holds(refused([](auto&, auto) { return attr("a", ir::GraphPtr()); }), "is None, which"));
  EXPECT_TRUE(holds(refused([](auto&, auto) { return attr("a", ir::Type(ir::TensorType())); }), "which no"));
  EXPECT_TRUE(holds(refused([](auto&, auto) {
                      ir::SparseTensor tensor = sparse();
                      tensor.dims = {4, 4};
                      return attr("a", tensor);
                    }),
                    "index 4 is not below 4"));
  EXPECT_TRUE(holds(refused([](auto&, auto) {
                      ir::SparseTensor tensor = sparse();
                      tensor.indices = indices({5, 3, 7}, {3});
                      return attr("a", tensor);
                    }),
                    "indices are not in ascending order"));
  EXPECT_TRUE(holds(refused([](auto&, auto) {
                      ir::SparseTensor tensor = sparse();
                      tensor.indices = indices({5, 7}, {2});
                      return attr("a", tensor);
                    }),
                    "instead of [3] or [3, 2]"));
  EXPECT_TRUE(
      holds(refusal([](GraphBuilder& g, Value x) { g.op("custom::f", x, attr("a", 1), attr("a", 2)); }),
            "is given twice"));
  EXPECT_TRUE(holds(refusal([](GraphBuilder& g, Value x) {
                      const ir::GraphPtr shared = body(g);
                      g.op("custom::f", x, attr("a", shared), attr("b", shared));
                    }),
                    "another attribute holds already"));
  EXPECT_TRUE(holds(refusal([](GraphBuilder& g, Value) {
                      g.op("Constant", attr("value_int", 1), attr("value_float", 1.0));
                    }),
                    "2 attributes are given"));
}

TEST(Attributes, EmptyListsTakeTheKindThatTheSchemaHas) {
  ir::Graph graph;
  GraphBuilder g(graph, 21);
  Value value = g.op("Constant", attr("value_strings", std::vector<int64_t>()));
  EXPECT_EQ(value.element_type(), ElementType::string);
  EXPECT_EQ(value.dims(), std::vector<Dim>{0});
}

}  // namespace
}  // namespace opbridge
