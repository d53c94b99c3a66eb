// The gradients of loss functions. `grad_output` has the shape of the loss: 0-d if the loss is reduced.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/nn/loss.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

// `grad` divided by the number of losses if these are averaged.
Formula of_each(const Formula& grad, const Formula& losses, int64_t reduction) {
  return reduction == mean_reduction ? grad / Formula::size(element_count(Value(losses)), losses) : grad;
}

// The gradient of an elementwise loss; `slope(input, target)` returns its derivative with respect to the
// input.
template <class F>
Value loss_gradient(GraphBuilder& g, Value grad, Value self, Value target, int64_t reduction, F slope) {
  return in_formula(
      g,
      [&](Formula dy, Formula x, Formula t) {
        Formula made = slope(x, t);
        return made * of_each(dy, made, reduction);
      },
      grad, self, target);
}

// -weight[class of the target] / total at the class of each target that is not ignored.
Value nll_gradient(GraphBuilder& g, Value grad, Value self, Value target, std::optional<Value> weight,
                   int64_t reduction, const Dim& ignore_index, Value total_weight) {
  const int64_t axis = class_axis(self);
  target = class_indices(g, target, self);
  Value kept = g.op("Not", g.op("Equal", target, g.size(ignore_index)));
  Formula dy = operand_of_result(g, grad);
  if (reduction == mean_reduction) dy = dy / operand_of_result(g, total_weight);
  if (grad.rank() == target.rank() && grad.rank() > 0) dy = {g, g.unsqueeze(dy, {axis})};
  if (grad.rank() == 1 && self.rank() == 1) dy = {g, g.reshape(dy, std::vector<Dim>())};
  if (weight) {
    std::vector<Dim> dims(self.rank() - axis, Dim(1));
    dims[0] = self.dim(axis);
    dy = dy * Formula(g, g.reshape(operand(g, *weight, g.result().element_type), dims));
  }
  Formula at_class(g, class_mask(g, self, target, axis)), counted(g, g.unsqueeze(kept, {axis}));
  Value result = where(at_class && counted, -dy, 0);
  return g.cast(g.expand(result, self.dims()), g.result().element_type);
}

// The targets of a sample are classes whose score is to exceed that of all others by `margin`.
Value multi_margin_gradient(GraphBuilder& g, Value grad, Value self, Value target, Scalar p, Scalar margin,
                            std::optional<Value> weight, int64_t reduction) {
  const ElementType type = g.result().element_type;
  const std::vector<Dim> dims = self.dims();
  const Dim classes = dims.empty() ? Dim(1) : dims.back(), samples = dims.size() == 2 ? dims[0] : Dim(1);
  const std::vector<Dim> of_samples{samples, Dim(1)};
  Formula x(g, g.reshape(operand(g, self, type), {samples, classes}));
  Value at = g.reshape(g.cast(target, ElementType::int64), of_samples);
  Formula score(g, g.op("GatherElements", Value(x), at, attr("axis", 1)));
  Formula gap = Formula(g, margin) - score + x;
  Formula slope = p.to_int() == 2 ? 2 * gap : Formula::number(1, gap);
  if (weight) {
    Value weights = g.reshape(operand(g, *weight, type), {classes});
    slope = slope * Formula(g, g.gather(weights, at, 0));
  }
  Formula is_target(g, class_mask(g, x, g.squeeze(at, {1}), 1));
  Formula of_others = where(gap > 0 && !is_target, slope, 0);
  Formula made = where(is_target, -sum(of_others, {1}), of_others) / Formula::size(classes, x);
  Formula dy = operand_of_result(g, grad);
  if (reduction == no_reduction) dy = {g, g.reshape(dy, of_samples)};
  if (reduction == mean_reduction) dy = dy / Formula::size(samples, x);
  return g.cast(g.reshape(made * dy, dims), type);
}

// As `multi_margin_gradient`, for each target of a sample against each class that is not a target.
Value multilabel_margin_gradient(GraphBuilder& g, Value grad, Value self, Value target, int64_t reduction,
                                 Value is_target) {
  const ElementType type = g.result().element_type;
  const Multilabel read = read_multilabel(g, operand(g, self, type), target);
  const Dim samples = read.x.dim(0), classes = read.x.dim(1);
  Formula gap(g, read.gaps), is_listed(g, read.is_listed), listed(g, g.unsqueeze(read.listed, {2}));
  Formula given(g, g.cast(g.reshape(is_target, {samples, Dim(1), classes}), ElementType::boolean));
  Formula active = where(listed && !given && gap > 0, Formula::number(1, gap), 0);
  Formula made = sum(active, {1}) - sum(where(is_listed, sum(active, {2}), 0), {1});
  Formula dy = operand_of_result(g, grad);
  if (reduction == no_reduction) dy = {g, g.reshape(dy, {samples, Dim(1), Dim(1)})};
  if (reduction == mean_reduction) dy = dy / Formula::size(samples, gap);
  return g.cast(g.reshape(made / Formula::size(classes, gap) * dy, self.dims()), type);
}

}  // namespace

void register_loss_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Value target, int64_t reduction) {
       return loss_gradient(g, grad, self, target, reduction,
                            [](Formula x, Formula t) { return 2 * (x - t); });
     });
  on("aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
     "float beta) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Value target, int64_t reduction, double beta) {
       return loss_gradient(g, grad, self, target, reduction, [&](Formula x, Formula t) {
         Formula d = x - t;
         return beta == 0 ? sign(d) : where(abs(d) < beta, d / beta, sign(d));
       });
     });
  on("aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
     "float delta) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Value target, int64_t reduction, double delta) {
       return loss_gradient(g, grad, self, target, reduction, [&](Formula x, Formula t) {
         Formula d = x - t;
         return where(abs(d) <= delta, d, sign(d) * delta);
       });
     });
  on("aten::soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> "
     "Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Value self, Value target, int64_t reduction) {
       return loss_gradient(g, grad, self, target, reduction, [](Formula x, Formula t) {
         Formula z = exp(-t * x);
         return -(t * z) / (z + 1);
       });
     });
  on("aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, "
     "Tensor? weight=None, int reduction=1) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value grad, Value self, Value target, std::optional<Value> weight,
        int64_t reduction) {
       return loss_gradient(g, grad, self, target, reduction, [&](Formula x, Formula t) {
         Formula slope = (x - t) / max((1 - x) * x, 1e-12);
         return weight ? slope * operand_of_result(g, *weight) : slope;
       });
     });
  on("aten::multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, "
     "Scalar margin, Tensor? weight=None, int reduction=1) -> Tensor",
     Since{9}, multi_margin_gradient);
  on("aten::multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
     "Tensor is_target) -> Tensor",
     Since{9}, multilabel_margin_gradient);
  for (const char* name : {"nll_loss", "nll_loss2d"}) {
    on(fmt::format("aten::{}_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
                   "int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
                   name),
       Since{9}, nll_gradient);
  }
}

}  // namespace opbridge::lowering
