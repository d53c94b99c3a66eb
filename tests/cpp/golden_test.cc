// Golden tests of the passes: graphs before and after, as text. The files golden/PASS.txt hold the cases of a
// pass: a line `# title`, the graph before, a line `=>`, and the graph after, or nothing if the pass must not
// change the graph. OPBRIDGE_UPDATE_GOLDEN=1 writes the current results of the passes; read the difference
// before you commit it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "ir/dead_code.h"
#include "ir/parse.h"
#include "opbridge/convert.h"
#include "opbridge/symbolic.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/standard/legalize.h"
#include "runtimes/standard/transposed_weights.h"
#include "simplify/passes.h"
#include "torch/prims.h"

namespace opbridge {
namespace {

const std::filesystem::path folder = OPBRIDGE_GOLDEN_DIR;

using Pass = std::function<void(ir::Graph&)>;

// A rewrite of the stage for ONNX Runtime, which is given the names of the graph.
template <class Rewrite>
Pass with_names(const Rewrite& rewrite) {
  return [rewrite](ir::Graph& graph) {
    ir::Names names(graph);
    rewrite(graph, names);
  };
}

void throw_refusal(const ir::Node&, const Error& error) { throw error; }

void legalize_for_standard(ir::Graph& graph) {
  OnnxModel model;
  model.graph = std::move(graph);
  model.opset = default_opset;
  model.opset_imports = {{"", default_opset}, {"opbridge", 1}};
  standard::legalize(model, throw_refusal);
  graph = std::move(model.graph);
}

const std::map<std::string, Pass>& passes() {
  static const std::map<std::string, Pass> table = {
      {"cast_before_rotations", with_names(onnxruntime::cast_before_rotations)},
      {"compute_small_sigmoids", with_names(onnxruntime::compute_small_sigmoids)},
      {"convert_dequantized_weights", with_names(onnxruntime::convert_dequantized_weights)},
      {"divide_by_reciprocals", [](ir::Graph& graph) { divide_by_reciprocals(graph); }},
      {"fit_element_types", with_names([](ir::Graph& graph, ir::Names& names) {
         onnxruntime::fit_element_types(graph, names, default_opset, throw_refusal);
       })},
      {"fold_batch_normalization", [](ir::Graph& graph) { fold_batch_normalization(graph); }},
      {"fold_channel_scales", [](ir::Graph& graph) { fold_channel_scales(graph); }},
      {"fold_constants", [](ir::Graph& graph) { fold_constants(graph); }},
      {"functionalize", [](ir::Graph& graph) { graph = functionalize(std::move(graph)); }},
      {"keep_lossy_casts", with_names(onnxruntime::keep_lossy_casts)},
      {"keep_pads_before_pools", with_names([](ir::Graph& graph, ir::Names& names) {
         onnxruntime::keep_pads_before_pools(graph, names, default_opset);
       })},
      {"keep_float_weights", with_names(onnxruntime::keep_float_weights)},
      {"keep_repeated_quantization", with_names(onnxruntime::keep_repeated_quantization)},
      {"keep_rounded_products", with_names(onnxruntime::keep_rounded_products)},
      {"keep_transposed_outputs", with_names(onnxruntime::keep_transposed_outputs)},
      {"mend_empty_products", with_names([](ir::Graph& graph, ir::Names& names) {
         onnxruntime::mend_empty_products(graph, names, default_opset);
       })},
      {"merge_common_subexpressions", [](ir::Graph& graph) { merge_common_subexpressions(graph); }},
      {"legalize_for_standard", legalize_for_standard},
      {"multiply_four_bits", with_names(onnxruntime::multiply_four_bits)},
      {"remove_dead_code", [](ir::Graph& graph) { ir::remove_dead_code(graph); }},
      {"remove_identities", [](ir::Graph& graph) { remove_identities(graph); }},
      {"canonicalize_transposes", [](ir::Graph& graph) { canonicalize_transposes(graph); }},
      {"replace_prims", torch::replace_prims},
      {"replace_nodes",
       [](ir::Graph& graph) { onnxruntime::replace_nodes(graph, default_opset, throw_refusal); }},
      {"simplify", [](ir::Graph& graph) { simplify(graph, default_opset); }},
      {"transpose_quantized_weights", standard::transpose_quantized_weights},
  };
  return table;
}

struct Case {
  std::string title, before, after;
};

std::vector<Case> cases_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  bool is_after = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("# ")) {
      cases.push_back({line, "", ""});
      is_after = false;
    } else if (line == "=>") {
      is_after = true;
    } else if (!line.empty() && !cases.empty()) {
      (is_after ? cases.back().after : cases.back().before) += line + "\n";
    }
  }
  return cases;
}

// The text after the pass; empty if it is unchanged, the message if the pass refuses the graph.
std::string made_by(const Pass& pass, const std::string& before) {
  ir::Graph graph = ir::parse(before);
  ir::verify(graph);
  try {
    pass(graph);
  } catch (const Error& error) {
    return std::string("refused: ") + error.what() + "\n";
  }
  ir::verify(graph);
  const std::string after = ir::print(graph);
  return after == before ? "" : after;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, GraphsAfterThePassAreAsWritten) {
  const std::filesystem::path path = folder / (GetParam() + ".txt");
  const std::vector<Case> cases = cases_of(path);
  ASSERT_FALSE(cases.empty());
  std::ostringstream now;
  for (const auto& [title, before, after] : cases) {
    SCOPED_TRACE(path.string() + ": " + title);
    EXPECT_EQ(ir::print(ir::parse(before)), before) << "write the graph as ir::print does";
    const std::string made = made_by(passes().at(GetParam()), before);
    EXPECT_EQ(made, after);
    now << (now.str().empty() ? "" : "\n") << title << "\n" << before << "=>\n" << made;
  }
  if (std::getenv("OPBRIDGE_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << now.str();
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& [name, pass] : passes()) result.push_back(name);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(GoldenFiles, AreOfAPassEach) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(passes().contains(entry.path().stem())) << entry.path();
  }
}

}  // namespace
}  // namespace opbridge
