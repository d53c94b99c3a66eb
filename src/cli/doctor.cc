#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/progress_line.h"
#include "cli/python.h"
#include "cli/terminal.h"
#include "inspect/diagnosis_report.h"
#include "opbridge/convert.h"
#include "opbridge/error.h"
#include "opbridge/frontend.h"
#include "scaffold/repair.h"
#include "support/zip_archive.h"

namespace opbridge::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model;
  std::vector<fs::path> libraries;
  ConvertOptions convert;
  bool json = false;
  scaffold::Repair repair;
};

std::vector<std::string> python_arguments(const Options& options) {
  std::vector<std::string> arguments{
      "doctor",   options.model,
      "--target", options.convert.target == Target::onnx ? "onnx" : "onnxruntime",
      "--opset",  std::to_string(options.convert.opset)};
  for (const fs::path& library : options.libraries) arguments.insert(arguments.end(), {"--ops", library});
  if (options.json) arguments.emplace_back("--json");
  const inspect::Screen screen = screen_for_output();
  arguments.insert(arguments.end(), {"--width", std::to_string(screen.width)});
  if (screen.bold) arguments.emplace_back("--bold");
  if (screen.colours) arguments.emplace_back("--colours");
  if (!options.repair.mappings.empty()) arguments.insert(arguments.end(), {"--fix", options.repair.mappings});
  if (!options.repair.projects.empty())
    arguments.insert(arguments.end(), {"--projects", options.repair.projects});
  return arguments;
}

// Refuses a file that is neither a .pt2 nor named like one, with a message that says what is expected.
void refuse_other_file(const fs::path& model) {
  if (model.extension() == ".pt2" || !fs::is_regular_file(model) || support::is_zip(model)) return;
  refuse_script(model);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is not a .pt2 file; doctor examines a .pt2 file, or the model that a Python "
                          "function returns: script.py:make_model",
                          model.string()));
}

// Whether no link is missing.
bool run(const Options& options) {
  if (is_factory(options.model)) run_in_python(python_arguments(options));
  refuse_other_file(options.model);
  ProgressLine progress;
  ConvertOptions convert = options.convert;
  convert.progress = &progress;
  progress.begin("reading");
  const Diagnosis diagnosis =
      diagnose(load_exported_program(options.model), mappings(options.libraries), convert);
  progress.end();
  const std::string name = fs::path(options.model).filename();
  const Target target = options.convert.target;
  const int opset = options.convert.opset;
  print(options.json ? inspect::to_json(diagnosis, name, target, opset) + '\n'
                     : inspect::to_text(diagnosis, name, target, opset, screen_for_output()));
  const std::string written = scaffold::write_repair(options.repair, diagnosis, name, opset);
  if (!options.json && !written.empty()) print('\n' + written);
  return diagnosis.problems.empty();
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Report how each operator of a model is converted, and which link to ONNX is missing");
  auto options = std::make_shared<Options>();
  options->convert.mutations_as_outputs = true;
  command
      ->add_option("model", options->model,
                   "The file that torch.export.save wrote (.pt2), or a Python function that returns "
                   "(model, args), as script.py:make_model")
      ->required();
  add_target(*command, options->convert.target);
  command->add_option("--opset", options->convert.opset, "Version of ONNX's operators")
      ->capture_default_str();
  add_libraries(*command, options->libraries, "A library of operators written once (libNAME_ort.so)");
  command->add_flag("--json", options->json, "Print the report as JSON");
  command->add_option("--fix", options->repair.mappings,
                      "Write the missing mappings into this new Python file, with all their arguments, to be "
                      "completed");
  command->add_option(
      "--projects", options->repair.projects,
      "Write a project (as new-op does) for each operator of other namespaces than aten without "
      "mapping, into this folder, instead of its mapping");
  command->footer("Exit status: 0 if no link is missing, 1 if one is, 2 if the model cannot be read.");
  command->callback([options] {
    if (!run(*options)) throw CLI::RuntimeError(1);
  });
}

}  // namespace opbridge::cli
