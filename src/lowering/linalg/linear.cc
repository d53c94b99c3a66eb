#include "lowering/linalg/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "builder/exact_floats.h"
#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/elementwise/activation.h"
#include "lowering/formula.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {

Value linear(GraphBuilder& g, Value input, Value weight, std::optional<Value> bias) {
  if (weight.rank() == 2 && input.rank() == 2 && is_floating_point(input.element_type()))
    return g.op("Gemm", input, weight, bias, attr("transB", 1));
  Value product = g.op("MatMul", input, weight.rank() == 2 ? g.transpose(weight, {1, 0}) : weight);
  return bias ? g.op("Add", product, *bias) : product;
}

namespace {

bool is(const Scalar& value, double number) { return value.is_static() && value.to_complex() == number; }

// beta * self + alpha * product, rounded once. `self` may be broadcast.
Value add_scaled(GraphBuilder& g, Value self, Value product, const Scalar& beta, const Scalar& alpha) {
  const ElementType type = g.result().element_type;
  auto scaled = [&](Value value, const Scalar& factor) {
    value = g.cast(value, opmath_type(type));
    return is(factor, 1) ? value : g.op("Mul", value, g.scalar_like(value, factor));
  };
  Value sum = scaled(product, alpha);
  // With beta 0, PyTorch does not read self, so its NaN is ignored.
  if (!is(beta, 0)) sum = g.op("Add", sum, scaled(self, beta));
  return g.cast(g.expand(sum, *g.result().dims), type);
}

// The product before it is rounded to the result's type.
Value product(GraphBuilder& g, Value a, Value b) {
  const ElementType type = g.result().element_type;
  return g.op("MatMul", operand(g, a, type), operand(g, b, type));
}

// beta * self + alpha * a b. A product over an empty dim is 0 for every alpha; if it has no elements, addmv
// returns as many as `self` has. `reads_always`: PyTorch reads the factors even if alpha is 0, so their NaN
// propagates.
Value add_product(GraphBuilder& g, Value self, Value a, Value b, const Scalar& beta, const Scalar& alpha,
                  bool reads_always = false) {
  if (a.dim(-1).is(0) || a.dim(-2).is(0) || (is(alpha, 0) && !reads_always))
    return add_scaled(g, self, g.scalar(0, g.result().element_type), beta, 1);
  return add_scaled(g, self, product(g, a, b), beta, alpha);
}

// a W b for each matrix W of `weight` (out, features of a, features of b).
Value bilinear(GraphBuilder& g, Value a, Value b, Value weight, std::optional<Value> bias) {
  std::vector<Dim> dims = first_dims(a.dims(), a.rank() - 1);
  dims.push_back(weight.dim(0));
  dims.push_back(weight.dim(2));
  Value matrix = g.reshape(g.transpose(weight, {1, 0, 2}), {weight.dim(1), weight.dim(0) * weight.dim(2)});
  Value rows = g.reshape(g.op("MatMul", a, matrix), dims);  // (…, out, features of b)
  Value result = g.squeeze(g.op("MatMul", rows, g.unsqueeze(b, {-1})), {-1});
  return bias ? g.op("Add", result, *bias) : result;
}

// The sum of the products along `axes`, which stay with a size of 1. PyTorch sums a factor first along an
// axis that the other one lacks.
Value summed_product(GraphBuilder& g, Value a, Value b, std::span<const int64_t> axes) {
  std::vector<int64_t> of_both;
  for (int64_t axis : axes) {
    if (a.dim(axis).is(1) && b.dim(axis).is(1)) continue;
    if (a.dim(axis).is(1)) {
      b = sum_of(g, b, std::vector{axis}, true);
    } else if (b.dim(axis).is(1)) {
      a = sum_of(g, a, std::vector{axis}, true);
    } else {
      of_both.push_back(axis);
    }
  }
  Value product = g.op("Mul", a, b);
  return of_both.empty() ? product : sum_of(g, product, of_both, true);
}

// PyTorch's result has the size of the last factor that has an axis, and zeros if another one has none there.
void check_sizes_of_factors(GraphBuilder& g, const std::array<Value, 3>& factors,
                            const std::vector<int64_t>& summed) {
  auto result = g.result().dims->begin();
  for (int64_t axis = 0; axis < factors[0].rank(); ++axis) {
    if (std::ranges::find(summed, axis) != summed.end()) continue;
    for (Value factor : factors) {
      const Dim& size = factor.dim(axis);
      if (size != *result && size.least().value_or(0) < 1)
        g.refuse(fmt::format("the factors have the sizes {} and {}; give them the same size", size.str(),
                             result->str()));
    }
    ++result;
  }
}

// The product of three tensors, each unsqueezed in the dims that it lacks, summed over `summed`. As PyTorch
// does, multiplies the first two factors, sums over the dims that the third one lacks, and then multiplies by
// the third: the order matters if there are infinities.
Value trilinear(GraphBuilder& g, Value a, Value b, Value c, std::vector<int64_t> lacks_a,
                std::vector<int64_t> lacks_b, std::vector<int64_t> lacks_c, std::vector<int64_t> summed,
                int64_t unrolled) {
  const ElementType type = g.result().element_type;
  // PyTorch does not compare the sizes of the factors if one of them is empty.
  for (Value factor : {a, b, c})
    if (element_count(factor.dims()).is(0)) return filled(g, *g.result().dims, 0, type);
  const size_t rank = a.rank() + lacks_a.size();
  const auto factor = [&](Value value, const std::vector<int64_t>& lacks) {
    return lacks.empty() ? operand(g, value, type) : g.unsqueeze(operand(g, value, type), lacks);
  };
  lacks_c = wrap_axes(lacks_c, rank);
  summed = wrap_axes(summed, rank);
  const std::array factors{factor(a, lacks_a), factor(b, lacks_b), factor(c, lacks_c)};
  check_sizes_of_factors(g, factors, summed);
  std::vector<int64_t> first, second, last;
  for (int64_t axis : summed) {
    const bool in_first = std::ranges::find(lacks_c, axis) != lacks_c.end();
    (axis == unrolled ? last : in_first ? first : second).push_back(axis);
  }
  Value product = summed_product(g, factors[0], factors[1], first);
  product = summed_product(g, product, factors[2], second);
  if (!last.empty()) product = sum_of(g, product, last, true);
  return g.cast(summed.empty() ? product : g.squeeze(product, summed), type);
}

// The sum over the pairs of dims (of_self[i], of_other[i]). One dim of a pair may have size 1.
Value tensordot(GraphBuilder& g, Value self, Value other, std::vector<int64_t> of_self,
                std::vector<int64_t> of_other) {
  const ElementType type = g.result().element_type;
  self = operand(g, self, type);
  other = operand(g, other, type);
  of_self = wrap_axes(of_self, self.rank());
  of_other = wrap_axes(of_other, other.rank());
  Dim terms(1);
  for (size_t i = 0; i < of_self.size(); ++i) {
    const Dim &a = self.dim(of_self[i]), &b = other.dim(of_other.at(i));
    if (a.is(1) && !b.is(1)) {
      other = sum_of(g, other, std::vector{of_other[i]}, true);
    } else if (b.is(1) && !a.is(1)) {
      self = sum_of(g, self, std::vector{of_self[i]}, true);
    } else {
      terms = terms * a;
    }
  }
  const auto as_matrix = [&](Value value, const std::vector<int64_t>& summed, bool summed_first) {
    std::vector<int64_t> order;
    Dim kept(1);
    for (int64_t axis = 0; axis < value.rank(); ++axis) {
      if (std::ranges::find(summed, axis) != summed.end()) continue;
      order.push_back(axis);
      kept = kept * value.dim(axis);
    }
    order.insert(summed_first ? order.begin() : order.end(), summed.begin(), summed.end());
    value = g.transpose(value, std::move(order));
    return summed_first ? g.reshape(value, {terms, kept}) : g.reshape(value, {kept, terms});
  };
  if (terms.is(0)) return filled(g, *g.result().dims, 0, type);
  Value product = g.op("MatMul", as_matrix(self, of_self, false), as_matrix(other, of_other, true));
  return g.cast(g.reshape(product, *g.result().dims), type);
}

// The product of float8 matrices. The scales are numbers, or there is one for each row of the first matrix
// and each column of the second.
Value scaled_product(GraphBuilder& g, Value self, Value mat2, Value scale_a, Value scale_b,
                     std::optional<Value> bias) {
  const auto wide = [&](Value value) { return g.cast(value, ElementType::float32); };
  Value product = g.op("MatMul", wide(self), wide(mat2));
  product = g.op("Mul", g.op("Mul", product, wide(scale_a)), wide(scale_b));
  if (bias) product = g.op("Add", product, wide(*bias));
  return g.cast(product, g.result().element_type);
}

}  // namespace

void register_linear(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", Since{9}, linear);

  on("aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, "
     "int[] sumdim, int unroll_dim=1) -> Tensor",
     Since{9}, trilinear);
  on("aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", Since{9},
     bilinear);

  for (const char* line :
       {"aten::matmul(Tensor self, Tensor other) -> Tensor",
        "aten::linalg_matmul(Tensor self, Tensor other) -> Tensor",
        "aten::mm(Tensor self, Tensor mat2) -> Tensor", "aten::bmm(Tensor self, Tensor mat2) -> Tensor",
        "aten::mv(Tensor self, Tensor vec) -> Tensor", "aten::dot(Tensor self, Tensor tensor) -> Tensor",
        "aten::vdot(Tensor self, Tensor other) -> Tensor",
        "aten::inner(Tensor self, Tensor other) -> Tensor"}) {
    const bool inner = std::string_view(line).starts_with("aten::inner");
    on(line, Since{9}, [inner](GraphBuilder& g, Value self, Value other) {
      if (!inner) {
        // PyTorch multiplies two types if there are no terms.
        const ElementType type = g.result().element_type;
        return g.op("MatMul", g.cast(self, type), g.cast(other, type));
      }
      if (self.rank() == 0 || other.rank() == 0) return elementwise(g, "Mul", {self, other});
      Value rows =
          other.rank() > 2
              ? g.reshape(other, {element_count(first_dims(other.dims(), other.rank() - 1)), other.dim(-1)})
              : other;
      return g.reshape(linear(g, self, rows, std::nullopt), *g.result().dims);
    });
  }

  on("aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
     "Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
     Since{19},
     [](GraphBuilder& g, Value self, Value mat2, Value scale_a, Value scale_b, std::optional<Value> bias,
        std::optional<Value> scale_result, Ignored, Ignored) {
       if (scale_result) g.refuse("scale_result is not supported; scale the result afterwards");
       return scaled_product(g, self, mat2, scale_a, scale_b, bias);
     });

  // The recipes of torch.nn.functional.ScalingType: a number for all, or one for each row and column.
  on("aten::_scaled_mm_v2(Tensor self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, "
     "Tensor[] scale_b, int[] recipe_b, int[] swizzle_b, Tensor? bias, ScalarType? out_dtype, "
     "int[] contraction_dim=[], bool use_fast_accum=False) -> Tensor",
     Since{19},
     [](GraphBuilder& g, Value self, Value mat2, const std::vector<Value>& scale_a,
        const std::vector<int64_t>& recipe_a, Ignored, const std::vector<Value>& scale_b,
        const std::vector<int64_t>& recipe_b, Ignored, std::optional<Value> bias, Ignored, Ignored, Ignored) {
       const auto scale = [&](const std::vector<Value>& scales, const std::vector<int64_t>& recipe,
                              std::vector<Dim> by_row) {
         if (scales.size() != 1 || recipe.size() != 1 || recipe[0] < 0 || recipe[0] > 1)
           g.refuse("scales are supported for whole matrices and for each row");
         return g.reshape(scales[0], recipe[0] == 0 ? std::vector<Dim>() : by_row);
       };
       return scaled_product(g, self, mat2, scale(scale_a, recipe_a, {self.dim(0), Dim(1)}),
                             scale(scale_b, recipe_b, {Dim(1), mat2.dim(1)}), bias);
     });

  on("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value mat1, Value mat2, Scalar beta, Scalar alpha) {
       const bool real = beta.is_static() && alpha.is_static() && !beta.is_complex() && !alpha.is_complex();
       const bool has_terms = !mat1.dim(-1).is(0);
       if (real && has_terms && !is(alpha, 0) && is_floating_point(self.element_type()) &&
           beta.to_double() != 0 &&
           (self.element_type() != ElementType::float64 ||
            (builder::is_float32(beta.to_double()) && builder::is_float32(alpha.to_double())))) {
         if (beta.to_double() == 1 && alpha.to_double() == 1) return g.op("Gemm", mat1, mat2, self);
         return g.op("Gemm", mat1, mat2, self, attr("alpha", alpha.to_double()),
                     attr("beta", beta.to_double()));
       }
       return add_product(g, self, mat1, mat2, beta, alpha);
     });

  on("aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
     "bool use_gelu=False) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value self, Value mat1, Value mat2, Scalar beta, Scalar alpha, bool use_gelu) {
       const ElementType type = g.result().element_type;
       Value x = operand(g, add_product(g, self, mat1, mat2, beta, alpha), type);
       return g.cast(use_gelu ? gelu(g, x, "none") : Value(max(Formula(g, x), 0)), type);
     });
  // Linear combinations of the slices of `input` along dim 0, one for each row of the coefficients.
  on("aten::_compute_linear_combination(Tensor input, Tensor coefficients) -> Tensor", Since{9},
     [](GraphBuilder& g, Value input, Value coefficients) {
       // PyTorch does not check this, and reads other memory.
       if (coefficients.rank() != 2 || coefficients.dim(1) != input.dim(0) ||
           coefficients.element_type() != input.element_type() || !is_floating_point(input.element_type()))
         g.refuse(
             "the coefficients are not a floating-point matrix with a column for each slice of the input");
       const ElementType type = opmath_type(input.element_type());
       const Dim rest = element_count(last_dims(input.dims(), input.rank() - 1));
       Value rows = g.reshape(g.cast(input, type), {input.dim(0), rest});
       std::vector<Dim> dims = input.dims();
       dims[0] = coefficients.dim(0);
       return g.cast(g.reshape(g.op("MatMul", g.cast(coefficients, type), rows), dims), input.element_type());
     });
  for (const char* line :
       {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
        "Tensor",
        "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"}) {
    const bool is_batched = std::string_view(line).starts_with("aten::baddbmm");
    on(line, Since{9},
       [is_batched](GraphBuilder& g, Value self, Value a, Value b, Scalar beta, Scalar alpha) {
         return add_product(g, self, a, b, beta, alpha, is_batched);
       });
  }
  on("aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Value a, Value b, Scalar beta, Scalar alpha) {
       // The sum over the batch is one product of the concatenated matrices.
       Value wide = g.reshape(g.transpose(a, {1, 0, 2}), {a.dim(1), a.dim(0) * a.dim(2)});
       Value high = g.reshape(b, {b.dim(0) * b.dim(1), b.dim(2)});
       return add_product(g, self, wide, high, beta, alpha);
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
  for (const char* name : {"outer", "ger"}) {
    on(fmt::format("aten::{}(Tensor self, Tensor vec2) -> Tensor", name), Since{9},
       [](GraphBuilder& g, Value self, Value other) {
         return elementwise(g, "Mul", {g.unsqueeze(self, {1}), other});
       });
  }
  on("aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", Since{9},
     tensordot);
}

}  // namespace opbridge::lowering
