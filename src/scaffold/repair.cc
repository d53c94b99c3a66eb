#include "scaffold/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "lowering/skeleton.h"
#include "opbridge/error.h"
#include "scaffold/operator_names.h"
#include "scaffold/operator_project.h"
#include "scaffold/write_files.h"
#include "support/shell.h"
#include "support/unique_name.h"

namespace opbridge::scaffold {
namespace {

using support::shell_quoted;

// The text on one line, without characters that would end a Python comment or string.
std::string one_line(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(
      result, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; }, ' ');
  return result;
}

bool is_aten(const MissingOperator& missing) { return missing.op.starts_with("aten::"); }

std::string calls_text(const MissingOperator& missing) {
  std::string text = fmt::format("# {} call{}", missing.calls, missing.calls == 1 ? "" : "s");
  for (const std::string& location : missing.locations) text += fmt::format("\n#   {}", one_line(location));
  return text;
}

// `def f(g, x):` with a function name that no other mapping of the file has.
std::string unique_head(const std::string& head, support::NameCounts& names) {
  const size_t open = head.find('(');
  return support::unique_name(names, head.substr(0, open)) + head.substr(open);
}

// How to start an operator that has the kernel.
std::string project_text(const MissingOperator& missing) {
  const std::string schema = missing.schema.str();
  const std::string why = why_no_project(missing.schema, schema);
  if (why.empty())
    return fmt::format("# An operator with this kernel: opbridge new-op {}\n",
                       one_line(shell_quoted(schema)));
  return fmt::format("# `opbridge new-op` writes no operator of this schema: {}\n", one_line(why));
}

std::string function_text(const MissingOperator& missing, int opset, support::NameCounts& names) {
  const MappingSkeleton skeleton = mapping_skeleton(missing.schema, missing.results, opset);
  std::string text = fmt::format("\n\n# {}\n{}\n", one_line(missing.schema.str()), calls_text(missing));
  text += fmt::format(
      "# Write it in standard ONNX, as in g.op(\"Mul\", x, 2.0). If ONNX lacks what the operator computes, "
      "make a "
      "node of\n# your own, with a kernel in ONNX Runtime; with {} it is:\n#     return {}\n",
      missing.schema_is_known ? "every argument" : "the arguments of the calls", skeleton.node);
  if (!is_aten(missing)) text += project_text(missing);
  text += fmt::format("{}\n{}\n    g.refuse(\"its mapping in this file has no body yet\")\n",
                      skeleton.decorator, unique_head(skeleton.head, names));
  return text;
}

}  // namespace

std::string mapping_file(const std::vector<MissingOperator>& missing, const std::string& model, int opset) {
  std::string title = one_line(model);
  std::erase_if(title, [](char c) { return c == '"' || c == '\\'; });
  const bool are_known = std::ranges::all_of(missing, &MissingOperator::schema_is_known);
  std::string text = fmt::format(
      "\"\"\"Mappings that {} lacks. Write the bodies, and import this file before the export.{}\"\"\"\n\n"
      "import opbridge\n",
      title, are_known ? "" : fmt::format("\n\n{}\n", about_unknown_schemas));
  support::NameCounts names;
  for (const MissingOperator& each : missing) text += function_text(each, opset, names);
  return text;
}

std::string write_repair(const Repair& repair, const Diagnosis& diagnosis, const std::string& model,
                         int opset) {
  std::string written;
  bool has_unknown_project = false;
  std::vector<MissingOperator> without_project;
  for (const MissingOperator& each : diagnosis.missing) {
    bool has_project = false;
    if (!repair.projects.empty() && !is_aten(each)) {
      const std::filesystem::path directory = repair.projects / package_name(each.schema);
      try {
        write_project(directory, each.schema, each.schema.str());
        written += fmt::format("{}: a project for {}; its README.md says how to go on\n", directory.string(),
                               each.op);
        has_project = true;
        has_unknown_project |= !each.schema_is_known;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::io) throw;
        written += fmt::format("{}: no project: {}\n", each.op, error.message());
      }
    }
    if (!has_project) without_project.push_back(each);
  }
  if (has_unknown_project) written += fmt::format("{}\n", about_unknown_schemas);
  if (repair.mappings.empty()) return written;
  if (without_project.empty()) return written + "No mapping is missing; no file is written.\n";
  write_new(repair.mappings, mapping_file(without_project, model, opset));
  return written + fmt::format("{}: {} mapping{} to complete; import the file before the export\n",
                               repair.mappings.string(), without_project.size(),
                               without_project.size() == 1 ? "" : "s");
}

}  // namespace opbridge::scaffold
