// Trigonometric and hyperbolic functions from the C library, for types other than float32, which ONNX Runtime
// lacks.
#include <cmath>

#include "elementwise.h"

namespace opbridge::op {
namespace {

const Registration operators[] = {
    unary<"acos", std::acos>(),   unary<"acosh", std::acosh>(), unary<"asin", std::asin>(),
    unary<"asinh", std::asinh>(), unary<"atan", std::atan>(),   unary<"atanh", std::atanh>(),
    unary<"cosh", std::cosh>(),   unary<"sinh", std::sinh>(),   unary<"tan", std::tan>(),
};

}  // namespace
}  // namespace opbridge::op
