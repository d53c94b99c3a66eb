#include "inspect/diagnosis_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "inspect/table.h"
#include "inspect/text.h"

namespace opbridge::inspect {
namespace {

// The second link: whether the operator has a mapping, and whether it is one that the user registered.
std::string mapping_text(const OperatorDiagnosis& diagnosis) {
  if (!diagnosis.mapping) return "missing";
  const bool is_users = *diagnosis.mapping == Origin::user;
  if (diagnosis.refused == 0) return is_users ? "yours" : "there";
  const std::string refused = diagnosis.refused == diagnosis.calls
                                  ? "refused"
                                  : fmt::format("refused for {} of {}", diagnosis.refused, diagnosis.calls);
  return is_users ? "yours, " + refused : refused;
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

std::vector<std::string> runners_of(const std::vector<std::string>& operators, Target target) {
  std::vector<std::string> runners;
  for (const std::string& op : operators) {
    std::string runner = runner_of(op, target);
    if (std::ranges::find(runners, runner) == runners.end()) runners.push_back(std::move(runner));
  }
  return runners;
}

std::string json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(json_string(text));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

std::string to_text(const Diagnosis& diagnosis, const std::string& model, Target target, int opset,
                    const Screen& screen) {
  Table table({{"operator"}, {.title = "calls", .is_number = true}, {"mapping"}, {"becomes"}, {"run by"}});
  size_t calls = 0;
  bool needs_shipped = false;
  for (const OperatorDiagnosis& each : diagnosis.operators) {
    calls += each.calls;
    needs_shipped |= target == Target::onnxruntime && std::ranges::any_of(each.becomes, is_shipped);
    table.add({each.op, std::to_string(each.calls), mapping_text(each),
               fmt::format("{}", fmt::join(each.becomes, " ")),
               fmt::format("{}", fmt::join(runners_of(each.becomes, target), ", "))},
              !each.mapping || each.refused > 0);
  }
  std::string text = fmt::format("{}: {} in {}, to opset {}\n\n{}", printable(model),
                                 plural(diagnosis.operators.size(), "operator"), plural(calls, "call"), opset,
                                 table.text(screen));
  if (needs_shipped)
    text += fmt::format("\n{}: opbridge.session(\"model.onnx\"), or libopbridge_ops_ort.so in a session.\n",
                        shipped);
  return text + (diagnosis.problems.empty() ? "\nNo link is missing.\n" : '\n' + diagnosis.problems + '\n');
}

std::string to_json(const Diagnosis& diagnosis, const std::string& model, Target target, int opset) {
  std::vector<std::string> operators;
  for (const OperatorDiagnosis& each : diagnosis.operators) {
    operators.push_back(fmt::format(
        R"({{"operator": {}, "calls": {}, "refused": {}, "mapping": {}, "becomes": {}, "run_by": {}}})",
        json_string(each.op), each.calls, each.refused,
        !each.mapping                   ? "null"
        : *each.mapping == Origin::user ? R"("user")"
                                        : R"("bundled")",
        json_strings(each.becomes), json_strings(runners_of(each.becomes, target))));
  }
  std::vector<std::string> missing;
  for (const MissingOperator& each : diagnosis.missing) {
    missing.push_back(fmt::format(
        R"({{"operator": {}, "calls": {}, "schema": {}, "schema_is_known": {}, "locations": {}}})",
        json_string(each.op), each.calls, json_string(each.schema.str()), each.schema_is_known,
        json_strings(each.locations)));
  }
  return fmt::format(
      R"({{"model": {}, "target": "{}", "opset": {}, "ok": {}, "operators": [{}], "missing": [{}], "problems": {}}})",
      json_string(model), target == Target::onnx ? "onnx" : "onnxruntime", opset, diagnosis.problems.empty(),
      fmt::join(operators, ", "), fmt::join(missing, ", "), json_string(diagnosis.problems));
}

}  // namespace opbridge::inspect
