#include "opbridge/convert.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/progress_line.h"
#include "cli/python.h"
#include "inspect/text.h"
#include "opbridge/error.h"

namespace opbridge::cli {
namespace {

struct Arguments {
  std::string pt2;
  std::string onnx;
  std::vector<std::string> custom_opsets;  // "domain=version"
  std::vector<std::filesystem::path> libraries;
  ConvertOptions options;
  bool quiet = false;
  bool verbose = false;
};

std::map<std::string, int> read_custom_opsets(const std::vector<std::string>& texts) {
  std::map<std::string, int> versions;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    int version = 0;
    if (equals != std::string::npos && equals > 0) {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, version);
      if (error != std::errc() || stop != end) version = 0;
    }
    if (version < 1) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--custom-opset takes DOMAIN=VERSION, such as com.example=1, not '{}'", text));
    }
    versions[text.substr(0, equals)] = version;
  }
  return versions;
}

void run(const Arguments& arguments) {
  refuse_python(arguments.pt2);
  ConvertOptions options = arguments.options;
  options.custom_opsets = read_custom_opsets(arguments.custom_opsets);
  ProgressLine progress({.line = !arguments.quiet, .times = arguments.verbose});
  options.progress = &progress;
  if (!arguments.quiet)
    options.warn = [](const std::string& what) { fmt::print(stderr, "warning: {}\n", what); };
  const WriteReport report = convert(arguments.pt2, arguments.onnx, options, mappings(arguments.libraries));
  progress.end();
  if (arguments.quiet) return;
  print(fmt::format("{}: opset {}, {}\n", arguments.onnx, options.opset,
                    inspect::size_text(report.model_bytes)));
  for (const std::filesystem::path& file : report.referenced_files)
    print(fmt::format("{}: weights, {}, to which the model refers\n", file.string(),
                      inspect::size_text(report.referenced_bytes)));
  if (!report.external_file.empty()) {
    print(fmt::format("{}: weights, {}\n", report.external_file.string(),
                      inspect::size_text(report.external_bytes)));
  }
}

}  // namespace

void add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert", "Convert an exported program (.pt2) to ONNX");
  auto arguments = std::make_shared<Arguments>();
  ConvertOptions& options = arguments->options;
  command->add_option("model", arguments->pt2, "The file that torch.export.save wrote (.pt2)")->required();
  command->add_option("output", arguments->onnx, "The ONNX model to write")->required();
  add_target(*command, options.target);
  command->add_option("--opset", options.opset, "Version of ONNX's operators")->capture_default_str();
  const std::map<std::string, ExternalData> external_data = {{"auto", ExternalData::automatic},
                                                             {"always", ExternalData::always},
                                                             {"never", ExternalData::never},
                                                             {"reference", ExternalData::reference}};
  command
      ->add_option("--external-data", options.external_data,
                   "Store weights in a separate file: auto (if the model would exceed 2 GB), always, never; "
                   "reference: leave them in the .pt2, which must be in the output's folder or below")
      ->transform(one_of(external_data));
  command
      ->add_option("--custom-opset", arguments->custom_opsets,
                   "Version of another domain, DOMAIN=VERSION; may be given several times")
      ->allow_extra_args(false);
  add_libraries(*command, arguments->libraries, "A library of operators written once (libNAME_ort.so)");
  command->add_option("--input-names", options.input_names, "Names of the inputs, in order, as a,b")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--output-names", options.output_names, "Names of the outputs, in order, as a,b")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag_callback(
      "--no-source-lines", [arguments] { arguments->options.source_lines = false; },
      "Omit the source lines of the PyTorch program");
  command->add_flag_callback(
      "--no-simplify", [arguments] { arguments->options.simplify = false; },
      "Skip the optional simplifications");
  command->add_flag("--mutations-as-outputs", options.mutations_as_outputs,
                    "Return the new content of mutated inputs and buffers as extra outputs, NAME_out");
  command->add_flag("--random", options.random, "Let dropout in training mode be random");
  CLI::Option* quiet = command->add_flag("--quiet", arguments->quiet, "Print only errors");
  command->add_flag("--verbose", arguments->verbose, "Print the time of each step")->excludes(quiet);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace opbridge::cli
