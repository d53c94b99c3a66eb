#include "opbridge/ir.h"

#include <gtest/gtest.h>

#include "ir/complete.h"

namespace opbridge::ir {
namespace {

TensorType floats(std::vector<Dim> dims) { return {ElementType::float32, std::move(dims)}; }

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    return error.message();
  }
  return "";
}

// %y = aten::linear(%x, %w)
struct Linear {
  Graph graph;
  Value* x = graph.add_input("x", floats({Dim::symbol("s0"), 3}));
  Value* w = graph.add_initializer("w", Weight::of<float>(std::vector<float>(6), {2, 3}));
  Node* node = graph.add_node("aten::linear");
  Value* y = graph.add_output_of(node, "y", floats({Dim::symbol("s0"), 2}));

  Linear() {
    node->attributes = {{"input", x}, {"weight", w}, {"bias", std::monostate()}};
    node->source.scope = "fc";
    graph.outputs = {y};
  }
};

TEST(Ir, TensorTypeText) {
  EXPECT_EQ(floats({Dim::symbol("s0"), 3}).str(), "float32[s0, 3]");
  EXPECT_EQ(floats({}).str(), "float32[]");
  EXPECT_EQ((TensorType{ElementType::int64, std::nullopt}).str(), "int64[...]");
  EXPECT_TRUE(floats({2, 3}).is_static());
  EXPECT_FALSE(floats({Dim::symbol("s0"), 3}).is_static());
  EXPECT_FALSE((TensorType{ElementType::int64, std::nullopt}).is_static());
}

TEST(Ir, WeightCountsElements) {
  EXPECT_EQ((Weight{ElementType::float32, {2, 3}, {}, nullptr}).element_count(), 6);
  EXPECT_EQ((Weight{ElementType::float32, {}, {}, nullptr}).element_count(), 1);
  EXPECT_EQ((Weight{ElementType::float32, {0, 5}, {}, nullptr}).element_count(), 0);
  EXPECT_EQ(
      (Weight{ElementType::float32, {int64_t{1} << 40, int64_t{1} << 40, 0}, {}, nullptr}).element_count(),
      0);
  EXPECT_THROW((Weight{ElementType::float32, {-1, 5}, {}, nullptr}).element_count(), Error);
  EXPECT_THROW(
      (Weight{ElementType::float32, {int64_t{1} << 40, int64_t{1} << 40}, {}, nullptr}).element_count(),
      Error);
}

TEST(Ir, WeightReadsBackAsItsType) {
  const std::vector<int64_t> values{1, -2, 3};
  const Weight weight = Weight::of<int64_t>(values, {3});
  EXPECT_TRUE(std::ranges::equal(weight.as<int64_t>(), values));
  EXPECT_THROW(weight.as<float>(), Error);
}

TEST(Ir, InitializerHasTheTypeOfItsWeight) {
  Linear linear;
  EXPECT_EQ(linear.w->tensor_type(), floats({2, 3}));
  EXPECT_EQ(linear.w->weight->element_count(), 6);
}

TEST(Ir, OnlyTensorsHaveATensorType) {
  Graph graph;
  EXPECT_THROW(graph.add_input("n", ScalarType{})->tensor_type(), Error);
  EXPECT_THROW(graph.add_input("l", ListType{})->tensor_type(), Error);
}

TEST(Ir, AttributesAreFoundAndSetByName) {
  Node node;
  node.set("alpha", int64_t{1});
  node.set("alpha", 2.5);
  node.set("beta", true);
  ASSERT_EQ(node.attributes.size(), 2u);
  EXPECT_EQ(std::get<double>(*node.find("alpha")), 2.5);
  EXPECT_EQ(node.find("gamma"), nullptr);
}

TEST(Ir, ForEachUseVisitsInputsAndAttributesAndMayReplace) {
  Graph graph;
  Value* a = graph.add_input("a", floats({}));
  Value* b = graph.add_input("b", floats({}));
  Node* node = graph.add_node("aten::f");
  node->inputs = {a, nullptr};
  node->attributes = {{"one", a}, {"list", std::vector<Value*>{nullptr, a, b}}, {"n", int64_t{3}}};
  std::string visited;
  node->for_each_use([&](Value*& value) {
    visited += value->name;
    if (value == a) value = b;
  });
  EXPECT_EQ(visited, "aaab");
  EXPECT_EQ(print(graph),
            "graph main(%a: float32[], %b: float32[]) {\n"
            "  aten::f(%b, None, one=%b, list=[None, %b, %b], n=3)\n"
            "  return\n}\n");
}

TEST(Ir, PrintShowsTypesWeightsAndScope) {
  Linear linear;
  EXPECT_EQ(print(linear.graph),
            "graph main(%x: float32[s0, 3]) {\n"
            "  weight %w: float32[2, 3] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]\n"
            "  %y: float32[s0, 2] = aten::linear(input=%x, weight=%w, bias=None)  # fc\n"
            "  return %y\n"
            "}\n");
}

TEST(Ir, AttributeText) {
  EXPECT_EQ(str(AttributeValue(1.0)), "1.0");
  EXPECT_EQ(str(AttributeValue(1e-05)), "1e-05");
  EXPECT_EQ(str(AttributeValue(true)), "True");
  EXPECT_EQ(str(AttributeValue(std::string("a\"b\n"))), "\"a\\\"b\\n\"");
  EXPECT_EQ(str(AttributeValue(std::vector<Dim>{2, Dim::symbol("s0") * 2})), "[2, 2*s0]");
  EXPECT_EQ(str(AttributeValue(std::vector<bool>{true, false})), "[True, False]");
  EXPECT_EQ(str(AttributeValue(ElementType::float16)), "float16");
  EXPECT_EQ(str(AttributeValue(Opaque{"cpu"})), "cpu");
  EXPECT_EQ(str(AttributeValue(std::complex<double>(1, -2))), "complex(1.0, -2.0)");
}

TEST(Ir, MovedGraphKeepsItsValues) {
  Linear linear;
  Value* y = linear.y;
  const Graph moved = std::move(linear.graph);
  EXPECT_EQ(moved.outputs.front(), y);
  EXPECT_EQ(y->producer, moved.nodes.front());
  EXPECT_NO_THROW(verify(moved));
}

TEST(Ir, VerifyAcceptsAGraph) { EXPECT_NO_THROW(verify(Linear().graph)); }

TEST(Ir, VerifyRefusesUseBeforeDefinition) {
  Linear linear;
  Node* late = linear.graph.add_node("aten::relu");
  Value* z = linear.graph.add_output_of(late, "z", floats({}));
  linear.node->set("bias", z);
  EXPECT_EQ(message_of([&] { verify(linear.graph); }),
            "graph main is malformed: %z is used by node aten::linear before it is made");
}

TEST(Ir, VerifyRefusesAValueMadeTwice) {
  Linear linear;
  linear.graph.add_node("aten::relu")->outputs = {linear.y};
  EXPECT_NE(message_of([&] { verify(linear.graph); }).find("%y is made twice"), std::string::npos);
}

TEST(Ir, VerifyRefusesANodeThatStandsTwice) {
  Linear linear;
  linear.graph.nodes.push_back(linear.node);
  EXPECT_NE(message_of([&] { verify(linear.graph); }).find("is in the graph twice"), std::string::npos);
}

TEST(Ir, VerifyRefusesAForeignProducer) {
  Linear linear;
  Node other;
  linear.y->producer = &other;
  EXPECT_NE(message_of([&] { verify(linear.graph); }).find("does not name as its producer"),
            std::string::npos);
}

TEST(Ir, VerifyRefusesAnOutputThatNobodyMakes) {
  Linear linear;
  linear.graph.outputs.push_back(linear.graph.add_value("loose", floats({})));
  EXPECT_NE(message_of([&] { verify(linear.graph); }).find("%loose is used by the graph's outputs"),
            std::string::npos);
  linear.graph.outputs.back() = nullptr;
  EXPECT_NE(message_of([&] { verify(linear.graph); }).find("null value"), std::string::npos);
}

TEST(Ir, VerifyRefusesAWeightOfTheWrongSize) {
  Linear linear;
  Weight weight = Weight::of<float>(std::vector<float>(6), {2, 3});
  weight.dims = {2, 4};
  linear.graph.add_initializer("short", weight);
  EXPECT_EQ(message_of([&] { verify(linear.graph); }),
            "graph main is malformed: initializer %short is float32[2, 4] but holds 24 bytes");
}

TEST(Ir, WeightsWhoseBytesAreNotThoseOfTheirDims) {
  const Weight two = Weight::of<float>(std::vector<float>(2), {2});
  const std::vector<std::string> words = {"a", "b"};
  const Weight text = Weight::of_strings(words, {2});
  EXPECT_TRUE(is_complete(two));
  EXPECT_TRUE(is_complete(text));
  EXPECT_TRUE(is_complete({ElementType::int4, {3}, two.bytes.first(2), two.owner}));
  for (const Weight& broken : {
           Weight{ElementType::float32, {8}, two.bytes, two.owner},
           Weight{ElementType::float32, {1}, two.bytes, two.owner},
           Weight{ElementType::float32, {}, {}, nullptr},
           Weight{ElementType::float32, {int64_t{1} << 62}, {}, nullptr},  // times 4 bytes is 0 modulo 2^64
           Weight{ElementType::string, {3}, text.bytes, text.owner},
           Weight{ElementType::string, {2}, text.bytes.first(17), text.owner},
       }) {
    EXPECT_FALSE(is_complete(broken)) << name(broken.element_type);
    Graph graph;
    graph.add_initializer("w", broken);
    EXPECT_EQ(print(graph).find('='), std::string::npos) << print(graph);
    EXPECT_THROW(verify(graph), Error);
    Linear linear;
    linear.node->set("value", std::make_shared<const Weight>(broken));
    EXPECT_THROW(verify(linear.graph), Error);
    EXPECT_EQ(print(linear.graph).find("value=tensor"), print(linear.graph).find("value="));
    linear.node->set("value", std::vector{std::make_shared<const Weight>(broken)});
    EXPECT_THROW(verify(linear.graph), Error);
  }
  const std::vector<int64_t> indices = {0, 1};
  const Weight at = Weight::of<int64_t>(indices, {2});
  EXPECT_NO_THROW((SparseTensor{two, at, {4}}).check());
  EXPECT_THROW((SparseTensor{{ElementType::float32, {2}, two.bytes.first(4), two.owner}, at, {4}}).check(),
               Error);
}

TEST(Ir, SubgraphsSeeOutwardsOnly) {
  Linear linear;
  auto body = std::make_shared<Graph>();
  body->name = "then";
  Node* inner = body->add_node("Relu");
  inner->inputs = {linear.x};
  Value* r = body->add_output_of(inner, "r", floats({}));
  body->outputs = {r};
  Node* branch = linear.graph.add_node("If");
  branch->set("then_branch", body);
  EXPECT_NO_THROW(verify(linear.graph));
  EXPECT_NE(print(linear.graph)
                .find("  If(then_branch=graph then)\n    graph then() {\n      %r: float32[] = "
                      "Relu(%x)\n      return %r\n    }\n"),
            std::string::npos);

  std::string seen;
  for_each_node(linear.graph, [&](Graph& graph, Node& node) { seen += graph.name + ":" + node.op + " "; });
  EXPECT_EQ(seen, "main:aten::linear main:If then:Relu ");

  linear.graph.outputs.push_back(r);
  EXPECT_NE(message_of([&] { verify(linear.graph); }).find("%r is used"), std::string::npos);
}

}  // namespace
}  // namespace opbridge::ir
