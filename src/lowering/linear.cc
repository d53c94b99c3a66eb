#include <algorithm>
#include <cctype>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

// x @ weight^T (+ bias), as torch.nn.functional.linear: weight is (out, in), or (in) for an output without a
// last dim.
Value linear(GraphBuilder& g, Value input, Value weight, std::optional<Value> bias) {
  const bool has_terms = !input.dim(-1).is(0);
  if (weight.rank() == 2 && input.rank() == 2 && has_terms)
    return g.op("Gemm", input, weight, bias, attr("transB", 1));
  Value product = matmul(g, input, weight.rank() == 2 ? g.transpose(weight, {1, 0}) : weight);
  return bias ? g.op("Add", product, *bias) : product;
}

bool is(const Scalar& value, double number) { return value.is_static() && value.to_complex() == number; }

// beta * self + alpha * product; self may be broadcast. Rounded once.
Value add_scaled(GraphBuilder& g, Value self, Value product, const Scalar& beta, const Scalar& alpha) {
  const ElementType type = g.result().element_type;
  auto scaled = [&](Value value, const Scalar& factor) {
    value = operand(g, value, type);
    return is(factor, 1) ? value : g.op("Mul", value, g.scalar_like(value, factor));
  };
  Value sum = scaled(product, alpha);
  // Times 0, self is not read, NaN or not.
  if (!is(beta, 0)) sum = g.op("Add", sum, scaled(self, beta));
  return g.cast(g.expand(sum, *g.result().dims), type);
}

// The product before it is rounded to the result's type.
Value product(GraphBuilder& g, Value a, Value b) {
  const ElementType type = g.result().element_type;
  return matmul(g, operand(g, a, type), operand(g, b, type));
}

// a W b for each W of `weight` (out, in of a, in of b).
Value bilinear(GraphBuilder& g, Value a, Value b, Value weight, std::optional<Value> bias) {
  std::vector<Dim> dims(a.dims().begin(), a.dims().end() - 1);
  dims.push_back(weight.dim(0));
  dims.push_back(weight.dim(2));
  Value matrix = g.reshape(g.transpose(weight, {1, 0, 2}), {weight.dim(1), weight.dim(0) * weight.dim(2)});
  Value rows = g.reshape(g.op("MatMul", a, matrix), dims);  // (…, out, in of b)
  Value result = g.squeeze(g.op("MatMul", rows, g.unsqueeze(b, {-1})), {-1});
  return bias ? g.op("Add", result, *bias) : result;
}

}  // namespace

void register_linear(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", Since{9}, linear);

  on("aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", Since{9},
     bilinear);

  for (const char* line :
       {"aten::matmul(Tensor self, Tensor other) -> Tensor", "aten::mm(Tensor self, Tensor mat2) -> Tensor",
        "aten::bmm(Tensor self, Tensor mat2) -> Tensor", "aten::mv(Tensor self, Tensor vec) -> Tensor",
        "aten::dot(Tensor self, Tensor tensor) -> Tensor", "aten::vdot(Tensor self, Tensor other) -> Tensor",
        "aten::inner(Tensor self, Tensor other) -> Tensor"}) {
    const bool inner = std::string_view(line).starts_with("aten::inner");
    on(line, Since{9}, [inner](GraphBuilder& g, Value self, Value other) {
      if (!inner) return matmul(g, self, other);
      if (self.rank() == 0 || other.rank() == 0) return elementwise(g, "Mul", {self, other});
      return linear(g, self, other.rank() > 2 ? g.reshape(other, {Dim(-1), other.dim(-1)}) : other,
                    std::nullopt);
    });
  }

  on("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value mat1, Value mat2, Scalar beta, Scalar alpha) {
       const bool real = beta.is_static() && alpha.is_static() && !beta.is_complex() && !alpha.is_complex();
       const bool has_terms = !mat1.dim(-1).is(0);
       if (real && has_terms && is_floating_point(self.element_type()) && beta.to_double() != 0) {
         if (beta.to_double() == 1 && alpha.to_double() == 1) return g.op("Gemm", mat1, mat2, self);
         return g.op("Gemm", mat1, mat2, self, attr("alpha", alpha.to_double()),
                     attr("beta", beta.to_double()));
       }
       return add_scaled(g, self, product(g, mat1, mat2), beta, alpha);
     });

  for (const char* line :
       {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
        "Tensor",
        "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, Value a, Value b, Scalar beta, Scalar alpha) {
      return add_scaled(g, self, product(g, a, b), beta, alpha);
    });
  }
  on("aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value a, Value b, Scalar beta, Scalar alpha) {
       // The sum over the batch is a product of the matrices laid side by side.
       const std::vector<Dim>&left = a.dims(), &right = b.dims();
       Value wide = g.reshape(g.transpose(a, {1, 0, 2}), {left[1], left[0] * left[2]});
       Value high = g.reshape(b, {right[0] * right[1], right[2]});
       return add_scaled(g, self, product(g, wide, high), beta, alpha);
     });
  on("aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value a, Value b, Scalar beta, Scalar alpha) {
       const ElementType type = g.result().element_type;
       if (type == ElementType::boolean) {
         auto scaled = [&](Value value, const Scalar& factor) {
           return is(factor, 1) ? g.cast(value, type)
                                : g.op("And", g.cast(value, type), g.scalar(factor, type));
         };
         Value outer = g.op("And", g.unsqueeze(g.cast(a, type), {1}), g.cast(b, type));
         return g.expand(g.op("Or", scaled(outer, alpha), scaled(self, beta)), *g.result().dims);
       }
       Value outer = g.op("Mul", g.unsqueeze(operand(g, a, type), {1}), operand(g, b, type));
       return add_scaled(g, self, outer, beta, alpha);
     });
  // ONNX does not broadcast what an ellipsis stands for.
  on("aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", Since{12},
     [](GraphBuilder& g, std::string equation, std::vector<Value> tensors, Ignored) {
       const ElementType type = g.result().element_type;
       std::optional<size_t> dots;  // dims that the ellipses stand for
       std::string_view rest = equation;
       for (Value& tensor : tensors) {
         const std::string_view term = rest.substr(0, rest.find_first_of(",-"));
         rest.remove_prefix(std::min(rest.size(), term.size() + 1));
         if (term.find("...") != term.npos) {
           const auto letters =
               static_cast<size_t>(std::ranges::count_if(term, [](char c) { return std::isalpha(c); }));
           if (dots && *dots != tensor.rank() - letters)
             g.refuse("ellipses that stand for different numbers of dims; write the dims as letters");
           dots = tensor.rank() - letters;
         }
         tensor = operand(g, tensor, type);
       }
       return g.cast(g.op("Einsum", tensors, attr("equation", equation)), type);
     });
}

}  // namespace opbridge::lowering
