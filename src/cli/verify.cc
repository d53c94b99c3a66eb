#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "inspect/table.h"
#include "inspect/text.h"
#include "lowering/complex/complex.h"
#include "opbridge/error.h"
#include "runtime/npz.h"
#include "runtime/onnx_runtime.h"
#include "tensor/compare.h"

namespace opbridge::cli {
namespace {

struct Options {
  std::string model;
  std::string inputs;
  std::string expect;
  std::vector<std::filesystem::path> libraries;
  std::string runtime;
  std::optional<double> rtol;
  std::optional<double> atol;
};

// The tensors of `file` for the model's `names`, in that order, with complex numbers as pairs. They are found
// by name, or by position if the file names them arr_0, arr_1, …, as numpy.savez does by default.
std::vector<ir::Weight> match(const std::vector<std::string>& names, const std::string& file,
                              std::string_view kind) {
  std::vector<runtime::NamedTensor> tensors = runtime::read_npz(file);
  std::vector<ir::Weight> matched;
  for (size_t i = 0; i < names.size(); ++i) {
    for (const std::string& wanted : {names[i], fmt::format("arr_{}", i)}) {
      const auto found = std::ranges::find(tensors, wanted, &runtime::NamedTensor::name);
      if (found == tensors.end()) continue;
      matched.push_back(lowering::in_pairs(std::move(found->tensor)));
      tensors.erase(found);
      break;
    }
    if (matched.size() == i) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: no array for the model's {} '{}'", file, kind, names[i]));
    }
  }
  if (!tensors.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the model has no {} for the array '{}'", file, kind, tensors.front().name));
  }
  return matched;
}

tensor::Tolerance tolerance_for(const Options& options, ElementType type) {
  const tensor::Tolerance usual = tensor::Tolerance::of(type);
  return {options.rtol.value_or(usual.relative), options.atol.value_or(usual.absolute)};
}

// Whether all outputs agree.
bool run(const Options& options) {
  const runtime::OnnxRuntime library(options.runtime);
  const runtime::Session session(library, options.model, options.libraries);
  const std::vector<ir::Weight> expected = match(session.output_names(), options.expect, "output");
  const std::vector<ir::Weight> actual = session.run(match(session.input_names(), options.inputs, "input"));

  inspect::Table table;
  table.add({"output", "largest difference", "relative", "cosine", "mismatches"});
  std::string mismatches;
  for (size_t i = 0; i < actual.size(); ++i) {
    const tensor::Difference difference =
        tensor::compare(actual[i], expected[i], tolerance_for(options, expected[i].element_type));
    const std::string& name = session.output_names()[i];
    table.add({name, fmt::format("{:.3g}", difference.max_absolute),
               fmt::format("{:.3g}", difference.max_relative), fmt::format("{:.6f}", difference.cosine),
               std::to_string(difference.mismatches)});
    if (!difference.mismatch.empty())
      mismatches += fmt::format("{} differs: {}\n", inspect::printable(name), difference.mismatch);
  }
  print(table.text() + '\n' + (mismatches.empty() ? "all outputs agree\n" : mismatches));
  return mismatches.empty();
}

}  // namespace

void add_verify(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("verify", "Run a model in ONNX Runtime and compare its outputs with expected ones");
  auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "The ONNX model")->required();
  command->add_option("--inputs", options->inputs, "The inputs, saved by numpy.savez under their names")
      ->required();
  command->add_option("--expect", options->expect, "The expected outputs, saved the same way")->required();
  command->add_option("--ops", options->libraries, "A library of custom operators for ONNX Runtime");
  command->add_option("--runtime", options->runtime,
                      "The ONNX Runtime library to use; found automatically by default");
  command->add_option("--rtol", options->rtol, "Relative tolerance; its default depends on the element type");
  command->add_option("--atol", options->atol, "Absolute tolerance; its default depends on the element type");
  command->footer(
      "It compares the outputs for one set of inputs, without PyTorch. In Python, opbridge.verify compares "
      "with the "
      "PyTorch model, and can draw inputs and sizes (random_inputs=8), try zeros, infinities and NaN "
      "(edge_values=True), and write a folder that reproduces a difference (reproduction=\"folder\").\n"
      "Exit status: 0 if all outputs agree, 1 if one differs, 2 if they cannot be compared.");
  command->callback([options] {
    if (!run(*options)) throw CLI::RuntimeError(1);
  });
}

}  // namespace opbridge::cli
