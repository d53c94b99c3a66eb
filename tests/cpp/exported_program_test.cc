#include "frontend/exported_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "opbridge/error.h"
#include "opbridge/frontend.h"
#include "zip_builder.h"

namespace opbridge {
namespace {

using ::testing::IsSubstring;
using Bytes = std::vector<std::byte>;

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string list_of(std::vector<int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += fmt::format("{}{{\"as_int\": {}}}", text.empty() ? "" : ", ", number);
  return "[" + text + "]";
}

// TensorMeta of torch/_export/serde/schema.py; 7 is float and strided.
std::string meta(std::vector<int64_t> sizes, std::vector<int64_t> strides = {}, int64_t offset = 0) {
  return fmt::format(
      R"({{"dtype": 7, "sizes": {}, "requires_grad": false, "device": {{"type": "cpu", "index": null}},
          "strides": {}, "storage_offset": {{"as_int": {}}}, "layout": 7}})",
      list_of(sizes), list_of(strides), offset);
}

std::string payload(std::string_view file, const std::string& tensor_meta, bool pickled = false) {
  return fmt::format(R"({{"path_name": "{}", "is_param": true, "use_pickle": {}, "tensor_meta": {}}})", file,
                     pickled, tensor_meta);
}

std::string node(std::string_view target, std::string_view inputs, std::string_view outputs) {
  return fmt::format(
      R"json({{"target": "{}", "inputs": [{}], "outputs": [{}], "name": "n",
               "metadata": {{"stack_trace": "File \"net.py\", line 7, in forward\n    return f(x)",
                            "nn_module_stack": "L,,M;L_a,a,A"}}}})json",
      target, inputs, outputs);
}

std::string tensor(std::string_view name) {
  return fmt::format(R"({{"as_tensor": {{"name": "{}"}}}})", name);
}

std::string input(std::string_view name, std::string_view argument) {
  return fmt::format(R"({{"name": "{}", "arg": {}, "kind": 1}})", name, argument);
}

// The variable parts of a program with the user input x: float[2, 3], the weight w, and the output y.
struct Program {
  std::string nodes = node("torch.ops.aten.mul.Tensor",
                           input("self", tensor("x")) + "," + input("other", tensor("p_w")), tensor("y"));
  std::string values = "";        // more of tensor_values, with a comma before
  std::string numbers = "";       // more fields of the graph, with a comma before
  std::string more_inputs = "";   // more input_specs, with a comma before
  std::string more_outputs = "";  // more output_specs, with a comma before
  std::string weights = R"("w": )" + payload("weight_0", meta({2, 3}, {3, 1}));
  std::string storage = bytes_of({0, 1, 2, 3, 4, 5});
  std::string schema_major = "8";

  std::string json() const {
    return fmt::format(
        R"({{"graph_module": {{"graph": {{"inputs": [], "outputs": [], "nodes": [{}],
             "tensor_values": {{"x": {}, "p_w": {}, "y": {} {}}} {}}},
            "signature": {{
              "input_specs": [{{"parameter": {{"arg": {{"name": "p_w"}}, "parameter_name": "w"}}}},
                              {{"user_input": {{"arg": {}}}}} {}],
              "output_specs": [{{"user_output": {{"arg": {}}}}} {}]}}}},
            "schema_version": {{"major": {}, "minor": 20}}, "torch_version": "9.9"}})",
        nodes, meta({2, 3}), meta({2, 3}), meta({2, 3}), values, numbers, tensor("x"), more_inputs,
        tensor("y"), more_outputs, schema_major);
  }

  std::vector<ZipEntry> entries() const {
    return {{"net/models/model.json", json()},
            {"net/data/weights/model_weights_config.json", "{\"config\": {" + weights + "}}"},
            {"net/data/constants/model_constants_config.json", "{\"config\": {}}"},
            {"net/byteorder", "little"},
            {"net/data/weights/weight_0", storage}};
  }
};

ir::Graph read(const std::vector<ZipEntry>& entries) {
  auto bytes = std::make_shared<Bytes>(ZipBuilder().build(entries));
  return read_exported_program(*bytes, bytes);
}

ir::Graph read(const Program& program) { return read(program.entries()); }

std::string refusal(const std::vector<ZipEntry>& entries, ErrorCode code = ErrorCode::invalid_file) {
  try {
    read(entries);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

std::string refusal(const Program& program, ErrorCode code = ErrorCode::invalid_file) {
  return refusal(program.entries(), code);
}

std::vector<float> weight_values(const Program& program) {
  const ir::Graph graph = read(program);
  const auto values = graph.initializers.at(0)->weight->as<float>();
  return {values.begin(), values.end()};
}

TEST(ExportedProgram, ReadsNodesValuesAndSources) {
  const ir::Graph graph = read(Program());
  EXPECT_EQ(ir::print(graph), R"(graph main(%x: float32[2, 3]) {
  weight %w: float32[2, 3] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
  %y: float32[2, 3] = aten::mul.Tensor(self=%x, other=%w)  # a
  return %y
}
)");
  EXPECT_EQ(graph.nodes[0]->source.line, "net.py:7 in forward: return f(x)");
  EXPECT_EQ(graph.nodes[0]->name, "n");
}

TEST(ExportedProgram, BorrowsContiguousWeightsAndCopiesOthers) {
  Program program;
  EXPECT_EQ(weight_values(program), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  program.weights = R"("w": )" + payload("weight_0", meta({2, 3}, {1, 2}));
  EXPECT_EQ(weight_values(program), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  program.weights = R"("w": )" + payload("weight_0", meta({2}, {3}, 2));
  EXPECT_EQ(weight_values(program), (std::vector<float>{2, 5}));
  program.weights = R"("w": )" + payload("weight_0", meta({2, 1, 2}, {0, 77, 1}, 3));
  EXPECT_EQ(weight_values(program), (std::vector<float>{3, 4, 3, 4}));
  program.weights = R"("w": )" + payload("weight_0", meta({}, {}, 5));
  EXPECT_EQ(weight_values(program), (std::vector<float>{5}));
  program.weights = R"("w": )" + payload("weight_0", meta({4, 0}, {1, 1}, 99));
  EXPECT_EQ(weight_values(program), (std::vector<float>{}));
}

TEST(ExportedProgram, BorrowsFromTheArchive) {
  // The storage is the first entry, so its offset and its alignment are known: 30 bytes of header and the
  // name.
  std::vector<ZipEntry> entries = Program().entries();
  std::rotate(entries.begin(), entries.end() - 1, entries.end());
  const size_t data_at = 30 + entries[0].name.size();
  for (size_t shift = 0; shift < 4; ++shift) {
    auto memory = std::make_shared<Bytes>(shift);
    const Bytes archive = ZipBuilder().build(entries);
    memory->insert(memory->end(), archive.begin(), archive.end());
    const auto bytes = std::span<const std::byte>(*memory).subspan(shift);
    const ir::Graph graph = read_exported_program(bytes, memory);
    const ir::Weight& weight = *graph.initializers.at(0)->weight;
    const bool aligned = reinterpret_cast<uintptr_t>(bytes.data() + data_at) % sizeof(float) == 0;
    EXPECT_EQ(weight.bytes.data() == bytes.data() + data_at, aligned);
    EXPECT_EQ(weight.as<float>()[5], 5);
  }
}

TEST(ExportedProgram, RefusesWeightsThatReachOutside) {
  Program program;
  const auto refused = [&](std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset = 0) {
    program.weights = R"("w": )" + payload("weight_0", meta(std::move(sizes), std::move(strides), offset));
    return refusal(program);
  };
  EXPECT_PRED_FORMAT2(IsSubstring, "reaches outside", refused({2, 3}, {3, 1}, 1));
  EXPECT_PRED_FORMAT2(IsSubstring, "reaches outside", refused({7}, {1}));
  EXPECT_PRED_FORMAT2(IsSubstring, "reaches outside", refused({2, 3}, {3}));
  EXPECT_PRED_FORMAT2(IsSubstring, "reaches outside", refused({INT64_MAX, INT64_MAX}, {INT64_MAX, 1}));
  EXPECT_PRED_FORMAT2(IsSubstring, "reaches outside", refused({2}, {INT64_MAX}, INT64_MAX));
  EXPECT_PRED_FORMAT2(IsSubstring, "reaches outside", refused({INT64_MAX, INT64_MAX}, {0, 0}));
  EXPECT_PRED_FORMAT2(IsSubstring, "not a plain number", refused({-1}, {1}));
  EXPECT_PRED_FORMAT2(IsSubstring, "not a plain number", refused({2}, {-1}));
  EXPECT_PRED_FORMAT2(IsSubstring, "not a plain number", refused({2}, {1}, -1));
  program.weights = R"("w": )" + payload("weight_0", meta({int64_t{1} << 40}, {0}));
  EXPECT_PRED_FORMAT2(IsSubstring, "beyond 2 GB", refusal(program, ErrorCode::unsupported));
}

TEST(ExportedProgram, RefusesWeightsThatAreNotThere) {
  Program program;
  program.weights = R"("w": )" + payload("weight_0", meta({2, 3}, {3, 1}), true);
  EXPECT_PRED_FORMAT2(IsSubstring, "stored as a pickle", refusal(program));
  program.weights = R"("w": )" + payload("weight_7", meta({2, 3}, {3, 1}));
  EXPECT_PRED_FORMAT2(IsSubstring, "weight_7", refusal(program));
  program.weights = "";
  EXPECT_PRED_FORMAT2(IsSubstring, "weight 'w' is not in the archive", refusal(program));
  program = Program();
  program.storage = "";
  EXPECT_PRED_FORMAT2(IsSubstring, "has no bytes", refusal(program));
}

TEST(ExportedProgram, LeavesOutUnusedWeights) {
  Program program;
  program.nodes = node("torch.ops.aten.relu.default", input("self", tensor("x")), tensor("y"));
  program.weights = R"("w": )" + payload("weight_0", "null", true);
  const ir::Graph graph = read(program);
  EXPECT_TRUE(graph.initializers.empty());
  EXPECT_EQ(graph.nodes[0]->op, "aten::relu");
}

TEST(ExportedProgram, KeepsThePlacesOfResults) {
  Program program;
  program.values = fmt::format(R"(, "a": {}, "b": {})", meta({1}), meta({2}));
  program.nodes =
      node("torch.ops.my.op.over", input("self", tensor("x")),
           R"({"as_none": true}, {"as_tensors": [{"name": "a"}, {"name": "b"}]}, )" + tensor("y"));
  const ir::Graph graph = read(program);
  const ir::Node& made = *graph.nodes.at(0);
  EXPECT_EQ(made.op, "my::op.over");
  ASSERT_EQ(made.outputs.size(), 4u);
  EXPECT_EQ(made.outputs[0]->tensor_type().element_type, ElementType::undefined);
  EXPECT_EQ(made.outputs[1]->name, "a");
  EXPECT_EQ(made.outputs[2]->name, "b");
  EXPECT_EQ(made.outputs[3]->name, "y");
}

TEST(ExportedProgram, ReadsArgumentsOfEveryKind) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"as_none": true})", "None"},
      {R"({"as_int": -3})", "-3"},
      {R"({"as_ints": [1, 2]})", "[1, 2]"},
      {R"({"as_float": 0.5})", "0.5"},
      {R"({"as_float": "-Infinity"})", "-inf"},
      {R"({"as_floats": [1, 2.5]})", "[1.0, 2.5]"},
      {R"({"as_bool": true})", "True"},
      {R"({"as_bools": [true, false]})", "[True, False]"},
      {R"({"as_string": "none"})", "\"none\""},
      {R"({"as_strings": ["a", "b"]})", "[\"a\", \"b\"]"},
      {R"({"as_tensors": [{"name": "x"}, {"name": "p_w"}]})", "[%x, %w]"},
      {R"({"as_optional_tensor": {"as_none": true}})", "None"},
      {R"({"as_optional_tensor": {"as_tensor": {"name": "x"}}})", "%x"},
      {R"({"as_optional_tensors": [{"as_none": true}, {"as_tensor": {"name": "x"}}]})", "[None, %x]"},
      {R"({"as_sym_int": {"as_int": 4}})", "4"},
      {R"({"as_sym_ints": [{"as_int": 4}, {"as_int": 5}]})", "[4, 5]"},
      {R"({"as_sym_float": {"as_float": 4}})", "4.0"},
      {R"({"as_sym_floats": [{"as_float": 4}]})", "[4.0]"},
      {R"({"as_sym_bool": {"as_bool": false}})", "False"},
      {R"({"as_complex": {"real": 1, "imag": -2.5}})", "complex(1.0, -2.5)"},
      {R"({"as_scalar_type": 12})", "bool"},
      {R"({"as_layout": 7})", "'strided'"},
      {R"({"as_memory_format": 2})", "'channels_last'"},
      {R"({"as_device": {"type": "cuda", "index": 1}})", "'cuda:1'"},
  };
  for (const auto& [argument, text] : cases) {
    Program program;
    program.nodes = node("torch.ops.aten.op.default", input("a", argument), tensor("y"));
    EXPECT_PRED_FORMAT2(IsSubstring, "aten::op(a=" + text + ")", ir::print(read(program))) << argument;
  }
  Program program;
  program.nodes = node("torch.ops.aten.op.default", input("a", R"({"as_scalar_type": 9})"), tensor("y"));
  EXPECT_PRED_FORMAT2(IsSubstring, "net.py:7 in forward", refusal(program, ErrorCode::unsupported));
  program.nodes = node("torch.ops.aten.op.default", input("a", R"({"as_custom_obj": {}})"), tensor("y"));
  EXPECT_PRED_FORMAT2(IsSubstring, "custom class", refusal(program, ErrorCode::unsupported));
  program.nodes = node("torch.ops.aten.op.default", input("a", R"({"as_surprise": 1})"), tensor("y"));
  EXPECT_PRED_FORMAT2(IsSubstring, "as_surprise", refusal(program, ErrorCode::unsupported));
}

TEST(ExportedProgram, RefusesGraphsThatContradictThemselves) {
  Program program;
  program.nodes = node("torch.ops.aten.relu.default", input("self", tensor("y")), tensor("y"));
  EXPECT_PRED_FORMAT2(IsSubstring, "'y' is used before it is defined", refusal(program));
  program.nodes = "";
  EXPECT_PRED_FORMAT2(IsSubstring, "'y' is used before it is defined", refusal(program));
  program.nodes = node("torch.ops.aten.relu.default", input("self", tensor("x")), tensor("z"));
  EXPECT_PRED_FORMAT2(IsSubstring, "'z' has no type", refusal(program));
  program.nodes = R"({"target": 3})";
  EXPECT_PRED_FORMAT2(IsSubstring, "'target' is not a string", refusal(program));
  program.nodes = R"({"target": "torch.ops.aten.relu.default"})";
  EXPECT_PRED_FORMAT2(IsSubstring, "'outputs' is missing", refusal(program));
  program.nodes = R"(7)";
  EXPECT_PRED_FORMAT2(IsSubstring, "has the wrong kind", refusal(program));
}

TEST(ExportedProgram, WritesMutationsBack) {
  Program program;
  program.more_outputs =
      fmt::format(R"(, {{"buffer_mutation": {{"arg": {{"name": "y"}}, "buffer_name": "w"}}}},
                     {{"user_input_mutation": {{"arg": {{"name": "y"}}, "user_input_name": "x"}}}})");
  const std::string text = ir::print(read(program));
  EXPECT_PRED_FORMAT2(IsSubstring, "aten::copy_(self=%w, src=%y)", text);
  EXPECT_PRED_FORMAT2(IsSubstring, "aten::copy_(self=%x, src=%y)", text);
  program.more_outputs = R"(, {"gradient_to_parameter": {"arg": {"name": "y"}, "parameter_name": "w"}})";
  EXPECT_PRED_FORMAT2(IsSubstring, "gradients", refusal(program, ErrorCode::unsupported));
}

TEST(ExportedProgram, NamesWhatAForeignArchiveIs) {
  const auto refused = [](std::string name) {
    return refusal(std::vector<ZipEntry>{{std::move(name), "{}"}});
  };
  EXPECT_PRED_FORMAT2(IsSubstring, "without an exported program", refused("net/readme"));
  EXPECT_PRED_FORMAT2(IsSubstring, "TorchScript archive", refused("net/code/__torch__.py"));
  EXPECT_PRED_FORMAT2(IsSubstring, "torch.save", refused("net/data.pkl"));
  EXPECT_PRED_FORMAT2(IsSubstring, "AOTInductor", refused("net/data/aotinductor/model/x.so"));
  EXPECT_PRED_FORMAT2(IsSubstring, "older torch", refused("serialized_exported_program.json"));
}

TEST(ExportedProgram, RefusesOtherVersionsAndByteOrders) {
  Program program;
  program.schema_major = "9";
  EXPECT_PRED_FORMAT2(IsSubstring, "schema version 9.20 (written by torch 9.9)", refusal(program));
  program.schema_major = "7";
  EXPECT_PRED_FORMAT2(IsSubstring, "save it again with a newer torch", refusal(program));
  std::vector<ZipEntry> entries = Program().entries();
  entries[3] = {"net/byteorder", "big"};
  EXPECT_PRED_FORMAT2(IsSubstring, "little-endian", refusal(entries));
  entries = Program().entries();
  entries[0].crc ^= 1;
  EXPECT_PRED_FORMAT2(IsSubstring, "checksum", refusal(entries));
  entries = Program().entries();
  entries[0] = {"net/models/model.json", "{"};
  EXPECT_PRED_FORMAT2(IsSubstring, "not valid JSON", refusal(entries));
}

TEST(ExportedProgram, ChoosesAmongSeveralPrograms) {
  std::vector<ZipEntry> entries = Program().entries();
  entries.push_back({"net/models/other.json", "{}"});
  EXPECT_EQ(read(entries).nodes.size(), 1u);
  entries[0] = {"net/models/first.json", Program().json()};
  EXPECT_PRED_FORMAT2(IsSubstring, "several exported programs ('first', 'other')", refusal(entries));
}

// A changed byte may result in another program, but never in a crash.
TEST(ExportedProgram, SurvivesEveryChangedByte) {
  std::vector<ZipEntry> entries = Program().entries();
  const std::string json = entries[0].stored;
  for (size_t at = 0; at < json.size(); ++at) {
    for (char replacement : {'0', '-', '{', '"', 'e', '\\'}) {
      std::string changed = json;
      changed[at] = replacement;
      entries[0] = {"net/models/model.json", changed};
      try {
        ir::print(read(entries));
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace opbridge
