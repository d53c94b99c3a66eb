// Models for the tests of the writer and the reader.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "opbridge/convert.h"

namespace opbridge::test {

// A temporary folder of the test, which is removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "opbridge-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  // The names of its entries, sorted and separated by spaces.
  std::string list() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    std::string result;
    for (const std::string& name : names) result += (result.empty() ? "" : " ") + name;
    return result;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline ir::TensorType floats(std::vector<Dim> dims) { return {ElementType::float32, std::move(dims)}; }

inline ir::Weight iota(int64_t rows, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251) * 0.25f;
  return ir::Weight::of<float>(values, {rows, columns});
}

inline ir::Value* add(ir::Graph& graph, std::string op, std::vector<ir::Value*> inputs, std::string output,
                      ir::Type type, std::vector<ir::Attribute> attributes = {}) {
  ir::Node* node = graph.add_node(std::move(op));
  node->name = "node_" + output;
  node->inputs = std::move(inputs);
  node->attributes = std::move(attributes);
  return graph.add_output_of(node, std::move(output), std::move(type));
}

// relu(x @ w + b), x of shape [batch, 32]: a weight that is large enough for external data, and one that
// is not.
inline OnnxModel linear_model() {
  OnnxModel model;
  model.opset_imports = {{"", 21}};
  ir::Graph& g = model.graph;
  const Dim batch = Dim::symbol("batch");
  ir::Value* x = g.add_input("x", floats({batch, 32}));
  ir::Value* w = g.add_initializer("linear.weight", iota(32, 64));
  ir::Value* b = g.add_initializer("linear.bias", iota(1, 64));
  ir::Value* product = add(g, "MatMul", {x, w}, "matmul", floats({batch, 64}));
  ir::Value* sum = add(g, "Add", {product, b}, "add", floats({batch, 64}));
  g.outputs = {add(g, "Relu", {sum}, "y", floats({batch, 64}))};
  g.nodes[0]->source = {"linear", "model.py:7 in forward: return self.linear(x).relu()"};
  return model;
}

}  // namespace opbridge::test
