#include <algorithm>

#include "opbridge/symbolic.h"

namespace opbridge {
namespace {

// bool < integers < floating point < complex.
int category_of(ElementType type) {
  if (type == ElementType::boolean) return 0;
  if (is_integral(type)) return 1;
  return is_floating_point(type) ? 2 : 3;
}

bool is_signed_integer(ElementType type) {
  return type == ElementType::int8 || type == ElementType::int16 || type == ElementType::int32 ||
         type == ElementType::int64;
}

// The narrowest signed type that holds a signed type of `bytes` and an unsigned one.
ElementType signed_of(size_t bytes) {
  return bytes <= 1   ? ElementType::int8
         : bytes <= 2 ? ElementType::int16
         : bytes <= 4 ? ElementType::int32
                      : ElementType::int64;
}

ElementType complex_of(ElementType type) {
  return type == ElementType::float64 || type == ElementType::complex128 ? ElementType::complex128
                                                                         : ElementType::complex64;
}

// torch.promote_types
ElementType promote_types(ElementType a, ElementType b) {
  if (a == b) return a;
  if (category_of(a) < category_of(b)) std::swap(a, b);
  if (category_of(a) == 3) {
    return category_of(b) < 2 ? a : std::max(complex_of(a), complex_of(b));
  }
  if (category_of(a) > category_of(b)) return a;
  if (category_of(a) == 2) {
    if (a == ElementType::float64 || b == ElementType::float64) return ElementType::float64;
    return ElementType::float32;  // float16 with bfloat16, or either with float32
  }
  const size_t size_a = size_of(a), size_b = size_of(b);
  if (is_signed_integer(a) == is_signed_integer(b)) return size_a >= size_b ? a : b;
  const size_t size_signed = is_signed_integer(a) ? size_a : size_b;
  const size_t size_unsigned = is_signed_integer(a) ? size_b : size_a;
  return signed_of(std::max(size_signed, 2 * size_unsigned));
}

}  // namespace

ElementType promote(std::span<const PromotionOperand> operands, ElementType default_float) {
  using Category = PromotionOperand::Category;
  std::optional<ElementType> by_category[3];
  for (const PromotionOperand& operand : operands) {
    ElementType type = operand.element_type;
    if (operand.category == Category::number) {
      if (is_floating_point(type)) type = default_float;
      if (is_complex(type)) type = complex_of(default_float);
    }
    std::optional<ElementType>& slot = by_category[static_cast<size_t>(operand.category)];
    slot = slot ? promote_types(*slot, type) : type;
  }
  // Dimensioned tensors come first, then 0-d tensors, then scalars. A later class counts only if its category
  // is higher.
  std::optional<ElementType> result;
  for (const std::optional<ElementType>& type : by_category) {
    if (!type) continue;
    if (!result) {
      result = type;
    } else if (category_of(*type) > category_of(*result)) {
      // A complex operand makes a floating-point result complex and keeps its precision.
      result = category_of(*result) == 2 ? complex_of(*result) : *type;
    }
  }
  if (!result) throw Error(ErrorCode::internal, "promotion of no operands");
  return *result;
}

}  // namespace opbridge
