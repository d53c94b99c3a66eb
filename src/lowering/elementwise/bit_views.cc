// Views of the same bytes as another element type.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/kernel.h"

namespace opbridge::lowering {
namespace {

// The unsigned integers with this number of bits; undefined if there are none.
ElementType unsigned_of(unsigned bits) {
  switch (bits) {
    case 8:
      return ElementType::uint8;
    case 16:
      return ElementType::uint16;
    case 32:
      return ElementType::uint32;
    case 64:
      return ElementType::uint64;
    default:
      return ElementType::undefined;
  }
}

ElementType signed_of(unsigned bits) {
  return bits == 8    ? ElementType::int8
         : bits == 16 ? ElementType::int16
         : bits == 32 ? ElementType::int32
                      : ElementType::int64;
}

bool has_own_kernel(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16 || type == ElementType::float32 ||
         type == ElementType::float64;
}

// `self` has a floating-point type and `to` is the signed integer of its width, or the reverse.
Value own_bit_cast(GraphBuilder& g, Value self, ElementType to) {
  const ElementType floating = is_floating_point(to) ? to : self.element_type();
  if (!has_own_kernel(floating)) {
    g.refuse(
        fmt::format("the bits of {} can be read and written since opset 26; export with "
                    "opset_version=26 or later",
                    name(floating)));
  }
  return kernel(g, "opbridge::bit_cast", {self, g.scalar(0, to)}, {to, self.type().dims});
}

// The types have the same width. A cast between integers keeps the bits.
Value bit_cast(GraphBuilder& g, Value self, ElementType to) {
  const ElementType from = self.element_type(), integer = signed_of(bits_of(to));
  if (from == to) return self;
  if (!is_floating_point(from) && !is_floating_point(to)) return g.cast(self, to);
  if (g.opset() >= 26) return g.typed(g.op("BitCast", self, attr("to", to)), {to, self.type().dims});
  self = is_floating_point(from) ? own_bit_cast(g, self, integer) : g.cast(self, integer);
  return is_floating_point(to) ? own_bit_cast(g, self, to) : g.cast(self, to);
}

// 0, 8, 16, … for parts of 8 bits: where each part of a number starts.
Value first_bits(GraphBuilder& g, int64_t count, unsigned bits) {
  std::vector<int64_t> first(count);
  for (int64_t i = 0; i < count; ++i) first[i] = i * bits;
  return g.cast(g.ints(first), ElementType::uint64);
}

// The parts of unsigned integers, the lowest first, as elements of the last axis.
Value split_numbers(GraphBuilder& g, Value self, ElementType to) {
  const unsigned bits = bits_of(to);
  Value first = first_bits(g, bits_of(self.element_type()) / bits, bits);
  Value wide = g.unsqueeze(g.cast(self, ElementType::uint64), {-1});
  Value parts = g.op("BitShift", wide, first, attr("direction", "RIGHT"));
  return g.reshape(g.cast(parts, to), *g.result().dims);  // the cast drops the upper bits
}

// The inverse of split_numbers. The parts have no bits in common, so their sum has all of them.
Value join_numbers(GraphBuilder& g, Value self, ElementType to) {
  const unsigned bits = bits_of(self.element_type());
  const int64_t count = bits_of(to) / bits;
  std::vector<Dim> dims = *g.result().dims;
  dims.emplace_back(count);
  Value parts = g.cast(g.reshape(self, dims), ElementType::uint64);
  parts = g.op("BitShift", parts, first_bits(g, count, bits), attr("direction", "LEFT"));
  return g.cast(g.reduce("ReduceSum", parts, {-1}, false), to);
}

Value view_as_type(GraphBuilder& g, Value self, Ignored) {
  const ElementType from = self.element_type(), to = g.result().element_type;
  if (from == to) return self;
  if (to == ElementType::boolean) {
    g.refuse(
        fmt::format("PyTorch does not define a bool view of bytes other than 0 and 1; use x != 0 instead of "
                    "a view of {}",
                    name(from)));
  }
  const unsigned narrow = bits_of(from), wide = bits_of(to);
  const ElementType source = unsigned_of(narrow), target = unsigned_of(wide);
  if (source == ElementType::undefined || target == ElementType::undefined)
    g.refuse(fmt::format("{} as {}: the elements must have 8, 16, 32 or 64 bits", name(from), name(to)));
  if (narrow != wide) self = bit_cast(g, self, source);
  if (narrow > wide) self = split_numbers(g, self, target);
  if (narrow < wide) self = join_numbers(g, self, target);
  return bit_cast(g, self, to);
}

}  // namespace

void register_bit_views(SymbolicRegistry& registry) {
  auto on = add(registry);
  on("aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", Since{9}, view_as_type);
}

}  // namespace opbridge::lowering
