// Functions of complex numbers, in real arithmetic on their two parts.
#pragma once

#include <string_view>

#include "lowering/complex/complex.h"

namespace opbridge::lowering {

// Parts of one type, float32 or float64; an imaginary part that is absent is zero.
Complex add(GraphBuilder& g, Complex a, Complex b);
Complex negative(GraphBuilder& g, Complex z);
Complex multiply(GraphBuilder& g, Complex a, Complex b);
Complex divide(GraphBuilder& g, Complex a, Complex b);
Complex power(GraphBuilder& g, Complex base, Complex exponent, bool by_number);
Value absolute(GraphBuilder& g, Complex z);

// The function of one number that an operator such as "aten::tanh" is; null where it is none.
using ComplexFunction = Complex (*)(GraphBuilder&, Complex);
ComplexFunction complex_function(std::string_view op);

}  // namespace opbridge::lowering
