#include "lowering/add.h"

namespace opbridge::lowering {
namespace {

// x @ weight^T (+ bias), as torch.nn.functional.linear: weight is (out, in), or (in) for an output without a
// last dim.
Value linear(GraphBuilder& g, Value input, Value weight, std::optional<Value> bias) {
  if (weight.rank() == 2 && input.rank() == 2) return g.op("Gemm", input, weight, bias, attr("transB", 1));
  Value product = g.op("MatMul", input, weight.rank() == 2 ? g.transpose(weight, {1, 0}) : weight);
  return bias ? g.op("Add", product, *bias) : product;
}

// beta * self + alpha * product; self may be broadcast.
Value add_scaled(GraphBuilder& g, Value self, Value product, const Scalar& beta, const Scalar& alpha) {
  auto scaled = [&](Value value, const Scalar& factor) {
    return factor.is_static() && factor.to_complex() == 1.0
               ? value
               : g.op("Mul", value, g.scalar_like(value, factor));
  };
  if (beta.is_static() && beta.to_complex() == 0.0)
    return scaled(product, alpha);  // self is not read, NaN or not
  return g.op("Add", scaled(product, alpha), scaled(self, beta));
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
      if (!inner) return g.op("MatMul", self, other);
      if (self.rank() == 0 || other.rank() == 0) return g.op("Mul", self, other);
      return linear(g, self, other.rank() > 2 ? g.reshape(other, {Dim(-1), other.dim(-1)}) : other,
                    std::nullopt);
    });
  }

  on("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value mat1, Value mat2, Scalar beta, Scalar alpha) {
       const bool real = beta.is_static() && alpha.is_static() && !beta.is_complex() && !alpha.is_complex();
       if (real && is_floating_point(self.element_type()) && beta.to_double() != 0) {
         if (beta.to_double() == 1 && alpha.to_double() == 1) return g.op("Gemm", mat1, mat2, self);
         return g.op("Gemm", mat1, mat2, self, attr("alpha", alpha.to_double()),
                     attr("beta", beta.to_double()));
       }
       return add_scaled(g, self, g.op("MatMul", mat1, mat2), beta, alpha);
     });

  for (const char* line :
       {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
        "Tensor",
        "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self, Value a, Value b, Scalar beta, Scalar alpha) {
      return add_scaled(g, self, g.op("MatMul", a, b), beta, alpha);
    });
  }
}

}  // namespace opbridge::lowering
