#include "onnx/model_reader.h"

#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>

#include "model_samples.h"
#include "onnx/tensor_reader.h"

namespace opbridge {
namespace {

using test::floats;
using test::TemporaryFolder;

// The whole content of a model as text.
struct Description {
  std::string text;

  void weight(const ir::Weight& weight) {
    text += "  bytes ";
    for (const std::byte byte : weight.bytes) text += std::to_string(static_cast<int>(byte)) + ' ';
    text += '\n';
  }
  void graph(const ir::Graph& graph) {
    text += ir::print(graph);
    for (const ir::Value* value : graph.initializers) weight(*value->weight);
    for (const ir::Node* node : graph.nodes) {
      text += node->op + " named " + node->name + " from " + node->source.line + '\n';
      for (const ir::Attribute& attribute : node->attributes) {
        if (const auto* tensor = std::get_if<std::shared_ptr<const ir::Weight>>(&attribute.value))
          weight(**tensor);
        if (const auto* tensors =
                std::get_if<std::vector<std::shared_ptr<const ir::Weight>>>(&attribute.value)) {
          for (const auto& each : *tensors) weight(*each);
        }
        if (const auto* body = std::get_if<ir::GraphPtr>(&attribute.value)) this->graph(**body);
        if (const auto* bodies = std::get_if<std::vector<ir::GraphPtr>>(&attribute.value)) {
          for (const ir::GraphPtr& each : *bodies) this->graph(*each);
        }
      }
    }
  }
};

std::string describe(const OnnxModel& model) {
  Description result;
  for (const auto& [domain, version] : model.opset_imports) {
    result.text += "import \"" + domain + "\" " + std::to_string(version) + '\n';
  }
  for (const OnnxFunction& function : model.functions) {
    result.text += "function " + function.domain + "::" + function.name + ' ' + function.bytes + '\n';
  }
  result.graph(model.graph);
  return result.text;
}

// FunctionProto of f(x) = Neg(Relu(x)).
std::string function_bytes() {
  std::string bytes;
  protozero::pbf_writer function(bytes);
  function.add_string(1, "F");
  function.add_string(4, "x");
  function.add_string(5, "y");
  for (const auto& [op, input, output] : {std::tuple("Relu", "x", "r"), std::tuple("Neg", "r", "y")}) {
    protozero::pbf_writer node(function, 7);
    node.add_string(1, input);
    node.add_string(2, output);
    node.add_string(4, op);
  }
  {
    protozero::pbf_writer opset(function, 9);
    opset.add_string(1, "");
    opset.add_int64(2, 21);
  }
  function.add_string(10, "local.functions");
  return bytes;
}

// A model with every form that the IR has for ONNX.
OnnxModel rich_model() {
  OnnxModel model = test::linear_model();
  model.opset_imports["custom"] = 3;
  model.opset_imports["local.functions"] = 1;
  model.functions.push_back({"local.functions", "F", 1, function_bytes()});
  ir::Graph& g = model.graph;
  g.name = "rich";
  const Dim batch = Dim::symbol("batch");
  ir::Value* x = g.inputs[0];
  ir::Value* y = g.outputs[0];
  ir::Value* flag = g.add_input("flag", ir::TensorType{ElementType::boolean, std::vector<Dim>()});
  g.add_initializer("empty", ir::Weight::of<int64_t>(std::vector<int64_t>(), {0}));
  g.add_initializer("scalar", ir::Weight::of<bool>(std::array{true}, {}));
  const auto owned = std::make_shared<std::vector<std::byte>>(3, std::byte{0x21});
  g.add_initializer("packed", {ElementType::int4, {5}, *owned, owned});
  g.add_initializer("half", {ElementType::float16, {1}, std::span(*owned).first(2), owned});

  const auto tensor = [](int64_t rows) { return std::make_shared<const ir::Weight>(test::iota(rows, 16)); };
  const auto body = [&](const std::string& prefix, const std::string& op) {
    auto graph = std::make_shared<ir::Graph>();
    graph->name = prefix;
    ir::Value* own = graph->add_initializer(prefix + "_bias", test::iota(1, 64));
    graph->outputs = {test::add(*graph, op, {y, own}, prefix + "_out", floats({batch, 64}))};
    return graph;
  };
  ir::Value* chosen = test::add(g, "If", {flag}, "chosen", floats({batch, 64}),
                                {{"then_branch", ir::GraphPtr(body("then", "Add"))},
                                 {"else_branch", ir::GraphPtr(body("else", "Sub"))}});
  ir::Value* custom = test::add(
      g, "custom::everything", {chosen, nullptr, x}, "custom_out", ir::TensorType{ElementType::float32, {}},
      {{"f", 0.5},
       {"i", int64_t{-3}},
       {"s", std::string("a \"string\"")},
       {"t", tensor(1)},
       {"large_t", tensor(40)},
       {"floats", std::vector<double>{0.25, -1e30f}},
       {"ints", std::vector<int64_t>{1, -1, int64_t{1} << 62}},
       {"no_ints", std::vector<int64_t>()},
       {"strings", std::vector<std::string>{"", "two"}},
       {"tensors", std::vector{tensor(1), tensor(2)}},
       {"graphs", std::vector<ir::GraphPtr>{body("g0", "Mul"), body("g1", "Div")}}});
  ir::Node* node = custom->producer;
  g.add_output_of(node, "", ir::TensorType{});  // left out
  g.add_output_of(node, "list", ir::ListType{{floats({Dim::parse("2*batch + 1"), 4})}});
  g.outputs.push_back(test::add(g, "local.functions::F", {custom}, "called", floats({batch, 64})));
  g.outputs.push_back(x);
  return model;
}

TEST(ModelReader, ReadsWhatIsWritten) {
  const TemporaryFolder folder;
  const OnnxModel model = rich_model();
  for (const ExternalData external : {ExternalData::automatic, ExternalData::always}) {
    write_onnx(model, folder / "m.onnx", {.external_data = external});
    const onnx::ModelFile file = onnx::read_onnx(folder / "m.onnx");
    EXPECT_EQ(describe(file.model), describe(model));
    EXPECT_EQ(file.producer_name, "opbridge");
    EXPECT_EQ(file.model.opset, 21);
    EXPECT_NO_THROW(ir::verify(file.model.graph));
    // Writing the model that was read gives the same bytes.
    const std::string written = test::read_text(folder / "m.onnx");
    write_onnx(file.model, folder / "m.onnx", {.external_data = external});
    EXPECT_EQ(test::read_text(folder / "m.onnx"), written);
  }
}

TEST(ModelReader, NamesTheOperatorsOfFunctions) {
  EXPECT_EQ(onnx::operators_of({"local.functions", "F", 1, function_bytes()}),
            (std::vector<std::string>{"Relu", "Neg"}));
}

TEST(ModelReader, RefusesMissingAndForeignFiles) {
  const TemporaryFolder folder;
  test::write_text(folder / "text.onnx", "this is not a model");
  test::write_text(folder / "empty.onnx", "");
  for (const auto& path :
       {folder / "missing.onnx", folder / "text.onnx", folder / "empty.onnx", folder.path()}) {
    try {
      onnx::read_onnx(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_file);
      EXPECT_NE(error.message().find(path.string()), std::string::npos);
    }
  }
}

// For truncated and changed files, reading returns a model or throws an Error.
TEST(ModelReader, SurvivesDamage) {
  const TemporaryFolder folder;
  write_onnx(rich_model(), folder / "m.onnx", {});
  const std::string whole = test::read_text(folder / "m.onnx");
  const auto parses = [](const std::string& text) {
    const auto copy = std::make_shared<std::string>(text);
    try {
      ir::verify(onnx::parse_onnx(std::as_bytes(std::span(*copy)), copy).model.graph);
      return true;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
      return false;
    }
  };
  EXPECT_TRUE(parses(whole));
  for (size_t size = 0; size < whole.size(); size += 7)
    EXPECT_FALSE(parses(whole.substr(0, size)) && size < 100);
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); at += 3) {
    for (const char bits : {'\x01', '\x08', '\x7f', '\x80'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ bits);
      refused += !parses(damaged);
    }
  }
  EXPECT_GT(refused, 100u);
}

// A TensorProto of the given type and dims, to which `add` adds the data.
template <class Add>
ir::Weight tensor(ElementType type, std::vector<int64_t> dims, const Add& add) {
  auto bytes = std::make_shared<std::string>();
  protozero::pbf_writer writer(*bytes);
  for (const int64_t dim : dims) writer.add_int64(1, dim);
  add(writer);
  writer.add_int32(2, static_cast<int32_t>(type));
  return onnx::TensorReader(bytes, {}).read(*bytes).weight;
}

template <class T>
std::vector<T> values(const ir::Weight& weight) {
  const std::span<const T> span = weight.as<T>();
  return {span.begin(), span.end()};
}

TEST(TensorReader, ReadsTypedFields) {
  using Writer = protozero::pbf_writer;
  const std::vector<float> floats = {1.5f, -2};
  EXPECT_EQ(values<float>(tensor(ElementType::float32, {2},
                                 [&](Writer& w) { w.add_packed_float(4, floats.begin(), floats.end()); })),
            floats);
  EXPECT_EQ(values<float>(tensor(ElementType::float32, {2},
                                 [&](Writer& w) {
                                   w.add_float(4, 1.5f);
                                   w.add_float(4, -2);
                                 })),
            floats);
  EXPECT_EQ(values<double>(tensor(ElementType::float64, {1}, [](Writer& w) { w.add_double(10, -0.1); })),
            std::vector{-0.1});
  const std::vector<int64_t> large = {-1, int64_t{1} << 40};
  EXPECT_EQ(values<int64_t>(tensor(ElementType::int64, {2},
                                   [&](Writer& w) { w.add_packed_int64(7, large.begin(), large.end()); })),
            large);
  EXPECT_EQ(
      values<uint64_t>(tensor(ElementType::uint64, {}, [](Writer& w) { w.add_uint64(11, UINT64_MAX); })),
      std::vector{UINT64_MAX});
  const std::vector<int32_t> small = {-1, 0, 1, 127};
  const auto add_small = [&](Writer& w) { w.add_packed_int32(5, small.begin(), small.end()); };
  EXPECT_EQ(values<int32_t>(tensor(ElementType::int32, {4}, add_small)), small);
  EXPECT_EQ(values<int8_t>(tensor(ElementType::int8, {2, 2}, add_small)),
            (std::vector<int8_t>{-1, 0, 1, 127}));
  EXPECT_EQ(tensor(ElementType::float16, {4}, add_small).bytes.size(), 8u);
  // Two 4-bit numbers in each byte, one byte in each number of the field.
  EXPECT_EQ(tensor(ElementType::int4, {7}, add_small).bytes.size(), 4u);
  const ir::Weight text = tensor(ElementType::string, {2}, [](Writer& w) {
    w.add_string(6, "a");
    w.add_string(6, "b");
  });
  EXPECT_EQ(text.strings(), (std::vector<std::string_view>{"a", "b"}));
}

TEST(TensorReader, RefusesDataThatDoesNotFit) {
  using Writer = protozero::pbf_writer;
  const auto refused = [](ElementType type, std::vector<int64_t> dims,
                          const std::function<void(Writer&)>& add) {
    try {
      tensor(type, std::move(dims), add);
      return std::string("nothing");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_file);
      return error.message();
    }
  };
  const auto eight = [](Writer& w) { w.add_bytes(9, std::string(8, 'x')); };
  EXPECT_EQ(refused(ElementType::float32, {2}, eight), "nothing");
  EXPECT_EQ(refused(ElementType::float32, {3}, eight),
            "tensor  (float32[3]): it should take 12 bytes and has 8");
  EXPECT_NE(refused(ElementType::float32, {-2}, eight), "nothing");
  EXPECT_NE(refused(ElementType::undefined, {2}, eight), "nothing");
  EXPECT_NE(refused(static_cast<ElementType>(200), {2}, eight), "nothing");
  // Products that wrap around to 2.
  constexpr int64_t half = int64_t{1} << 32;
  EXPECT_NE(refused(ElementType::float32, {half, half, half + 2}, eight), "nothing");
  EXPECT_NE(refused(ElementType::string, {half, half}, [](Writer&) {}), "nothing");
  EXPECT_EQ(refused(ElementType::float32, {half, half, 0}, [](Writer&) {}), "nothing");
}

class ExternalDataPaths : public ::testing::Test {
 protected:
  // A model in `inner` whose weight lies at `location`; the data is in the folder above as well.
  std::string error_for(const std::string& location, const std::string& offset = "0",
                        const std::string& length = "8192") {
    std::string bytes;
    {
      protozero::pbf_writer model(bytes);
      model.add_int64(1, 10);
      protozero::pbf_writer graph(model, 7);
      protozero::pbf_writer tensor(graph, 5);
      tensor.add_int64(1, 2048);
      tensor.add_int32(2, 1);
      tensor.add_string(8, "w");
      for (const auto& [key, value] :
           {std::pair("location", location), std::pair("offset", offset), std::pair("length", length)}) {
        protozero::pbf_writer entry(tensor, 13);
        entry.add_string(1, key);
        entry.add_string(2, value);
      }
      tensor.add_int32(14, 1);
    }
    std::filesystem::create_directory(folder / "inner");
    test::write_text(folder / "data", std::string(8192, 'x'));
    test::write_text(folder / "inner/data", std::string(8192, 'x'));
    test::write_text(folder / "inner/m.onnx", bytes);
    try {
      const onnx::ModelFile file = onnx::read_onnx(folder / "inner/m.onnx");
      EXPECT_EQ(file.model.graph.initializers[0]->weight->bytes.size(), 8192u);
      return "none";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_file);
      return error.what();
    }
  }
  TemporaryFolder folder;
};

TEST_F(ExternalDataPaths, StayBelowTheModel) {
  EXPECT_EQ(error_for("data"), "none");
  EXPECT_EQ(error_for("./data"), "none");
  for (const std::string& outside :
       {std::string("../data"), std::string("x/../../data"), (folder / "data").string(), std::string("")}) {
    EXPECT_NE(error_for(outside), "none") << outside;
  }
  std::filesystem::create_symlink(folder / "data", folder / "inner/link");
  EXPECT_NE(error_for("link").find("outside"), std::string::npos);
  EXPECT_NE(error_for("missing").find("No such file"), std::string::npos);
}

TEST_F(ExternalDataPaths, MustHoldTheBytes) {
  EXPECT_NE(error_for("data", "1").find("ends before"), std::string::npos);
  EXPECT_NE(error_for("data", "18446744073709551615", "8192").find("ends before"), std::string::npos);
  EXPECT_NE(error_for("data", "0", "8191").find("8191"), std::string::npos);
  EXPECT_NE(error_for("data", "-1").find("not a number"), std::string::npos);
  EXPECT_NE(error_for("data", "0x10").find("not a number"), std::string::npos);
}

}  // namespace
}  // namespace opbridge
