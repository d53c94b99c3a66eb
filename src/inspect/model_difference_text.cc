#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "inspect/model_difference.h"
#include "inspect/table.h"
#include "inspect/text.h"

namespace opbridge::inspect {
namespace {

constexpr size_t most_lines = 200;
constexpr size_t longest_line = 110;  // without a terminal

std::string domain_text(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

// "-", "+" or "~": in the first model alone, in the second alone, in both.
char sign_of(bool in_a, bool in_b) { return in_a && in_b ? '~' : in_a ? '-' : '+'; }

std::string value_lines(const std::string& title, const std::vector<ValuePair>& pairs, const Screen& screen) {
  const auto count = static_cast<size_t>(std::ranges::count_if(pairs, &ValuePair::differs));
  if (count == 0) return {};
  Table table({text_column, text_column, text_column}, fmt::format("{}: {} differ", title, count));
  size_t shown = 0;
  for (const ValuePair& pair : pairs) {
    if (!pair.differs() || ++shown > most_lines) continue;
    const bool in_a = !pair.a.empty(), in_b = !pair.b.empty();
    const std::string type = in_a && in_b && pair.a != pair.b ? pair.a + " | " + pair.b
                             : in_a                           ? pair.a
                                                              : pair.b;
    table.add({fmt::format("{} {}", sign_of(in_a, in_b), pair.name), type, pair.difference});
  }
  std::string text = '\n' + table.text(screen);
  if (count > most_lines) text += fmt::format("  … and {} more\n", count - most_lines);
  return text;
}

std::string overview(const ModelDifference& difference, const Screen& screen) {
  const Summary &a = difference.a, &b = difference.b;
  Table table({text_column, {a.file}, {b.file}});
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
  return table.text(screen);
}

std::string operator_lines(const ModelDifference& difference, const Screen& screen) {
  std::map<std::string, std::pair<size_t, size_t>> counts;
  for (const Summary::Count& each : difference.a.operators) counts[each.op].first = each.count;
  for (const Summary::Count& each : difference.b.operators) counts[each.op].second = each.count;
  Table table({text_column, number_column, number_column}, "operators");
  for (const auto& [op, count] : counts) {
    if (count.first != count.second)
      table.add({op, std::to_string(count.first), std::to_string(count.second)});
  }
  return table.empty() ? "" : '\n' + table.text(screen);
}

std::string node_lines(const ModelDifference& difference, const ir::Graph& a, const ir::Graph& b,
                       const Screen& screen) {
  const size_t count = difference.different_nodes();
  if (count == 0) return {};
  const auto line_of = [&screen](std::string_view start, const std::string& rest) {
    const std::string line = printable(rest);
    const size_t room = std::max(screen.width, start.size()) - start.size();
    return fmt::format("{}{}\n", start, screen.width == 0 ? clipped(line, longest_line) : fitted(line, room));
  };
  std::string text = fmt::format("\nnodes: {} differ\n", count);
  size_t shown = 0;
  for (const NodePair& pair : difference.nodes) {
    if (!pair.differs() || ++shown > most_lines) continue;
    const ir::Node& node = pair.a ? *a.nodes[*pair.a] : *b.nodes[*pair.b];
    std::string line = fmt::format("{} {}", sign_of(pair.a.has_value(), pair.b.has_value()), node_line(node));
    if (!pair.difference.empty()) line += "  " + pair.difference;
    text += line_of("  ", line);
    if (!node.source.line.empty()) text += line_of("      at ", node.source.line);
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

std::string to_text(const ModelDifference& difference, const onnx::ModelFile& a, const onnx::ModelFile& b,
                    const Screen& screen) {
  std::string text = overview(difference, screen) + operator_lines(difference, screen);
  text += node_lines(difference, a.model.graph, b.model.graph, screen);
  text += value_lines("inputs", difference.inputs, screen);
  text += value_lines("outputs", difference.outputs, screen);
  text += value_lines("initializers", difference.initializers, screen);
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
