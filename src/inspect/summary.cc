#include "inspect/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "inspect/table.h"
#include "inspect/text.h"
#include "onnx/schema_table.h"

namespace opbridge::inspect {
namespace {

constexpr size_t most_large_weights = 5;

std::vector<Summary::Named> named(const std::vector<ir::Value*>& values) {
  std::vector<Summary::Named> result;
  for (const ir::Value* value : values) result.push_back({value->name, ir::str(value->type)});
  return result;
}

std::vector<Summary::Count> sorted(const std::map<std::string, size_t>& counts) {
  std::vector<Summary::Count> result;
  for (const auto& [op, count] : counts) result.push_back({op, count});
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  return result;
}

// Visits every graph, outer graphs before inner ones.
void for_each_graph(const ir::Graph& graph, const std::function<void(const ir::Graph&)>& visit) {
  visit(graph);
  for (const ir::Node* node : graph.nodes) {
    for (const ir::GraphPtr& body : node->bodies()) for_each_graph(*body, visit);
  }
}

// 25557032 → "25,557,032".
std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

Table table_of(std::string title, const std::vector<Summary::Named>& values) {
  Table table({text_column, text_column}, std::move(title));
  for (const auto& [name, type] : values) table.add({name, type});
  return table;
}

Table table_of(std::string title, const std::vector<Summary::Count>& counts) {
  Table table({text_column, number_column}, std::move(title));
  for (const auto& [op, count] : counts) table.add({op, std::to_string(count)});
  return table;
}

std::string domain_text(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

template <class Range, class F>
std::string json_list(const Range& range, const F& element) {
  std::string result;
  for (const auto& each : range) result += (result.empty() ? "" : ", ") + element(each);
  return '[' + result + ']';
}

std::string json_named(const Summary::Named& value) {
  return fmt::format(R"({{"name": {}, "type": {}}})", json_string(value.name), json_string(value.type));
}

// The size of the contents; strings count without their length fields.
uint64_t content_bytes(const ir::Weight& weight) {
  if (weight.element_type != ElementType::string) return weight.bytes.size();
  uint64_t result = 0;
  for (const std::string_view text : weight.strings()) result += text.size();
  return result;
}

std::string json_count(const Summary::Count& count) {
  return fmt::format(R"({{"op": {}, "count": {}}})", json_string(count.op), count.count);
}

}  // namespace

Summary summarize(const ir::Graph& graph) {
  Summary result;
  result.inputs = named(graph.inputs);
  result.outputs = named(graph.outputs);
  std::map<std::string, size_t> operators;
  for_each_graph(graph, [&](const ir::Graph& each) {
    for (const ir::Node* node : each.nodes) ++operators[node->op];
    for (const ir::Value* value : each.initializers) {
      const ir::Weight& weight = *value->weight;
      const auto elements = static_cast<uint64_t>(weight.element_count());
      for (Summary::Weights* sum :
           {&result.weights, &result.weights_by_type[std::string(opbridge::name(weight.element_type))]}) {
        ++sum->tensors;
        sum->elements += elements;
        sum->bytes += content_bytes(weight);
      }
      result.largest_weights.push_back({{value->name, ir::str(value->type)}, content_bytes(weight)});
    }
  });
  result.operators = sorted(operators);
  std::stable_sort(result.largest_weights.begin(), result.largest_weights.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  result.largest_weights.resize(std::min(result.largest_weights.size(), most_large_weights));
  return result;
}

Summary summarize(const onnx::ModelFile& file) {
  Summary result = summarize(file.model.graph);
  result.producer = file.producer_name + (file.producer_version.empty() ? "" : " " + file.producer_version);
  result.ir_version = file.ir_version;
  result.opsets = file.model.opset_imports;

  std::map<std::string, size_t> custom;
  for (const auto& [op, count] : result.operators) custom[op] += count;
  std::vector<std::string> own;
  for (const OnnxFunction& function : file.model.functions) {
    const std::string name = function.domain.empty() ? function.name : function.domain + "::" + function.name;
    result.functions.push_back({name, onnx::operators_of(function)});
    for (const std::string& op : result.functions.back().operators) ++custom[op];
    own.push_back(name);
  }
  for (const std::string& name : own) custom.erase(name);
  std::erase_if(custom,
                [](const auto& entry) { return onnx::newest_opset(ir::OpName(entry.first).domain) > 0; });
  result.custom_operators = sorted(custom);
  return result;
}

std::string to_text(const Summary& summary, const Screen& screen) {
  std::vector<Table> tables;
  tables.push_back(table_of("inputs", summary.inputs));
  tables.push_back(table_of("outputs", summary.outputs));
  size_t nodes = 0;
  for (const Summary::Count& each : summary.operators) nodes += each.count;
  tables.push_back(table_of(
      fmt::format("operators: {}, {}", plural(nodes, "node"), plural(summary.operators.size(), "kind")),
      summary.operators));
  Table& by_type = tables.emplace_back(
      std::vector{text_column, number_column, number_column, number_column},
      fmt::format("weights: {}, {} elements, {}", plural(summary.weights.tensors, "tensor"),
                  grouped(summary.weights.elements), size_text(summary.weights.bytes)));
  for (const auto& [type, sum] : summary.weights_by_type) {
    by_type.add(
        {type, plural(sum.tensors, "tensor"), grouped(sum.elements) + " elements", size_text(sum.bytes)});
  }
  if (!summary.largest_weights.empty()) {
    Table& largest =
        tables.emplace_back(std::vector{text_column, text_column, number_column}, "largest weights");
    for (const auto& [weight, bytes] : summary.largest_weights) {
      largest.add({weight.name, weight.type, size_text(bytes)});
    }
  }
  if (!summary.functions.empty()) {
    Table& functions = tables.emplace_back(std::vector{text_column, text_column}, "functions");
    for (const auto& [name, operators] : summary.functions) {
      functions.add({name, fmt::format("{}: {}", plural(operators.size(), "node"),
                                       clipped(fmt::format("{}", fmt::join(operators, ", ")), 80))});
    }
  }
  if (!summary.custom_operators.empty()) {
    tables.push_back(table_of("custom operators that the runtime must know", summary.custom_operators));
  }

  std::string text =
      fmt::format("{}: {}, {}\n", printable(summary.file), summary.format, size_text(summary.file_bytes));
  if (summary.ir_version > 0) {
    std::string opsets;
    for (const auto& [domain, version] : summary.opsets) {
      opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", domain_text(domain), version);
    }
    Table facts({text_column, text_column});
    facts.add({"producer", summary.producer});
    facts.add({"IR", std::to_string(summary.ir_version)});
    facts.add({"opsets", opsets});
    text += facts.text(screen);
  }
  for (const Table& table : tables) text += '\n' + table.text(screen);
  return text;
}

std::string to_json(const Summary& summary) {
  const auto json_weights = [](const Summary::Weights& sum) {
    return fmt::format(R"("tensors": {}, "elements": {}, "bytes": {})", sum.tensors, sum.elements, sum.bytes);
  };
  std::string text = fmt::format(R"({{"file": {}, "format": {}, "bytes": {})", json_string(summary.file),
                                 json_string(summary.format), summary.file_bytes);
  if (summary.ir_version > 0) {
    text += fmt::format(R"(, "producer": {}, "ir_version": {}, "opsets": {})", json_string(summary.producer),
                        summary.ir_version, json_list(summary.opsets, [](const auto& opset) {
                          return fmt::format(R"({{"domain": {}, "version": {}}})", json_string(opset.first),
                                             opset.second);
                        }));
  }
  text +=
      fmt::format(R"(, "inputs": {}, "outputs": {}, "operators": {})", json_list(summary.inputs, json_named),
                  json_list(summary.outputs, json_named), json_list(summary.operators, json_count));
  text += fmt::format(R"(, "weights": {{{}, "by_type": {}, "largest": {}}})", json_weights(summary.weights),
                      json_list(summary.weights_by_type,
                                [&](const auto& entry) {
                                  return fmt::format(R"({{"type": {}, {}}})", json_string(entry.first),
                                                     json_weights(entry.second));
                                }),
                      json_list(summary.largest_weights, [](const auto& entry) {
                        return fmt::format(R"({{"name": {}, "type": {}, "bytes": {}}})",
                                           json_string(entry.first.name), json_string(entry.first.type),
                                           entry.second);
                      }));
  text += fmt::format(R"(, "functions": {}, "custom_operators": {}}})",
                      json_list(summary.functions,
                                [](const Summary::Function& function) {
                                  return fmt::format(R"({{"name": {}, "operators": {}}})",
                                                     json_string(function.name),
                                                     json_list(function.operators, json_string));
                                }),
                      json_list(summary.custom_operators, json_count));
  return text;
}

}  // namespace opbridge::inspect
