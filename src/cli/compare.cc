#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/progress_line.h"
#include "cli/python.h"
#include "cli/terminal.h"
#include "inspect/model_difference.h"
#include "onnx/model_reader.h"
#include "support/output_file.h"

namespace opbridge::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string a;
  std::string b;
  std::string html;
};

// Whether the models are the same.
bool run(const Options& options) {
  for (const std::string& model : {options.a, options.b}) refuse_python(model);
  ProgressLine progress;
  progress.begin("reading");
  const onnx::ModelFile a = onnx::read_onnx(options.a), b = onnx::read_onnx(options.b);
  progress.begin("comparison");
  inspect::ModelDifference difference = inspect::difference_of(a, b);
  difference.a.file = fs::path(options.a).filename();
  difference.b.file = fs::path(options.b).filename();
  if (difference.a.file == difference.b.file) {
    difference.a.file = options.a;
    difference.b.file = options.b;
  }
  difference.a.file_bytes = fs::file_size(options.a);
  difference.b.file_bytes = fs::file_size(options.b);
  if (options.html.empty()) {
    progress.end();
    print(inspect::to_text(difference, a, b, screen_for_output()));
  } else {
    for (const onnx::ModelFile* model : {&a, &b}) {
      for (const fs::path& input : model->files) support::refuse_to_replace(options.html, input);
    }
    progress.begin("writing");
    support::write_text(options.html, inspect::difference_page(difference, a, b));
  }
  return difference.same();
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "compare", "List what differs between two ONNX models: operators, nodes, opsets, inputs, weights");
  auto options = std::make_shared<Options>();
  command->add_option("a", options->a, "An ONNX model; what only it has is marked -")->required();
  command->add_option("b", options->b, "Another one; what only it has is marked +")->required();
  command->add_option("--html", options->html, "Write the comparison as one HTML page into this file");
  command->footer(
      "Nodes are compared by what they compute, not by name. `opbridge verify` compares results.\n"
      "Exit status: 0 if the models are the same up to names, 1 if they differ, 2 if one cannot be read.");
  command->callback([options] {
    if (!run(*options)) throw CLI::RuntimeError(1);
  });
}

}  // namespace opbridge::cli
