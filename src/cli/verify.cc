#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/progress_line.h"
#include "cli/python.h"
#include "cli/terminal.h"
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
  std::string file;  // the ONNX model, if `model` is a Python function
  std::string inputs;
  std::string expect;
  std::vector<std::filesystem::path> libraries;
  std::string runtime;
  std::optional<double> rtol;
  std::optional<double> atol;
  std::optional<int> random_inputs;
  std::optional<uint64_t> seed;
  bool edge_values = false;
  std::string reproduction;
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

void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

std::vector<std::string> python_arguments(const Options& options) {
  if (!options.inputs.empty() || !options.expect.empty())
    refuse(
        fmt::format("{} returns the inputs, and PyTorch computes the expected outputs: --inputs and --expect "
                    "are for a comparison without PyTorch",
                    options.model));
  if (!options.runtime.empty())
    refuse("with a Python function, ONNX Runtime is the Python package onnxruntime: --runtime is not used");
  std::vector<std::string> arguments{"verify", options.model};
  if (!options.file.empty()) arguments.push_back(options.file);
  const auto add = [&](const char* option, const auto& value) {
    if (value) arguments.insert(arguments.end(), {option, fmt::format("{}", *value)});
  };
  for (const std::filesystem::path& library : options.libraries)
    arguments.insert(arguments.end(), {"--ops", library});
  add("--rtol", options.rtol);
  add("--atol", options.atol);
  add("--random-inputs", options.random_inputs);
  add("--seed", options.seed);
  if (options.edge_values) arguments.emplace_back("--edge-values");
  if (!options.reproduction.empty())
    arguments.insert(arguments.end(), {"--reproduction", options.reproduction});
  return arguments;
}

// Refuses options that need PyTorch, and requires those that a comparison without PyTorch needs.
void check_without_python(const Options& options) {
  refuse_script(options.model);
  if (!options.file.empty())
    refuse(fmt::format("{} is not a Python function, script.py:make_model, to compare with {}", options.model,
                       options.file));
  if (options.random_inputs || options.seed || options.edge_values || !options.reproduction.empty())
    refuse(
        "--random-inputs, --seed, --edge-values and --reproduction need the PyTorch model: opbridge verify "
        "script.py:make_model " +
        options.model);
  if (options.inputs.empty() || options.expect.empty())
    refuse(
        "--inputs and --expect are needed, or a Python function that returns the PyTorch model and its "
        "inputs: "
        "opbridge verify script.py:make_model " +
        options.model);
}

// Whether all outputs agree.
bool run(const Options& options) {
  if (is_factory(options.model)) run_in_python(python_arguments(options));
  check_without_python(options);
  ProgressLine progress;
  progress.begin("reading");
  const runtime::OnnxRuntime library(options.runtime);
  const runtime::Session session(library, options.model, options.libraries);
  const std::vector<ir::Weight> expected = match(session.output_names(), options.expect, "output");
  const std::vector<ir::Weight> inputs = match(session.input_names(), options.inputs, "input");
  progress.begin("verification");
  const std::vector<ir::Weight> actual = session.run(inputs);

  inspect::Table table({{"output"},
                        {.title = "largest difference", .is_number = true},
                        {.title = "relative", .is_number = true},
                        {.title = "cosine", .is_number = true},
                        {.title = "mismatches", .is_number = true}});
  std::string mismatches;
  for (size_t i = 0; i < actual.size(); ++i) {
    const tensor::Difference difference =
        tensor::compare(actual[i], expected[i], tolerance_for(options, expected[i].element_type));
    const std::string& name = session.output_names()[i];
    table.add(
        {name, fmt::format("{:.3g}", difference.max_absolute), fmt::format("{:.3g}", difference.max_relative),
         fmt::format("{:.6f}", difference.cosine), std::to_string(difference.mismatches)},
        !difference.mismatch.empty());
    if (!difference.mismatch.empty())
      mismatches += fmt::format("{} differs: {}\n", inspect::printable(name), difference.mismatch);
  }
  progress.end();
  print(table.text(screen_for_output()) + '\n' + (mismatches.empty() ? "all outputs agree\n" : mismatches));
  return mismatches.empty();
}

}  // namespace

void add_verify(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "verify", "Run a model in ONNX Runtime and compare its outputs with PyTorch's, or with stored ones");
  auto options = std::make_shared<Options>();
  command
      ->add_option("model", options->model,
                   "The ONNX model, or a Python function that returns (model, args), as script.py:make_model")
      ->required();
  command->add_option(
      "file", options->file,
      "The ONNX model, after a Python function; without it, the PyTorch model is exported into "
      "a temporary file");
  command->add_option("--inputs", options->inputs, "The inputs, saved by numpy.savez under their names");
  command->add_option("--expect", options->expect, "The expected outputs, saved the same way");
  add_libraries(*command, options->libraries,
                "A library of custom operators for ONNX Runtime (libNAME_ort.so)");
  command->add_option("--runtime", options->runtime,
                      "The ONNX Runtime library to use; found automatically by default");
  command->add_option("--rtol", options->rtol, "Relative tolerance; its default depends on the element type");
  command->add_option("--atol", options->atol, "Absolute tolerance; its default depends on the element type");
  command->add_option("--random-inputs", options->random_inputs,
                      "Compare as many inputs besides those of the Python function: values like theirs, "
                      "dynamic sizes from the ranges of the export");
  command->add_option("--seed", options->seed, "The seed of these inputs; 0 by default");
  command->add_flag(
      "--edge-values", options->edge_values,
      "Also compare the inputs with zeros, infinities and NaN in place of floating-point numbers");
  command->add_option(
      "--reproduction", options->reproduction,
      "If an output differs, write a folder that shows the difference without the PyTorch model");
  command->footer(
      "An ONNX model is compared for the inputs and outputs of --inputs and --expect, without PyTorch. With "
      "a "
      "Python function, both ends run on the inputs that it returns, and on others that are drawn like them. "
      "If an "
      "output differs, the first operator whose value differs is named, with its line.\n"
      "Exit status: 0 if all outputs agree, 1 if one differs, 2 if they cannot be compared.");
  command->callback([options] {
    if (!run(*options)) throw CLI::RuntimeError(1);
  });
}

}  // namespace opbridge::cli
