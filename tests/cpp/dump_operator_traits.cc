// Prints the table of operator traits, then for each schema line on standard input how functionalization
// classifies the operator, one JSON object per line, for tests/python/test_operator_traits.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "functionalize/mutations.h"
#include "opbridge/schema.h"
#include "torch/traits.h"

namespace {

using namespace opbridge;

#define NAMES(type, ...)               \
  constexpr const char* name(type e) { \
    using enum type;                   \
    switch (e) { __VA_ARGS__ }         \
    return "";                         \
  }
#define NAME(enumerator) \
  case enumerator:       \
    return #enumerator;

NAMES(torch::Effect,
      NAME(pure) NAME(same) NAME(alias) NAME(copy) NAME(view) NAME(view_or_copy) NAME(flatten)
          NAME(contiguous) NAME(convert) NAME(dropout) NAME(complex_view) NAME(unclear) NAME(unclear_alone)
              NAME(reads_sizes) NAME(rearrange) NAME(reassign) NAME(observes) NAME(refused))
NAMES(torch::Kind, NAME(other) NAME(elementwise) NAME(factory) NAME(contiguous))
NAMES(torch::Result, NAME(other) NAME(same) NAME(promoted) NAME(promoted_float) NAME(boolean))
NAMES(torch::ComplexRule, NAME(none) NAME(parts) NAME(conjugated_parts) NAME(pairs) NAME(truth)
                              NAME(magnitude) NAME(real_part) NAME(real_result) NAME(deviation))

std::string traits(const torch::Traits& traits) {
  return fmt::format(R"("effect":"{}","view":{},"kind":"{}","result":"{}","complex":"{}")",
                     name(traits.effect), static_cast<int>(traits.view), name(traits.kind),
                     name(traits.result), name(traits.complex));
}

// A call with a tensor for each tensor argument.
std::string mutation(const OperatorSchema& schema) {
  ir::Graph graph;
  ir::Node* node = graph.make_node(schema.key());
  for (const SchemaArgument& argument : schema.arguments) {
    if (argument.type.kind != SchemaType::Kind::tensor) continue;
    ir::Value* value = graph.add_input(argument.name, ir::TensorType{ElementType::float32, {}});
    if (argument.type.list) {
      node->set(argument.name, std::vector<ir::Value*>{value});
    } else {
      node->set(argument.name, value);
    }
  }
  for (const char* flag : {"training", "use_input_stats"}) node->set(flag, true);
  if (functionalization::updates_statistics(*node)) return R"({"statistics":true})";
  const auto found = functionalization::mutation_of(*node);
  if (!found) return "null";
  std::string outs;
  for (const std::string& out : found->outs) outs += (outs.empty() ? "\"" : ",\"") + out + "\"";
  return fmt::format(R"({{"pure":"{}","outs":[{}]}})", found->pure, outs);
}

}  // namespace

int main() {
  for (const torch::TraitsRow& row : torch::all_traits()) {
    fmt::print("{{\"row\":\"{}\",{}}}\n", row.op, traits(row.traits));
  }
  for (std::string line; std::getline(std::cin, line);) {
    const OperatorSchema schema = parse_schema(line);
    fmt::print("{{\"op\":\"{}\",{},\"mutation\":{}}}\n", schema.key(), traits(torch::traits_of(schema.key())),
               mutation(schema));
  }
  return 0;
}
