#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "cli/commands.h"
#include "cli/progress_line.h"
#include "cli/python.h"
#include "cli/terminal.h"
#include "inspect/graph_page.h"
#include "inspect/summary.h"
#include "inspect/text.h"
#include "onnx/model_reader.h"
#include "opbridge/frontend.h"
#include "opbridge/ir.h"
#include "support/output_file.h"
#include "support/zip_archive.h"

namespace opbridge::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model;
  std::string html;
  bool json = false;
  bool graph = false;
};

std::string printable_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) result += inspect::printable(line) + '\n';
  return result;
}

void run(const Options& options) {
  refuse_python(options.model);
  ProgressLine progress;
  progress.begin("reading");
  // A file named .pt2 is read as a program, so that a broken one gets the error message of that format.
  const bool is_program = support::is_zip(options.model) || fs::path(options.model).extension() == ".pt2";
  onnx::ModelFile file;
  if (is_program) {
    file.model.graph = load_exported_program(options.model);
    file.files = {options.model};
  } else {
    file = onnx::read_onnx(options.model);
  }
  const ir::Graph& graph = file.model.graph;
  inspect::Summary summary = is_program ? inspect::summarize(graph) : inspect::summarize(file);
  summary.file = fs::path(options.model).filename();
  summary.format = is_program ? "PyTorch exported program" : "ONNX";
  summary.file_bytes = fs::file_size(options.model);

  if (!options.html.empty()) {
    for (const fs::path& input : file.files) support::refuse_to_replace(options.html, input);
    progress.begin("writing");
    const std::string page = inspect::graph_page(graph, summary, is_program ? 0 : file.model.opset);
    support::write_text(options.html, page);
  }
  progress.end();
  if (options.json) {
    print(inspect::to_json(summary) + '\n');
  } else if (options.graph || (is_program && options.html.empty())) {
    print(printable_lines(ir::print(graph)));
  } else if (options.html.empty()) {
    print(inspect::to_text(summary, screen_for_output()));
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Summarize a model");
  auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "A model (.onnx) or an exported program (.pt2)")->required();
  command->add_option("--html", options->html, "Draw the graph as one HTML page into this file");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->add_flag("--graph", options->graph, "Print the graph, the default for a .pt2 file");
  command->callback([options] { run(*options); });
}

}  // namespace opbridge::cli
