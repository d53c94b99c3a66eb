#include "pipeline/size_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/dim_expr.h"
#include "ir/uses.h"

namespace opbridge {

namespace {

std::vector<Dim>* dims_of(ir::Value* value) {
  auto* tensor = std::get_if<ir::TensorType>(&value->type);
  return tensor == nullptr || !tensor->dims ? nullptr : &*tensor->dims;
}

std::set<std::string> symbols_in(const std::vector<ir::Value*>& values) {
  std::set<std::string> symbols;
  for (ir::Value* value : values) {
    const std::vector<Dim>* dims = dims_of(value);
    if (dims == nullptr) continue;
    for (const Dim& dim : *dims) std::ranges::copy(dim.symbols(), std::inserter(symbols, symbols.end()));
  }
  return symbols;
}

bool is_symbol(const Dim& dim) { return !dim.is_static() && dim.expr()->kind == Expr::Kind::symbol; }

using Renamed = std::unordered_map<std::string, std::string>;

Renamed new_names(const ir::Graph& graph, const SizeNames& names) {
  const std::set<std::string> of_inputs = symbols_in(graph.inputs);
  std::set<std::string> taken = symbols_in(graph.outputs);
  taken.insert(of_inputs.begin(), of_inputs.end());
  Renamed renamed;
  for (ir::Value* output : graph.outputs) {
    const auto given = names.find(output->name);
    const std::vector<Dim>* dims = dims_of(output);
    if (given == names.end() || dims == nullptr) continue;
    for (const auto& [axis, name] : given->second) {
      const auto rank = static_cast<int64_t>(dims->size());
      if (axis < -rank || axis >= rank) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("the output '{}' has {} axes; axis {} cannot be dynamic", output->name, rank, axis));
      }
      const Dim& dim = (*dims)[axis < 0 ? axis + rank : axis];
      if (!is_symbol(dim) || of_inputs.contains(dim.str()) || renamed.contains(dim.str())) continue;
      if (taken.insert(name).second) renamed.emplace(dim.str(), name);
    }
  }
  return renamed;
}

void rename(ir::Value* value, const Renamed& renamed) {
  std::vector<Dim>* dims = dims_of(value);
  if (dims == nullptr) return;
  const auto new_symbol = [&](const Expr& symbol) {
    const auto found = renamed.find(symbol.name);
    return dim_expr::symbol(found == renamed.end() ? symbol.name : found->second, symbol.least, symbol.most);
  };
  for (Dim& dim : *dims) {
    if (!dim.is_static()) dim = Dim(dim_expr::substitute(*dim.expr(), new_symbol));
  }
}

}  // namespace

void name_sizes_of_outputs(ir::Graph& graph, const SizeNames& names) {
  const Renamed renamed = new_names(graph, names);
  if (renamed.empty()) return;
  for (ir::Graph* each : ir::all_graphs(graph)) {
    for (ir::Node* node : each->nodes) {
      for (ir::Value* output : node->outputs) rename(output, renamed);
    }
  }
}

}  // namespace opbridge
