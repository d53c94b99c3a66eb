#include "lowering/missing.h"

#include <fmt/format.h>

#include <algorithm>

#include "lowering/foreign_error.h"
#include "lowering/skeleton.h"

namespace opbridge {
namespace {

constexpr size_t most_locations = 5;

void add_location(std::vector<std::string>& locations, const ir::Node& node) {
  std::string location = node.source.line.empty() ? node.source.scope : node.source.line;
  if (location.empty()) location = node.name.empty() ? "(unknown location)" : node.name;
  if (std::ranges::find(locations, location) == locations.end()) locations.push_back(std::move(location));
}

std::string locations_text(const std::vector<std::string>& locations) {
  std::string text;
  for (size_t i = 0; i < std::min(locations.size(), most_locations); ++i)
    text += "      at " + locations[i] + "\n";
  if (locations.size() > most_locations)
    text += fmt::format("      and {} more locations\n", locations.size() - most_locations);
  return text;
}

// The skeleton of a symbolic function, for the user to complete.
std::string skeleton_text(const MissingOperator& missing, int opset) {
  const MappingSkeleton skeleton = mapping_skeleton(missing.schema, missing.results, opset);
  return fmt::format("      {}\n      {}\n          return {}\n", skeleton.decorator, skeleton.head,
                     skeleton.node);
}

}  // namespace

void MissingReport::add_missing(const ir::Node& node) {
  auto entry = std::ranges::find(missing_, node.op, &MissingOperator::op);
  if (entry == missing_.end()) {
    entry = missing_.insert(missing_.end(), MissingOperator{.op = node.op});
    if (std::optional<OperatorSchema> known =
            options_->schema_of ? options_->schema_of(node.op) : std::nullopt) {
      entry->schema = *std::move(known);
      entry->schema_is_known = true;
    }
  }
  ++entry->calls;
  entry->results = std::max(entry->results, node.outputs.size());
  if (!entry->schema_is_known) learn_schema(entry->schema, node);
  add_location(entry->locations, node);
}

void MissingReport::add_refused(const ir::Node& node, const Error& error) {
  auto entry = std::ranges::find(refused_, error.message(), &Refused::message);
  if (entry == refused_.end()) {
    const auto* foreign = dynamic_cast<const ForeignError*>(&error);
    entry = refused_.insert(
        refused_.end(),
        {error.message(), {}, 0, error.code(), foreign != nullptr ? foreign->original() : nullptr});
  }
  ++entry->count;
  add_location(entry->locations, node);
}

Error MissingReport::error() const {
  const int opset = options_->opset;
  std::string text;
  if (!missing_.empty()) {
    text += fmt::format(
        "{} operator{} of this model {} no mapping to ONNX opset {} (the second link is missing):\n",
        missing_.size(), missing_.size() == 1 ? "" : "s", missing_.size() == 1 ? "has" : "have", opset);
    for (const MissingOperator& missing : missing_) {
      const std::string& op = missing.op;
      text += fmt::format("\n  {}  ({} call{})\n", op, missing.calls, missing.calls == 1 ? "" : "s") +
              locations_text(missing.locations);
      if (std::optional<int> first = registry_->first_opset(op)) {
        text += fmt::format(
            "    It has a mapping from opset {} on; export with opset_version={}, or register one for {}:\n",
            *first, *first, opset);
      } else if (op.starts_with("aten::")) {
        text += "    Register one before the export:\n";
      } else {
        text +=
            "    If it is written with opbridge/operator.h, load its library (opbridge.load_operators, "
            "--ops); "
            "otherwise register one before the export:\n";
      }
      text += skeleton_text(missing, opset);
    }
    if (!std::ranges::all_of(missing_, &MissingOperator::schema_is_known))
      text += fmt::format("\n{}\n", about_unknown_schemas);
  }
  if (!refused_.empty()) {
    if (!text.empty()) text += "\n";
    if (refused_.size() > 1 || !missing_.empty()) {
      text += fmt::format("{} mapping{} cannot be applied:\n\n", refused_.size(),
                          refused_.size() == 1 ? "" : "s");
    }
    for (const Refused& refused : refused_) {
      text +=
          fmt::format("  {}  ({} call{})\n", refused.message, refused.count, refused.count == 1 ? "" : "s") +
          locations_text(refused.locations);
    }
  }
  while (text.ends_with('\n')) text.pop_back();
  const bool only_invalid = missing_.empty() && std::ranges::all_of(refused_, [](const Refused& r) {
                              return r.code == ErrorCode::invalid_node;
                            });
  return Error(only_invalid ? ErrorCode::invalid_node : ErrorCode::unsupported, text);
}

void MissingReport::raise() const {
  if (missing_.empty() && refused_.size() == 1 && refused_[0].original)
    std::rethrow_exception(refused_[0].original);
  throw error();
}

}  // namespace opbridge
