#include "builder/exact_floats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

namespace opbridge::builder {
namespace {

constexpr std::string_view exact_suffix = "_float64";

std::span<const double> doubles(const ir::AttributeValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return {number, 1};
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return *list;
  return {};
}

// The numbers of a text, separated by commas; nothing if it is not of this form.
std::optional<std::vector<double>> parsed(std::string_view text) {
  std::vector<double> numbers;
  for (const char* at = text.data(); at <= text.data() + text.size(); ++at) {
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), numbers.emplace_back());
    const bool ends = end == text.data() + text.size() || *end == ',';
    if (error != std::errc() || !ends) return std::nullopt;
    at = end;
  }
  return numbers;
}

}  // namespace

bool is_float32(double value) {
  return std::isnan(value) || static_cast<double>(static_cast<float>(value)) == value;
}

void add_exact_floats(std::vector<ir::Attribute>& attributes) {
  std::vector<ir::Attribute> exact;
  for (const ir::Attribute& attribute : attributes) {
    const std::span<const double> values = doubles(attribute.value);
    if (!std::ranges::all_of(values, is_float32))
      exact.push_back(
          {attribute.name + std::string(exact_suffix), fmt::format("{}", fmt::join(values, ","))});
  }
  attributes.insert(attributes.end(), exact.begin(), exact.end());
}

std::optional<ir::AttributeValue> exact_attribute(const ir::Node& node, const std::string& name) {
  const ir::AttributeValue* rounded = node.find(name);
  if (rounded == nullptr) return std::nullopt;
  const ir::AttributeValue* exact = node.find(name + std::string(exact_suffix));
  const std::string* text = exact ? std::get_if<std::string>(exact) : nullptr;
  const auto numbers = text ? parsed(*text) : std::nullopt;
  if (!numbers || numbers->size() != doubles(*rounded).size()) return *rounded;
  if (std::holds_alternative<double>(*rounded)) return ir::AttributeValue(numbers->front());
  return ir::AttributeValue(*numbers);
}

}  // namespace opbridge::builder
