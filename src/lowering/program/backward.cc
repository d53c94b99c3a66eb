// Backward operators that a captured program calls.
#include "lowering/add.h"
#include "lowering/indexing/indexing.h"

namespace opbridge::lowering {
namespace {

// The gradient of Softmax, or of LogSoftmax if `logarithm`, from its output.
Value softmax_backward(GraphBuilder& g, Value gradient, Value output, int64_t dim, ElementType input_type,
                       bool logarithm) {
  if (input_type != gradient.element_type())
    g.refuse(
        "PyTorch's kernel and its shape rule return different types if input_dtype is not the gradient's "
        "type; "
        "pass the gradient's type");
  return in_opmath_type(g, gradient, [&](Value grad) {
    Value made = g.cast(output, grad.element_type());
    const std::vector<Dim> dims = grad.dims();
    if (dims != output.dims()) g.refuse("the gradient and the output have different shapes");
    if (grad.rank() == 0) {
      grad = g.unsqueeze(grad, {0});
      made = g.unsqueeze(made, {0});
    }
    const int64_t axis = wrap_axis(dim, grad.rank());
    Value sum = g.reduce("ReduceSum", logarithm ? grad : g.op("Mul", grad, made), {axis}, true);
    Value result = logarithm ? g.op("Sub", grad, g.op("Mul", g.op("Exp", made), sum))
                             : g.op("Mul", g.op("Sub", grad, sum), made);
    return g.reshape(result, dims);
  });
}

// Adds each gradient to the element that was the maximum of its window.
Value max_pool_backward(GraphBuilder& g, Value gradient, Value self, Value indices) {
  std::vector<Dim> to = first_dims(self.dims(), self.rank() - 2), from = to;
  to.push_back(self.dim(-2) * self.dim(-1));
  from.push_back(gradient.dim(-2) * gradient.dim(-1));
  Value nothing = filled(g, to, 0, self.element_type());
  Value sums =
      scatter_elements(g, nothing, g.reshape(indices, from), g.reshape(gradient, from), -1, Reduction::add);
  return g.reshape(sums, self.dims());
}

}  // namespace

void register_backward(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
     "Tensor",
     Since{13}, [](GraphBuilder& g, Value gradient, Value output, int64_t dim, ElementType type) {
       return softmax_backward(g, gradient, output, dim, type, false);
     });
  on("aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
     "ScalarType input_dtype) -> Tensor",
     Since{13}, [](GraphBuilder& g, Value gradient, Value output, int64_t dim, ElementType type) {
       return softmax_backward(g, gradient, output, dim, type, true);
     });
  on("aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", Since{9},
     [](GraphBuilder& g, Value gradient, Value mask, double scale) {
       return in_opmath_type(g, gradient, [&](Value grad) {
         Value kept = g.op("Mul", grad, g.cast(mask, grad.element_type()));
         return g.op("Mul", kept, g.scalar_like(grad, scale));
       });
     });
  on("aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
     "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
     Since{16},
     [](GraphBuilder& g, Value gradient, Value self, Ignored, Ignored, Ignored, Ignored, Ignored,
        Value indices) { return max_pool_backward(g, gradient, self, indices); });
}

}  // namespace opbridge::lowering
