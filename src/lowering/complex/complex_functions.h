// Functions of complex numbers in real arithmetic.
#pragma once

#include <string_view>

#include "lowering/complex/complex.h"

namespace opbridge::lowering {

// All parts have the same type, float32 or float64. A missing imaginary part is zero.
Complex add(GraphBuilder& g, Complex a, Complex b);
Complex negative(GraphBuilder& g, Complex z);
Complex multiply(GraphBuilder& g, Complex a, Complex b);
Complex divide(GraphBuilder& g, Complex a, Complex b);
Complex power(GraphBuilder& g, Complex base, Complex exponent, bool by_number);
Value absolute(GraphBuilder& g, Complex z);

// The function that an elementwise operator such as "aten::tanh" computes; null for other operators.
using ComplexFunction = Complex (*)(GraphBuilder&, Complex);
ComplexFunction complex_function(std::string_view op);

}  // namespace opbridge::lowering
