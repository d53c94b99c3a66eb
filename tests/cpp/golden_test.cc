// Golden tests of the passes: graphs before and after, as text. The files golden/PASS.txt hold the cases of a
// pass: a line `# title`, the graph before, a line `=>`, and the graph after, or nothing if the pass must not
// change the graph. A title that ends with `(opset 22)` gives the opset, if that is not the default one.
// OPBRIDGE_UPDATE_GOLDEN=1 writes the current results of the passes; read the difference before you commit
// it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "ir/dead_code.h"
#include "ir/parse.h"
#include "opbridge/convert.h"
#include "opbridge/symbolic.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/legalize.h"
#include "runtimes/standard/legalize.h"
#include "runtimes/standard/transposed_weights.h"
#include "simplify/passes.h"
#include "torch/prims.h"

namespace opbridge {
namespace {

const std::filesystem::path folder = OPBRIDGE_GOLDEN_DIR;

using Pass = std::function<void(ir::Graph&, int opset)>;

// A pass that may also take the names of the graph, the opset, or both.
template <class Rewrite>
Pass pass(const Rewrite& rewrite) {
  return [rewrite](ir::Graph& graph, int opset) {
    if constexpr (std::is_invocable_v<Rewrite, ir::Graph&>) {
      rewrite(graph);
    } else if constexpr (std::is_invocable_v<Rewrite, ir::Graph&, int>) {
      rewrite(graph, opset);
    } else {
      ir::Names names(graph);
      if constexpr (std::is_invocable_v<Rewrite, ir::Graph&, ir::Names&>) {
        rewrite(graph, names);
      } else {
        rewrite(graph, names, opset);
      }
    }
  };
}

void throw_refusal(const ir::Node&, const Error& error) { throw error; }

void legalize_for_onnxruntime(ir::Graph& graph, int opset) {
  onnxruntime::legalize(graph, opset, throw_refusal);
}

void legalize_for_standard(ir::Graph& graph, int opset) {
  OnnxModel model;
  model.graph = std::move(graph);
  model.opset = opset;
  model.opset_imports = {{"", opset}, {"opbridge", 1}};
  standard::legalize(model, throw_refusal);
  graph = std::move(model.graph);
}

const std::map<std::string, Pass>& passes() {
  static const std::map<std::string, Pass> table = {
      {"cast_before_rotations", pass(onnxruntime::cast_before_rotations)},
      {"compute_small_sigmoids", pass(onnxruntime::compute_small_sigmoids)},
      {"convert_dequantized_weights", pass(onnxruntime::convert_dequantized_weights)},
      {"divide_by_reciprocals", pass(simplification::divide_by_reciprocals)},
      {"fit_element_types", pass([](ir::Graph& graph, ir::Names& names, int opset) {
         onnxruntime::fit_element_types(graph, names, opset, throw_refusal);
       })},
      {"fold_batch_normalization", pass(simplification::fold_batch_normalization)},
      {"fold_channel_scales", pass(simplification::fold_channel_scales)},
      {"fold_constants", pass(simplification::fold_constants)},
      {"functionalize", pass([](ir::Graph& graph) { graph = functionalize(std::move(graph)); })},
      {"keep_lossy_casts", pass(onnxruntime::keep_lossy_casts)},
      {"keep_pads_before_pools", pass(onnxruntime::keep_pads_before_pools)},
      {"keep_float_weights", pass(onnxruntime::keep_float_weights)},
      {"keep_quantized_resizes", pass(onnxruntime::keep_quantized_resizes)},
      {"keep_repeated_quantization", pass(onnxruntime::keep_repeated_quantization)},
      {"keep_rounded_products", pass(onnxruntime::keep_rounded_products)},
      {"keep_transposed_outputs", pass(onnxruntime::keep_transposed_outputs)},
      {"mend_empty_products", pass(onnxruntime::mend_empty_products)},
      {"merge_common_subexpressions", pass(simplification::merge_common_subexpressions)},
      {"legalize_for_onnxruntime", pass(legalize_for_onnxruntime)},
      {"legalize_for_standard", pass(legalize_for_standard)},
      {"multiply_four_bits", pass(onnxruntime::multiply_four_bits)},
      {"remove_dead_code", pass(ir::remove_dead_code)},
      {"remove_identities", pass(simplification::remove_identities)},
      {"canonicalize_transposes", pass(simplification::canonicalize_transposes)},
      {"replace_prims", pass(torch::replace_prims)},
      {"replace_nodes",
       pass([](ir::Graph& graph, int opset) { onnxruntime::replace_nodes(graph, opset, throw_refusal); })},
      {"shift_signed_factors", pass(onnxruntime::shift_signed_factors)},
      {"simplify", pass(simplify)},
      {"transpose_quantized_weights", pass(standard::transpose_quantized_weights)},
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

int opset_of(const std::string& title) {
  const std::string_view mark = " (opset ";
  const size_t at = title.find(mark);
  return at == std::string::npos ? default_opset : std::stoi(title.substr(at + mark.size()));
}

// The text after the pass; empty if it is unchanged, the message if the pass refuses the graph.
std::string made_by(const Pass& pass, const std::string& before, int opset) {
  ir::Graph graph = ir::parse(before);
  ir::verify(graph);
  try {
    pass(graph, opset);
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
    const std::string made = made_by(passes().at(GetParam()), before, opset_of(title));
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
