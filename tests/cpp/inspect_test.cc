#include <gtest/gtest.h>
#include <simdjson.h>

#include "inspect/graph_page.h"
#include "inspect/layout.h"
#include "inspect/summary.h"
#include "inspect/text.h"
#include "model_samples.h"

namespace opbridge::inspect {
namespace {

TEST(Text, JsonStringsNeverEndTheirScript) {
  EXPECT_EQ(json_string("</script><!--&"), R"("\u003c/script\u003e\u003c!--\u0026")");
  EXPECT_EQ(json_string("a\"b\\c\n\x01\x7f"), R"("a\"b\\c\u000a\u0001\u007f")");
  EXPECT_EQ(json_string("ä€😀"), "\"ä€😀\"");
  EXPECT_EQ(json_string("\u2028"), R"("\u2028")");
  // Invalid UTF-8: a lone continuation byte, overlong, a surrogate, beyond Unicode, truncated.
  for (const char* bytes : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    const std::string text = json_string(bytes);
    EXPECT_EQ(text.substr(0, 7), "\"\\ufffd") << text;
    for (const char c : text) EXPECT_GE(c, 0) << text;
  }
}

TEST(Text, PrintableTextCannotControlATerminal) {
  EXPECT_EQ(printable("a\x1b[31m\r\n"), "a\\x1b[31m\\x0d\\x0a");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(printable("\xff ä"), "\\xff ä");
}

TEST(Text, ClipsWholeCharacters) {
  EXPECT_EQ(clipped("äöüß", 4), "äöüß");
  EXPECT_EQ(clipped("äöüß", 3), "äö…");
  EXPECT_EQ(length("äö…"), 3u);
}

// Boxes of a layer are side by side, and every edge runs downwards from its source to its target.
void check(const Layout& layout) {
  for (size_t a = 0; a < layout.boxes.size(); ++a) {
    const Box& box = layout.boxes[a];
    EXPECT_GE(box.top_left.x, -0.01);
    EXPECT_LE(box.top_left.x + box.width, layout.width + 0.01);
    EXPECT_LE(box.top_left.y + box.height, layout.height + 0.01);
    for (size_t b = 0; b < a; ++b) {
      const Box& other = layout.boxes[b];
      const bool apart = box.top_left.x + box.width <= other.top_left.x ||
                         other.top_left.x + other.width <= box.top_left.x ||
                         box.top_left.y + box.height <= other.top_left.y ||
                         other.top_left.y + other.height <= box.top_left.y;
      EXPECT_TRUE(apart) << a << " and " << b;
    }
  }
  for (const Edge& edge : layout.edges) {
    const Box& from = layout.boxes[edge.from];
    const Box& to = layout.boxes[edge.to];
    ASSERT_GE(edge.route.size(), 2u);
    EXPECT_DOUBLE_EQ(edge.route.front().y, from.top_left.y + from.height);
    EXPECT_DOUBLE_EQ(edge.route.back().y, to.top_left.y);
    for (size_t i = 1; i < edge.route.size(); ++i) EXPECT_GE(edge.route[i].y, edge.route[i - 1].y);
  }
}

Layout layout_of(size_t boxes, const std::vector<std::pair<size_t, size_t>>& edges) {
  Layout layout;
  for (size_t i = 0; i < boxes; ++i) {
    layout.boxes.push_back(
        {.width = 40 + static_cast<double>(i * 37 % 90), .height = 20 + static_cast<double>(i * 13 % 40)});
  }
  for (const auto& [from, to] : edges) layout.edges.push_back({.from = from, .to = to});
  lay_out(layout);
  return layout;
}

TEST(Layout, OfNothingAndOfOneBox) {
  check(layout_of(0, {}));
  check(layout_of(1, {}));
  check(layout_of(3, {}));
}

TEST(Layout, AChainIsStraight) {
  const Layout layout = layout_of(4, {{0, 1}, {1, 2}, {2, 3}});
  check(layout);
  for (const Edge& edge : layout.edges) EXPECT_NEAR(edge.route.front().x, edge.route.back().x, 0.01);
}

TEST(Layout, ALongEdgeGoesAroundTheBoxesBesideIt) {
  // A residual: 0 → 1 → 2 → 3 → 4 and 0 → 4.
  const Layout layout = layout_of(5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4}});
  check(layout);
  const Edge& residual = layout.edges.back();
  EXPECT_EQ(residual.route.size(), 2u + 2 * 3);
  for (size_t box = 1; box <= 3; ++box) {
    const double x = residual.route[2 * box].x;
    const Box& b = layout.boxes[box];
    EXPECT_TRUE(x < b.top_left.x || x > b.top_left.x + b.width);
  }
}

TEST(Layout, WithoutCrossingsWhereNoneIsNeeded) {
  // Two chains whose ends are listed crosswise.
  const Layout layout = layout_of(6, {{0, 2}, {1, 3}, {2, 5}, {3, 4}});
  check(layout);
  const auto x = [&](size_t box) { return layout.boxes[box].top_left.x; };
  EXPECT_EQ(x(0) < x(1), x(2) < x(3));
  EXPECT_EQ(x(2) < x(3), x(5) < x(4));
}

TEST(Layout, WhatFloatsStandsAboveItsUser) {
  Layout layout;
  for (int i = 0; i < 6; ++i) layout.boxes.push_back({.width = 40, .height = 20, .floats = i == 1 || i == 2});
  layout.edges = {{.from = 0, .to = 3},
                  {.from = 3, .to = 4},
                  {.from = 4, .to = 5},
                  {.from = 1, .to = 2},
                  {.from = 2, .to = 5}};
  lay_out(layout);
  EXPECT_EQ(layout.boxes[2].top_left.y, layout.boxes[4].top_left.y);
  EXPECT_EQ(layout.boxes[1].top_left.y, layout.boxes[3].top_left.y);
}

TEST(Layout, OfRandomGraphs) {
  uint32_t state = 1;
  const auto random = [&](size_t below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
  for (int round = 0; round < 20; ++round) {
    std::vector<std::pair<size_t, size_t>> edges;
    const size_t boxes = 2 + random(60);
    for (size_t to = 1; to < boxes; ++to) {
      for (size_t k = random(4); k-- > 0;) edges.emplace_back(random(to), to);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    check(layout_of(boxes, edges));
  }
}

// Each box feeds the next and the last: places for all edges would be too many.
TEST(Layout, BoundsTheWorkForLongEdges) {
  std::vector<std::pair<size_t, size_t>> edges;
  constexpr size_t boxes = 3000;
  for (size_t i = 0; i + 1 < boxes; ++i) {
    edges.emplace_back(i, i + 1);
    if (i + 2 < boxes) edges.emplace_back(i, boxes - 1);
  }
  const Layout layout = layout_of(boxes, edges);
  EXPECT_EQ(layout.edges[1].route.size(), 2u);
}

onnx::ModelFile sample() {
  onnx::ModelFile file;
  file.model = test::linear_model();
  file.ir_version = 10;
  file.producer_name = "opbridge";
  ir::Graph& g = file.model.graph;
  test::add(g, "custom::f", {g.outputs[0]}, "f", ir::TensorType{});
  test::add(g, "local::F", {g.outputs[0]}, "g", ir::TensorType{});
  file.model.opset_imports["custom"] = 1;
  file.model.functions.push_back({"local", "F", 1, ""});
  return file;
}

TEST(Summary, Counts) {
  const Summary summary = summarize(sample());
  EXPECT_EQ(summary.weights.tensors, 2u);
  EXPECT_EQ(summary.weights.elements, 32u * 64 + 64);
  EXPECT_EQ(summary.weights.bytes, 4 * summary.weights.elements);
  EXPECT_EQ(summary.largest_weights[0].first.name, "linear.weight");
  EXPECT_EQ(summary.operators.size(), 5u);
  ASSERT_EQ(summary.custom_operators.size(), 1u);
  EXPECT_EQ(summary.custom_operators[0].op, "custom::f");
  EXPECT_EQ(summary.functions[0].name, "local::F");
}

TEST(Summary, AsText) {
  Summary summary = summarize(sample());
  summary.file = "m.onnx";
  summary.format = "ONNX";
  summary.file_bytes = 12345;
  EXPECT_EQ(to_text(summary),
            "m.onnx: ONNX, 12.3 kB\n"
            "  producer  opbridge\n"
            "  IR        10\n"
            "  opsets    ai.onnx 21, custom 1\n"
            "\ninputs\n"
            "  x  float32[batch, 32]\n"
            "\noutputs\n"
            "  y  float32[batch, 64]\n"
            "\noperators: 5 nodes, 5 kinds\n"
            "  Add        1\n"
            "  MatMul     1\n"
            "  Relu       1\n"
            "  custom::f  1\n"
            "  local::F   1\n"
            "\nweights: 2 tensors, 2,112 elements, 8.4 kB\n"
            "  float32  2 tensors  2,112 elements  8.4 kB\n"
            "\nlargest weights\n"
            "  linear.weight  float32[32, 64]  8.2 kB\n"
            "  linear.bias    float32[1, 64]   256 bytes\n"
            "\nfunctions\n"
            "  local::F  0 nodes: \n"
            "\ncustom operators that the runtime must know\n"
            "  custom::f  1\n");
}

TEST(Summary, AsJson) {
  const Summary summary = summarize(sample());
  simdjson::dom::parser parser;
  const simdjson::padded_string json(to_json(summary));
  const simdjson::dom::element root = parser.parse(json);
  EXPECT_EQ(int64_t(root["ir_version"]), 10);
  EXPECT_EQ(std::string_view(root["inputs"].at(0)["type"]), "float32[batch, 32]");
  EXPECT_EQ(int64_t(root["weights"]["elements"]), 2112);
  EXPECT_EQ(std::string_view(root["custom_operators"].at(0)["op"]), "custom::f");
}

simdjson::dom::element page_data(simdjson::dom::parser& parser, const std::string& page) {
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const size_t from = page.find(begin) + begin.size();
  const size_t to = page.find("</script>", from);
  return parser.parse(simdjson::padded_string(page.substr(from, to - from)));
}

TEST(GraphPage, HoldsTheGraph) {
  const onnx::ModelFile file = sample();
  simdjson::dom::parser parser;
  const auto data = page_data(parser, graph_page(file.model.graph, summarize(file), 21));
  const auto graph = data["graphs"].at(0);
  // One input, five nodes, one output; the weights are lines of the nodes that use them.
  ASSERT_EQ(graph["boxes"].get_array().size(), 7u);
  EXPECT_EQ(graph["edges"].get_array().size(), 6u);
  const auto matmul = graph["boxes"].at(1);
  EXPECT_EQ(std::string_view(matmul["op"]), "MatMul");
  EXPECT_EQ(std::string_view(matmul["lines"].at(1)), "B = float32[32, 64]");
  EXPECT_EQ(std::string_view(matmul["scope"]), "linear");
  EXPECT_EQ(std::string_view(matmul["uses"].at(0).at(0)), "A");
}

TEST(GraphPage, OpensSubgraphs) {
  onnx::ModelFile file = sample();
  ir::Graph& g = file.model.graph;
  auto body = std::make_shared<ir::Graph>();
  body->outputs = {test::add(*body, "Neg", {g.inputs[0]}, "negative", ir::TensorType{})};
  ir::Value* flag = g.add_input("flag", ir::TensorType{ElementType::boolean, std::vector<Dim>()});
  test::add(g, "If", {flag}, "chosen", ir::TensorType{}, {{"then_branch", ir::GraphPtr(body)}});
  simdjson::dom::parser parser;
  const auto data = page_data(parser, graph_page(g, summarize(file), 21));
  ASSERT_EQ(data["graphs"].get_array().size(), 2u);
  // An outer value that the body uses is drawn as an input of the body and as a use of the node.
  const auto drawn_body = data["graphs"].at(1)["boxes"];
  EXPECT_EQ(std::string_view(drawn_body.at(0)["kind"]), "captured");
  EXPECT_EQ(std::string_view(drawn_body.at(0)["title"]), "x");
  const auto chosen = data["graphs"].at(0)["boxes"].at(7);
  EXPECT_EQ(std::string_view(chosen["op"]), "If");
  EXPECT_EQ(std::string_view(chosen["uses"].at(1).at(1)), "x");
  EXPECT_EQ(int64_t(chosen["bodies"].at(0).at(1)), 1);
}

TEST(GraphPage, IsSafeWhateverTheModelSays) {
  const std::string hostile =
      "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\\\x80\x1b@data@";
  onnx::ModelFile file = sample();
  ir::Graph& g = file.model.graph;
  const std::string harmless = graph_page(g, summarize(file), 21);
  g.name = hostile;
  g.inputs[0]->name = hostile;
  g.initializers[0]->name = hostile;
  g.nodes[0]->op = hostile;
  g.nodes[0]->name = hostile;
  g.nodes[0]->source = {hostile, hostile, hostile, false, hostile, hostile};
  g.nodes[0]->set(hostile, hostile);
  g.inputs[0]->type = test::floats({Dim::symbol(hostile)});
  Summary summary = summarize(file);
  summary.file = summary.producer = hostile;
  const std::string page = graph_page(g, summary, 21);
  const auto count = [](const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  for (const char* mark : {"<script", "</script", "<img", "<!--"})
    EXPECT_EQ(count(page, mark), count(harmless, mark));
  simdjson::dom::parser parser;
  EXPECT_EQ(std::string_view(page_data(parser, page)["summary"]["file"]).substr(0, 9), "</script>");
}

TEST(GraphPage, NeedsNothingFromOutside) {
  const onnx::ModelFile file = sample();
  const std::string page = graph_page(file.model.graph, summarize(file), 21);
  for (const char* mark : {"http:", "https:", "src=", "href=", "@import", "url("}) {
    EXPECT_EQ(page.find(mark), std::string::npos) << mark;
  }
}

}  // namespace
}  // namespace opbridge::inspect
