// Products of complex tensors, as sums of products of their parts.
#include <algorithm>
#include <complex>

#include "lowering/complex/complex_call.h"
#include "lowering/complex/complex_functions.h"

namespace opbridge::lowering {

const ComplexLowering::Product* ComplexLowering::product_of(std::string_view op) {
  static const std::vector<Product> products = [] {
    std::vector<Product> table = {{"aten::mm", {"self", "mat2"}, {}},
                                  {"aten::bmm", {"self", "mat2"}, {}},
                                  {"aten::mv", {"self", "vec"}, {}},
                                  {"aten::dot", {"self", "tensor"}, {}},
                                  {"aten::outer", {"self", "vec2"}, {}},
                                  {"aten::ger", {"self", "vec2"}, {}},
                                  {"aten::einsum", {"tensors"}, {}},
                                  {"aten::trapezoid", {"y", "x"}, {}},
                                  {"aten::trapz", {"y", "x"}, {}},
                                  {"aten::cumulative_trapezoid", {"y", "x"}, {}},
                                  {"aten::linalg_multi_dot", {"tensors"}, {}},
                                  {"aten::chain_matmul", {"matrices"}, {}},
                                  {"aten::vdot", {"self", "other"}, {}, false, true},
                                  {"aten::linalg_vecdot", {"x", "y"}, {}, false, true},
                                  {"aten::addmm", {"mat1", "mat2"}, "self", true},
                                  {"aten::addmv", {"mat", "vec"}, "self", true},
                                  {"aten::addr", {"vec1", "vec2"}, "self", true},
                                  {"aten::addbmm", {"batch1", "batch2"}, "self", true},
                                  {"aten::baddbmm", {"batch1", "batch2"}, "self", true},
                                  {"aten::linear", {"input", "weight"}, "bias"},
                                  {"aten::bilinear", {"input1", "input2", "weight"}, "bias"}};
    for (const char* name :
         {"aten::mul", "aten::multiply", "aten::matmul", "aten::linalg_matmul", "aten::inner", "aten::kron",
          "aten::tensordot", "aten::linalg_cross", "aten::cross"}) {
      table.push_back({name, {"self", "other"}, {}});
    }
    for (const char* name : {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::conv_transpose1d",
                             "aten::conv_transpose2d", "aten::conv_transpose3d", "aten::convolution"}) {
      table.push_back({name, {"input", "weight"}, "bias"});
    }
    return table;
  }();
  const auto found = std::ranges::find(products, op, &Product::op);
  return found == products.end() ? nullptr : &*found;
}

Complex ComplexLowering::lower_product(const ir::Node& node, const Symbolic& symbolic,
                                       const Product& product) {
  std::vector<std::pair<std::string_view, size_t>> factors;
  std::vector<bool> is_real;
  for (std::string_view name : product.factors) {
    size_t count = 0;
    if (const ir::AttributeValue* value = node.find(name)) {
      for_each_tensor(*value, [&](const ir::Value* tensor) {
        factors.emplace_back(name, count++);
        is_real.push_back(!parts(tensor).im);
      });
      if (std::holds_alternative<std::complex<double>>(*value)) {
        factors.emplace_back(name, 0);
        is_real.push_back(false);
      }
    }
  }
  for (const ir::Attribute& attribute : node.attributes) {
    for_each_tensor(attribute.value, [&](const ir::Value* tensor) {
      const bool known = attribute.name == product.addend ||
                         std::ranges::find(product.factors, attribute.name) != product.factors.end();
      if (!known && is_complex_value(tensor)) g_.refuse(std::string(unsupported_complex));
    });
  }
  if (factors.size() > 6)
    g_.refuse("a product of more than six complex tensors is not supported; multiply a few at a time");
  ir::Node plain = node;
  if (product.is_scaled) {
    plain.set("alpha", int64_t{1});
    plain.set("beta", int64_t{0});
  }
  bool real_added = product.is_scaled || product.addend.empty(), imaginary_added = real_added;
  Complex sum;
  // One term for each choice of parts, times i for each imaginary part.
  for (size_t choice = 0; choice < size_t{1} << factors.size(); ++choice) {
    int turns = 0;
    bool vanishes = false;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (!(choice >> i & 1)) continue;
      vanishes |= is_real[i];
      turns += product.conjugates_first && i == 0 ? 3 : 1;
    }
    if (vanishes) continue;
    const bool is_imaginary = turns % 2 == 1, is_negative = turns % 4 >= 2;
    bool& added = is_imaginary ? imaginary_added : real_added;
    const Part addend = added || is_negative ? (product.is_scaled ? Part::real : Part::none)
                        : is_imaginary       ? Part::imaginary
                                             : Part::real;
    added |= !is_negative;
    Value term = call(plain, symbolic, [&](std::string_view argument, size_t index) {
      if (argument == product.addend) return addend;
      for (size_t i = 0; i < factors.size(); ++i) {
        if (factors[i] == std::pair(argument, index)) return choice >> i & 1 ? Part::imaginary : Part::real;
      }
      return Part::real;
    })[0];
    Value& part = is_imaginary ? sum.im : sum.re;
    if (!part) {
      part = is_negative ? g_.op("Neg", term) : term;
    } else {
      part = g_.op(is_negative ? "Sub" : "Add", part, term);
    }
  }
  if (!imaginary_added) {
    const auto* addend = std::get_if<ir::Value*>(node.find(product.addend));
    if (addend && *addend && parts(*addend).im)
      g_.refuse("a complex tensor is added to a product of real ones; make one factor complex");
  }
  const Call arguments(*this, g_, node);
  if (product.is_scaled) {
    const auto is = [&](std::string_view name, int64_t number) {
      const ir::AttributeValue* value = node.find(name);
      if (!value) return number == 1;
      return *value == ir::AttributeValue(number) ||
             *value == ir::AttributeValue(static_cast<double>(number));
    };
    // A product over an empty dim is 0 for every alpha. With alpha 0, addmm and addbmm do not read the
    // factors.
    Value first = parts(*std::get_if<ir::Value*>(node.find(product.factors.front()))).re;
    const bool has_terms = first.rank() == 1 || !first.dim(-1).is(0);
    const bool reads_always = !(product.op == "aten::addmm" || product.op == "aten::addbmm");
    if (has_terms && is("alpha", 0) && !reads_always) {
      sum = {g_.expand(g_.scalar_like(sum.re, 0), sum.re.dims()), {}};
    } else if (has_terms) {
      sum = multiply(g_, arguments.get("alpha", 1), sum);
    }
    if (!is("beta", 0)) sum = add(g_, sum, multiply(g_, arguments.get("beta", 1), arguments[product.addend]));
  }
  if (!sum.im) sum.im = g_.op("Mul", sum.re, g_.scalar(0, sum.re.element_type()));
  return sum;
}

}  // namespace opbridge::lowering
