#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "inspect/table.h"
#include "inspect/text.h"
#include "opbridge/convert.h"
#include "opbridge/frontend.h"

namespace opbridge::cli {
namespace {

struct Options {
  std::string pt2;
  std::vector<std::filesystem::path> libraries;
  ConvertOptions convert;
};

// The second link: whether the operator has a mapping.
std::string mapping_text(const OperatorDiagnosis& diagnosis) {
  if (!diagnosis.mapping) return "missing";
  if (diagnosis.refused == 0) return "there";
  if (diagnosis.refused == diagnosis.calls) return "refused";
  return fmt::format("refused for {} of {}", diagnosis.refused, diagnosis.calls);
}

constexpr std::string_view shipped = "opbridge's operators";

bool is_shipped(const std::string& op) { return op.starts_with("opbridge::"); }

// The third link: what runs the node.
std::string runner_of(const std::string& op, Target target) {
  const std::string_view domain = ir::OpName(op).domain;
  if (target == Target::onnx) return domain.empty() ? "standard ONNX" : "an ONNX function";
  if (domain.empty()) return "ONNX Runtime";
  return is_shipped(op) ? std::string(shipped) : fmt::format("the library of {}", domain);
}

std::string runners_text(const std::vector<std::string>& operators, Target target) {
  std::vector<std::string> runners;
  for (const std::string& op : operators) {
    std::string runner = runner_of(op, target);
    if (std::ranges::find(runners, runner) == runners.end()) runners.push_back(std::move(runner));
  }
  return fmt::format("{}", fmt::join(runners, ", "));
}

std::string report(const Options& options, const Diagnosis& diagnosis) {
  inspect::Table table;
  table.add({"operator", "calls", "mapping", "becomes", "run by"});
  size_t calls = 0;
  bool needs_shipped = false;
  for (const OperatorDiagnosis& each : diagnosis.operators) {
    calls += each.calls;
    needs_shipped |=
        options.convert.target == Target::onnxruntime && std::ranges::any_of(each.becomes, is_shipped);
    table.add({each.op, std::to_string(each.calls), mapping_text(each),
               fmt::format("{}", fmt::join(each.becomes, " ")),
               runners_text(each.becomes, options.convert.target)});
  }
  const std::string name = std::filesystem::path(options.pt2).filename();
  std::string text = fmt::format("{}: {} operators in {} calls, to opset {}\n\n{}", inspect::printable(name),
                                 diagnosis.operators.size(), calls, options.convert.opset, table.text());
  if (needs_shipped)
    text += fmt::format("\n{}: opbridge.session(\"model.onnx\"), or libopbridge_ops_ort.so in a session.\n",
                        shipped);
  return text + (diagnosis.problems.empty() ? "\nNo link is missing.\n" : '\n' + diagnosis.problems + '\n');
}

bool run(const Options& options) {
  const Diagnosis diagnosis =
      diagnose(load_exported_program(options.pt2), mappings(options.libraries), options.convert);
  print(report(options, diagnosis));
  return diagnosis.problems.empty();
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Report how each operator of an exported program is converted, and which link to ONNX is missing");
  auto options = std::make_shared<Options>();
  options->convert.mutations_as_outputs = true;
  command->add_option("model", options->pt2, "The file that torch.export.save wrote (.pt2)")->required();
  add_target(*command, options->convert.target);
  command->add_option("--opset", options->convert.opset, "Version of ONNX's operators")
      ->capture_default_str();
  command->add_option("--ops", options->libraries, "A library of operators written once (libNAME_ort.so)");
  command->footer("Exit status: 0 if no link is missing, 1 if one is, 2 if the file cannot be read.");
  command->callback([options] {
    if (!run(*options)) throw CLI::RuntimeError(1);
  });
}

}  // namespace opbridge::cli
