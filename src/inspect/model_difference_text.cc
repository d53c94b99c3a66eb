#include <fmt/format.h>

#include <map>

#include "inspect/model_difference.h"
#include "inspect/table.h"
#include "inspect/text.h"

namespace opbridge::inspect {
namespace {

constexpr size_t most_lines = 200;
constexpr size_t longest_line = 110;

std::string domain_text(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

// "-", "+" or "~": in the first model alone, in the second alone, in both.
char sign_of(bool in_a, bool in_b) { return in_a && in_b ? '~' : in_a ? '-' : '+'; }

std::string value_lines(const std::string& title, const std::vector<ValuePair>& pairs) {
  Table table;
  size_t count = 0;
  for (const ValuePair& pair : pairs) {
    if (!pair.differs() || ++count > most_lines) continue;
    const bool in_a = !pair.a.empty(), in_b = !pair.b.empty();
    const std::string type = in_a && in_b && pair.a != pair.b ? pair.a + " | " + pair.b
                             : in_a                           ? pair.a
                                                              : pair.b;
    table.add({fmt::format("{} {}", sign_of(in_a, in_b), pair.name), type, pair.difference});
  }
  if (count == 0) return {};
  std::string text = fmt::format("\n{}: {} differ\n{}", title, count, table.text());
  if (count > most_lines) text += fmt::format("  … and {} more\n", count - most_lines);
  return text;
}

std::string overview(const ModelDifference& difference) {
  const Summary &a = difference.a, &b = difference.b;
  Table table;
  table.add({"", a.file, b.file});
  table.add({"size", size_text(a.file_bytes), size_text(b.file_bytes)});
  table.add({"producer", a.producer, b.producer});
  std::map<std::string, std::pair<int, int>> opsets;
  for (const auto& [domain, version] : a.opsets) opsets[domain].first = version;
  for (const auto& [domain, version] : b.opsets) opsets[domain].second = version;
  const auto number = [](int version) { return version == 0 ? std::string("-") : std::to_string(version); };
  for (const auto& [domain, versions] : opsets)
    table.add({"opset " + domain_text(domain), number(versions.first), number(versions.second)});
  const auto nodes = [](const Summary& summary) {
    size_t sum = 0;
    for (const Summary::Count& each : summary.operators) sum += each.count;
    return std::to_string(sum);
  };
  table.add({"nodes", nodes(a), nodes(b)});
  table.add({"weights", size_text(a.weights.bytes), size_text(b.weights.bytes)});
  return table.text();
}

std::string operator_lines(const ModelDifference& difference) {
  std::map<std::string, std::pair<size_t, size_t>> counts;
  for (const Summary::Count& each : difference.a.operators) counts[each.op].first = each.count;
  for (const Summary::Count& each : difference.b.operators) counts[each.op].second = each.count;
  Table table;
  for (const auto& [op, count] : counts) {
    if (count.first != count.second)
      table.add({op, std::to_string(count.first), std::to_string(count.second)});
  }
  const std::string text = table.text();
  return text.empty() ? text : "\noperators\n" + text;
}

std::string node_lines(const ModelDifference& difference, const ir::Graph& a, const ir::Graph& b) {
  const size_t count = difference.different_nodes();
  if (count == 0) return {};
  std::string text = fmt::format("\nnodes: {} differ\n", count);
  size_t shown = 0;
  for (const NodePair& pair : difference.nodes) {
    if (!pair.differs() || ++shown > most_lines) continue;
    const ir::Node& node = pair.a ? *a.nodes[*pair.a] : *b.nodes[*pair.b];
    std::string line = fmt::format("{} {}", sign_of(pair.a.has_value(), pair.b.has_value()), node_line(node));
    if (!pair.difference.empty()) line += "  " + pair.difference;
    text += fmt::format("  {}\n", clipped(printable(line), longest_line));
    if (!node.source.line.empty())
      text += fmt::format("      at {}\n", clipped(printable(node.source.line), longest_line));
  }
  if (count > most_lines) text += fmt::format("  … and {} more\n", count - most_lines);
  return text;
}

}  // namespace

std::string node_line(const ir::Node& node) {
  std::string text = node.op;
  std::string inside;
  for (const ir::Attribute& attribute : node.attributes) {
    const auto* tensor = std::get_if<std::shared_ptr<const ir::Weight>>(&attribute.value);
    const bool is_graph = std::holds_alternative<ir::GraphPtr>(attribute.value);
    const std::string value = tensor != nullptr ? std::string("a tensor")
                              : is_graph        ? "a graph"
                                                : ir::str(attribute.value);
    inside += fmt::format("{}{}={}", inside.empty() ? "" : ", ", attribute.name, clipped(value, 40));
  }
  if (!inside.empty()) text += '(' + inside + ')';
  if (!node.outputs.empty())
    text += fmt::format(" → %{}: {}", node.outputs[0]->name, ir::str(node.outputs[0]->type));
  return text;
}

std::string to_text(const ModelDifference& difference, const onnx::ModelFile& a, const onnx::ModelFile& b) {
  std::string text = overview(difference) + operator_lines(difference);
  text += node_lines(difference, a.model.graph, b.model.graph);
  text += value_lines("inputs", difference.inputs) + value_lines("outputs", difference.outputs);
  text += value_lines("initializers", difference.initializers);
  if (difference.renamed > 0)
    text += fmt::format("\n{} initializer{} only in name\n", difference.renamed,
                        difference.renamed == 1 ? " differs" : "s differ");
  if (!difference.functions.empty()) {
    text += "\nfunctions that differ\n";
    for (const std::string& name : difference.functions) text += "  " + printable(name) + '\n';
  }
  return text + (difference.same() ? "\nThe models are the same, up to names.\n" : "\nThe models differ.\n");
}

}  // namespace opbridge::inspect
