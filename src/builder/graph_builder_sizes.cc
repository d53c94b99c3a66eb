// Sizes that are known only when the model runs: expressions over symbols, computed as 1-d int64 tensors of
// one element.
#include <fmt/format.h>

#include <algorithm>

#include "builder/builder_state.h"
#include "builder/older_forms.h"
#include "ir/dim_expr.h"

namespace opbridge {
namespace {

struct Linear {
  std::string symbol;
  int64_t factor;
  int64_t offset;
};

// Matches `s`, `k*s`, `s + c` and `k*s + c`.
std::optional<Linear> as_linear(const Expr& expr) {
  if (expr.kind == Expr::Kind::symbol) return Linear{expr.name, 1, 0};
  if (expr.operands.size() != 2) return std::nullopt;
  const bool first_is_integer = expr.operands[0]->kind == Expr::Kind::integer;
  const Expr& number = *expr.operands[first_is_integer ? 0 : 1];
  const Expr& other = *expr.operands[first_is_integer ? 1 : 0];
  if (number.kind != Expr::Kind::integer) return std::nullopt;
  if (expr.kind == Expr::Kind::mul && other.kind == Expr::Kind::symbol && number.value > 0) {
    return Linear{other.name, number.value, 0};
  }
  if (expr.kind == Expr::Kind::add) {
    if (std::optional<Linear> linear = as_linear(other); linear && linear->offset == 0) {
      linear->offset = number.value;
      return linear;
    }
  }
  return std::nullopt;
}

std::string text_of(const Expr& expr) { return Dim(std::make_shared<const Expr>(expr)).str(); }

}  // namespace

void GraphBuilder::bind_symbol(const std::string& symbol, Value value) {
  if (!sizes_.contains(symbol) && !dim_sources_.contains(symbol)) {
    sizes_.emplace(symbol, value.rank() == 1 ? value : unsqueeze(value, {0}));
  }
}

void GraphBuilder::bind_dims(Value value) {
  if (!value.ranked()) return;
  for (int64_t axis = 0; axis < value.rank(); ++axis) {
    const Dim& dim = value.dim(axis);
    if (dim.is_static()) continue;
    if (std::optional<Linear> linear = as_linear(*dim.expr()); linear && !sizes_.contains(linear->symbol)) {
      // Prefer a dim with factor 1, which needs no division.
      const DimSource source{value, axis, linear->factor, linear->offset};
      auto [entry, fresh] = dim_sources_.try_emplace(linear->symbol, source);
      if (!fresh && entry->second.factor != 1 && linear->factor == 1) entry->second = source;
    } else if (!linear) {  // for expressions of symbols that no value determines
      dim_sources_.try_emplace(state_->text_of(dim), DimSource{value, axis, 1, 0});
    }
  }
}

Value GraphBuilder::known_1d(const std::string& text) const {
  for (const GraphBuilder* builder = this; builder; builder = builder->parent_) {
    auto found = builder->sizes_.find(text);
    if (found != builder->sizes_.end()) return found->second;
  }
  return {};
}

const GraphBuilder::DimSource* GraphBuilder::source_of(const std::string& size) const {
  for (const GraphBuilder* builder = this; builder; builder = builder->parent_) {
    const auto found = builder->dim_sources_.find(size);
    if (found != builder->dim_sources_.end()) return &found->second;
  }
  return nullptr;
}

Value GraphBuilder::symbol_1d(const std::string& symbol) {
  if (Value known = known_1d(symbol)) return known;
  const DimSource* found = source_of(symbol);
  if (!found)
    refuse(
        fmt::format("a size depends on the symbol {}, which no input or earlier result determines", symbol));
  const DimSource source = *found;  // new nodes may move it
  Value size;
  if (opset_ >= 15) {
    size = op("Shape", source.tensor, attr("start", source.axis), attr("end", source.axis + 1));
  } else {
    size = gather(op("Shape", source.tensor), ints({source.axis}), 0);
  }
  if (source.offset != 0) size = op("Sub", size, ints({source.offset}));
  if (source.factor != 1) size = op("Div", size, ints({source.factor}));
  sizes_.emplace(symbol, size);
  return size;
}

Value GraphBuilder::computed_1d(const Expr& expr) {
  if (expr.kind == Expr::Kind::integer) return ints({expr.value});
  if (expr.kind == Expr::Kind::symbol) return symbol_1d(expr.name);
  const std::string text = text_of(expr);
  if (Value known = known_1d(text)) return known;
  const auto is_determined = [&](const std::string& symbol) { return known_1d(symbol) || source_of(symbol); };
  if (source_of(text) &&
      !std::ranges::all_of(Dim(std::make_shared<const Expr>(expr)).symbols(), is_determined))
    return symbol_1d(text);

  std::vector<Value> operands;
  for (const ExprPtr& operand : expr.operands) operands.push_back(computed_1d(*operand));
  auto fold = [&](std::string_view name) {
    Value result = operands.front();
    for (size_t i = 1; i < operands.size(); ++i) result = op(name, result, operands[i]);
    return result;
  };
  Value result;
  switch (expr.kind) {
    case Expr::Kind::add:
      result = fold("Add");
      break;
    case Expr::Kind::mul:
      result = fold("Mul");
      break;
    case Expr::Kind::min:
    case Expr::Kind::max: {
      const bool greatest = expr.kind == Expr::Kind::max;
      result = opset_ >= 12 ? op(greatest ? "Max" : "Min", operands)
                            : builder::extremum_of_integers(*this, greatest, operands);
      break;
    }
    case Expr::Kind::mod:
      result = op("Mod", operands[0], operands[1]);
      break;  // the sign of the divisor, as in Python
    case Expr::Kind::floor_div:
      // Div truncates; without the remainder the division is exact.
      result = dim_expr::least(expr).value_or(-1) >= 0
                   ? op("Div", operands[0], operands[1])
                   : op("Div", op("Sub", operands[0], op("Mod", operands[0], operands[1])), operands[1]);
      break;
    case Expr::Kind::pow:
      if (expr.operands[1]->kind == Expr::Kind::integer && expr.operands[1]->value >= 1 &&
          expr.operands[1]->value <= 8) {
        result = operands[0];
        for (int64_t i = 1; i < expr.operands[1]->value; ++i) result = op("Mul", result, operands[0]);
      } else {  // PyTorch's exponents are natural numbers, and sizes are below 2^53
        const auto wide = [&](Value value) { return cast(value, ElementType::float64); };
        result = cast(op("Pow", wide(operands[0]), wide(operands[1])), ElementType::int64);
      }
      break;
    default:
      break;
  }
  if (!result) refuse(fmt::format("the size {} cannot be computed in ONNX at opset {}", text, opset_));
  sizes_.emplace(text, result);
  return result;
}

Value GraphBuilder::size_1d(const Dim& dim) {
  if (dim.is_static()) return ints({dim.value()});
  if (Value known = known_1d(state_->text_of(dim))) return known;
  return computed_1d(*dim.expr());
}

Value GraphBuilder::size(const Dim& dim) {
  if (dim.is_static()) return scalar(dim.value(), ElementType::int64);
  Value computed = squeeze(size_1d(dim), {0});
  state_->computed_sizes.insert_or_assign(computed.get(), std::vector{dim});
  return computed;
}

Value GraphBuilder::sizes(std::span<const Dim> dims) {
  std::vector<Value> pieces;
  std::vector<int64_t> constants;
  auto flush = [&] {
    if (!constants.empty()) pieces.push_back(ints(constants));
    constants.clear();
  };
  for (const Dim& dim : dims) {
    if (dim.is_static()) {
      constants.push_back(dim.value());
    } else {
      flush();
      pieces.push_back(size_1d(dim));
    }
  }
  if (pieces.empty()) return ints(constants);
  flush();
  Value computed = concat(std::move(pieces), 0);
  state_->computed_sizes.insert_or_assign(computed.get(), std::vector(dims.begin(), dims.end()));
  return computed;
}

std::optional<std::vector<Dim>> GraphBuilder::known_sizes(Value value) const {
  if (const ir::Weight* weight = value.weight()) {
    if (weight->element_type != ElementType::int64 || weight->dims.size() > 1) return std::nullopt;
    const std::span<const int64_t> numbers = weight->as<int64_t>();
    return std::vector<Dim>(numbers.begin(), numbers.end());
  }
  const auto computed = state_->computed_sizes.find(value.get());
  if (computed == state_->computed_sizes.end()) return std::nullopt;
  return computed->second;
}

Value GraphBuilder::shape_of(Value value) {
  if (value.type().is_static()) return sizes(value.dims());
  return op("Shape", value);
}

Value GraphBuilder::dim_of(Value value, int64_t axis) { return size(value.dim(axis)); }

Dim GraphBuilder::as_dim(Value value) {
  if (value.element_type() != ElementType::int64) refuse("a size is an int64");
  if (value.rank() > 1 || (value.rank() == 1 && !value.dim(0).is(1)))
    refuse("a size is a tensor of one element");
  if (const auto known = known_sizes(value)) return known->front();
  const Dim dim = unknown_size("size");
  bind_symbol(dim.str(), value.rank() == 0 ? value : squeeze(value, {0}));
  return dim;
}

}  // namespace opbridge
