// Loss functions. The last step of each is the reduction: 0 for none, 1 for the mean, 2 for the sum.
#include "lowering/nn/loss.h"

#include <fmt/format.h>

#include <numbers>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/reduction/reduce.h"

namespace opbridge::lowering {
namespace {

Value constant(GraphBuilder& g, Value like, double value) { return g.scalar_like(like, value); }
Value times(GraphBuilder& g, Value x, double factor) { return g.op("Mul", x, constant(g, x, factor)); }
Value at_least(GraphBuilder& g, Value x, double least) { return g.op("Max", x, constant(g, x, least)); }
// x if it is above 0; otherwise, and for NaN, 0.
Value above_zero(GraphBuilder& g, Value x) {
  Value zero = constant(g, x, 0);
  return g.op("Where", g.op("Greater", x, zero), x, zero);
}
Value one_minus(GraphBuilder& g, Value x) { return g.op("Sub", constant(g, x, 1), x); }

// An elementwise loss of two tensors: `compute` in the opmath type, then the reduction. Integers wrap around
// in their own type; their sum may have a wider one.
template <class F>
Value elementwise_loss(GraphBuilder& g, Value self, Value target, int64_t reduction, F compute) {
  const ElementType type = g.result().element_type;
  const Value both[] = {self, target};
  const ElementType own = is_integral(type) ? result_type(g, both) : type;
  const Value losses = compute(operand(g, self, own), operand(g, target, own));
  return reduced(g, own == type ? losses : operand(g, losses, type), reduction);
}

Value mse_loss(GraphBuilder& g, Value self, Value target, int64_t reduction) {
  return elementwise_loss(g, self, target, reduction, [&](Value x, Value t) {
    Value difference = g.op("Sub", x, t);
    return g.op("Mul", difference, difference);
  });
}

Value l1_loss(GraphBuilder& g, Value self, Value target, int64_t reduction) {
  return elementwise_loss(g, self, target, reduction,
                          [&](Value x, Value t) { return g.op("Abs", g.op("Sub", x, t)); });
}

// scale * |d| - offset if |d| reaches the bound, otherwise factor * d^2.
Value rounded_l1(GraphBuilder& g, Value self, Value target, int64_t reduction, double bound, double factor,
                 double scale) {
  return elementwise_loss(g, self, target, reduction, [&](Value x, Value t) {
    Value distance = g.op("Abs", g.op("Sub", x, t));
    Value round = times(g, g.op("Mul", distance, distance), factor);
    Value straight = times(g, g.op("Sub", distance, constant(g, distance, bound / 2)), scale);
    return g.op("Where", g.op("Less", distance, constant(g, distance, bound)), round, straight);
  });
}

Value binary_cross_entropy(GraphBuilder& g, Value self, Value target, std::optional<Value> weight,
                           int64_t reduction) {
  return elementwise_loss(g, self, target, reduction, [&](Value x, Value t) {
    // PyTorch bounds the logarithms from below, to avoid infinity times zero.
    Value of_one = g.op("Mul", t, at_least(g, g.op("Log", x), -100));
    Value of_zero = g.op("Mul", one_minus(g, t), at_least(g, log1p(g, g.op("Neg", x)), -100));
    Value loss = g.op("Neg", g.op("Add", of_one, of_zero));
    return weight ? g.op("Mul", loss, operand(g, *weight, g.result().element_type)) : loss;
  });
}

Value binary_cross_entropy_with_logits(GraphBuilder& g, Value self, Value target, std::optional<Value> weight,
                                       std::optional<Value> pos_weight, int64_t reduction) {
  const ElementType type = g.result().element_type;
  return elementwise_loss(g, self, target, reduction, [&](Value x, Value t) {
    Value log = softplus(g, g.op("Neg", x));  // -log(sigmoid(x))
    if (pos_weight) {
      Value extra = g.op("Sub", operand(g, *pos_weight, type), constant(g, x, 1));
      log = g.op("Mul", log, g.op("Add", g.op("Mul", extra, t), constant(g, x, 1)));
    }
    Value loss = g.op("Add", g.op("Mul", one_minus(g, t), x), log);
    return weight ? g.op("Mul", loss, operand(g, *weight, type)) : loss;
  });
}

Value kl_div(GraphBuilder& g, Value self, Value target, int64_t reduction, bool log_target) {
  return elementwise_loss(g, self, target, reduction, [&](Value x, Value t) {
    if (log_target) return g.op("Mul", g.op("Exp", t), g.op("Sub", t, x));
    Value zero = constant(g, t, 0);
    Value entropy = g.op("Where", g.op("Equal", t, zero), zero, g.op("Mul", t, g.op("Log", t)));
    return g.op("Sub", entropy, g.op("Mul", t, x));
  });
}

Value poisson_nll_loss(GraphBuilder& g, Value input, Value target, bool log_input, bool full, double eps,
                       int64_t reduction) {
  return elementwise_loss(g, input, target, reduction, [&](Value x, Value t) {
    // Integers are multiplied as integers, which may wrap around.
    Value product = operand(g, in_own_type(g, "Mul", target, input), g.result().element_type);
    Value loss = log_input ? g.op("Sub", g.op("Exp", x), product)
                           : g.op("Sub", x, g.op("Mul", t, g.op("Log", g.op("Add", x, constant(g, x, eps)))));
    if (!full) return loss;
    // Stirling's approximation of log(t!).
    Value root = times(g, g.op("Log", times(g, t, 2 * std::numbers::pi)), 0.5);
    Value stirling = g.op("Add", g.op("Sub", g.op("Mul", t, g.op("Log", t)), t), root);
    Value small = g.op("LessOrEqual", t, constant(g, t, 1));
    return g.op("Add", loss, g.op("Where", small, constant(g, t, 0), stirling));
  });
}

// As PyTorch computes it: infinite where the exponential overflows.
Value soft_margin_loss(GraphBuilder& g, Value self, Value target, int64_t reduction) {
  return elementwise_loss(g, self, target, reduction, [&](Value x, Value t) {
    return log1p(g, g.op("Exp", g.op("Neg", g.op("Mul", x, t))));
  });
}

Value hinge_embedding_loss(GraphBuilder& g, Value self, Value target, double margin, int64_t reduction) {
  Value t = operand(g, target, target.element_type()), zero = constant(g, self, 0);
  // Integers wrap around.
  Value difference = in_own_type(g, "Sub", constant(g, self, margin), self);
  Value unlike = g.op("Where", g.op("Equal", t, constant(g, t, 1)), zero, at_least(g, difference, 0));
  Value like = g.op("Where", g.op("Equal", t, constant(g, t, -1)), zero, self);
  return reduced(g, operand(g, in_own_type(g, "Add", unlike, like), g.result().element_type), reduction);
}

Value margin_ranking_loss(GraphBuilder& g, Value a, Value b, Value target, double margin, int64_t reduction) {
  const ElementType type = g.result().element_type;
  // The order of operations is ATen's, since unsigned integers wrap around.
  const ElementType target_type = target.element_type();
  Value negated = g.cast(g.op("Neg", operand(g, target, target_type)), target_type);
  Value difference = in_own_type(g, "Sub", a, b);
  Value ranked = operand(g, in_own_type(g, "Mul", negated, difference), type);
  return reduced(g, at_least(g, g.op("Add", ranked, constant(g, ranked, margin)), 0), reduction);
}

Value cosine_embedding_loss(GraphBuilder& g, Value a, Value b, Value target, double margin,
                            int64_t reduction) {
  const ElementType type = g.result().element_type;
  Value t = operand(g, target, target.element_type());
  const std::vector<int64_t> features{t.rank()};
  // Integers are multiplied and added as integers, which may wrap around.
  auto product = [&](Value p, Value q) {
    Value products = in_own_type(g, "Mul", p, q);
    const bool whole = is_integral(products.element_type());
    products = whole ? g.cast(products, ElementType::int64) : operand(g, products, type);
    return operand(g, sum_of(g, products, features, false), type);
  };
  auto square = [&](Value p) {
    Value sum = product(p, p);
    return g.op("Add", sum, constant(g, sum, 1e-12));
  };
  Value cosine = g.op("Div", product(a, b), g.op("Sqrt", g.op("Mul", square(a), square(b))));
  Value zero = constant(g, cosine, 0);
  Value unlike = at_least(g, g.op("Sub", cosine, constant(g, cosine, margin)), 0);
  Value of_unlike = g.op("Where", g.op("Equal", t, constant(g, t, -1)), unlike, zero);
  return reduced(g, g.op("Where", g.op("Equal", t, constant(g, t, 1)), one_minus(g, cosine), of_unlike),
                 reduction);
}

Value triplet_margin_loss(GraphBuilder& g, Value anchor, Value positive, Value negative, double margin,
                          double p, double eps, bool swap, int64_t reduction) {
  const ElementType type = g.result().element_type;
  auto distance = [&](Value x, Value y) {
    Value difference = operand(g, in_own_type(g, "Sub", x, y), type);
    difference = g.op("Add", difference, constant(g, difference, eps));
    return vector_norm(g, difference, p, std::vector<int64_t>{-1}, false);
  };
  Value far = distance(anchor, negative), near = distance(anchor, positive);
  if (swap) far = g.op("Min", far, distance(positive, negative));
  Value loss = g.op("Sub", g.op("Add", near, constant(g, near, margin)), far);
  return reduced(g, at_least(g, loss, 0), reduction);
}

}  // namespace

int64_t class_axis(Value self) { return wrap_axis(self.rank() == 1 ? 0 : 1, self.rank()); }

Value class_mask(GraphBuilder& g, Value like, Value target, int64_t axis) {
  Value classes =
      g.op("Range", g.scalar(0, ElementType::int64), g.dim_of(like, axis), g.scalar(1, ElementType::int64));
  std::vector<Dim> dims(like.rank() - axis, Dim(1));
  dims[0] = like.dim(axis);
  return g.op("Equal", g.unsqueeze(target, {axis}), g.reshape(classes, dims));
}

Value class_indices(GraphBuilder& g, Value target, Value x) {
  target = g.cast(target, ElementType::int64);
  const bool is_vector = x.rank() == 1 && target.rank() == 1;
  return is_vector ? g.gather(target, g.scalar(0, ElementType::int64), 0) : target;
}

Multilabel read_multilabel(GraphBuilder& g, Value self, Value target) {
  Value x = self;
  target = g.cast(target, ElementType::int64);
  if (x.rank() < 2) {
    x = g.reshape(x, std::vector{Dim(1), element_count(x)});
    target = g.reshape(target, std::vector{Dim(1), element_count(target)});
  }
  Value zero = g.scalar(0, ElementType::int64);
  Value over =
      g.op("CumSum", g.cast(g.op("Less", target, zero), ElementType::int32), g.scalar(1, ElementType::int64));
  Value listed = g.op("Equal", over, g.scalar(0, ElementType::int32));
  Value classes = g.op("Where", listed, target, zero);
  Value scores = g.unsqueeze(g.op("GatherElements", x, classes, attr("axis", 1)), {2});
  Value gaps = g.op("Add", g.op("Sub", g.scalar_like(x, 1), scores), g.unsqueeze(x, {1}));
  Value is_listed = g.op("And", class_mask(g, g.unsqueeze(x, {1}), classes, 2), g.unsqueeze(listed, {2}));
  return {x, listed, is_listed, any_along(g, is_listed, std::vector<int64_t>{1}, true), gaps};
}

namespace {

struct TargetLoss {
  Value losses;   // of each target, multiplied by its weight
  Value weights;  // of each target; 0 if it is ignored
};

// -log[class of the target] * weight, of class_indices as targets.
TargetLoss negative_log_likelihood(GraphBuilder& g, Value log, Value target, std::optional<Value> weight,
                                   const Dim& ignore_index) {
  const int64_t axis = class_axis(log);
  if (log.dim(axis).is(0)) {  // every target is ignored
    Value nothing = filled(g, target.dims(), 0, log.element_type());
    return {nothing, nothing};
  }
  Value zero = g.scalar(0, ElementType::int64);
  Value kept = g.op("Not", g.op("Equal", target, g.size(ignore_index)));
  Value safe = g.op("Where", kept, target, zero);
  Value picked =
      g.squeeze(g.op("GatherElements", log, g.unsqueeze(safe, {axis}), attr("axis", axis)), {axis});
  // Of an ignored target, the weight may be NaN, and the logarithm infinite.
  Value none = constant(g, log, 0);
  // PyTorch's kernel for images reads weights of any shape in order.
  Value weights = weight ? g.op("Where", kept, g.gather(flat(g, *weight), safe, 0), none)
                         : g.cast(kept, log.element_type());
  Value counted = g.op("Where", kept, picked, none);
  return {g.op("Neg", g.op("Mul", counted, weights)), weights};
}

Value reduced_by_weight(GraphBuilder& g, const TargetLoss& loss, int64_t reduction) {
  if (reduction != mean_reduction) return reduced(g, loss.losses, reduction);
  Value sum = g.reduce("ReduceSum", loss.losses, {}, false);
  return g.cast(g.op("Div", sum, g.reduce("ReduceSum", loss.weights, {}, false)), g.result().element_type);
}

TargetLoss nll_losses(GraphBuilder& g, Value log, Value target, std::optional<Value> weight,
                      const Dim& ignore_index) {
  const ElementType type = g.result().element_type;
  if (weight) weight = operand(g, *weight, type);
  return negative_log_likelihood(g, operand(g, log, type), class_indices(g, target, log), weight,
                                 ignore_index);
}

Value nll_loss(GraphBuilder& g, Value self, Value target, std::optional<Value> weight, int64_t reduction,
               Dim ignore_index) {
  return reduced_by_weight(g, nll_losses(g, self, target, weight, ignore_index), reduction);
}

// The loss and the sum of the weights, which PyTorch's kernel for batches leaves 0 if nothing is reduced.
std::array<Value, 2> nll_loss_forward(GraphBuilder& g, Value self, Value target, std::optional<Value> weight,
                                      int64_t reduction, Dim ignore_index) {
  const ElementType type = g.result().element_type;
  const TargetLoss loss = nll_losses(g, self, target, weight, ignore_index);
  const bool is_left_0 = reduction == no_reduction && self.rank() > 1;
  Value total = is_left_0 ? g.scalar(0, type) : g.cast(g.reduce("ReduceSum", loss.weights, {}, false), type);
  return {reduced_by_weight(g, loss, reduction), total};
}

// `x` and `weight` have an opmath type.
Value cross_entropy(GraphBuilder& g, Value x, Value target, std::optional<Value> weight, int64_t reduction,
                    Dim ignore_index, double smoothing) {
  const ElementType type = g.result().element_type;
  const int64_t axis = class_axis(x);
  Value log = log_softmax(g, x, axis);
  const Dim classes = x.dim(axis);
  Value weighted = log;
  if (weight) {
    std::vector<Dim> dims(x.rank() - axis, Dim(1));
    dims[0] = classes;
    weighted = g.op("Mul", log, g.reshape(*weight, dims));
  }
  Value class_count = g.cast(g.size(classes), log.element_type());

  if (is_floating_point(target.element_type())) {
    Value t = operand(g, target, type);
    if (smoothing > 0) {
      Value spread = g.op("Div", constant(g, t, smoothing), class_count);
      t = g.op("Add", times(g, t, 1 - smoothing), spread);
    }
    Value losses = g.op("Neg", g.reduce("ReduceSum", g.op("Mul", weighted, t), {axis}, false));
    if (reduction != mean_reduction) return reduced(g, losses, reduction);
    Value targets = g.cast(g.size(floor_div(element_count(x), classes)), log.element_type());
    return g.cast(g.op("Div", g.reduce("ReduceSum", losses, {}, false), targets), type);
  }

  target = class_indices(g, target, x);
  TargetLoss loss = negative_log_likelihood(g, log, target, weight, ignore_index);
  if (smoothing > 0) {
    Value kept = g.op("Not", g.op("Equal", target, g.size(ignore_index)));
    Value smooth = g.op("Neg", g.reduce("ReduceSum", weighted, {axis}, false));
    smooth = g.op("Div", g.op("Where", kept, smooth, constant(g, log, 0)), class_count);
    loss.losses = g.op("Add", times(g, loss.losses, 1 - smoothing), times(g, smooth, smoothing));
  }
  return reduced_by_weight(g, loss, reduction);
}

Value cross_entropy_loss(GraphBuilder& g, Value self, Value target, std::optional<Value> weight,
                         int64_t reduction, Dim ignore_index, double smoothing) {
  const ElementType type = g.result().element_type;
  if (weight) weight = operand(g, *weight, type);
  return cross_entropy(g, operand(g, self, type), target, weight, reduction, ignore_index, smoothing);
}

// The cross entropy of input @ linear_weight^T + linear_bias, which PyTorch computes in chunks of the batch.
// In half types the logits are not rounded.
Value linear_cross_entropy(GraphBuilder& g, Value input, Value linear_weight, Value target,
                           std::optional<Value> linear_bias, std::optional<Value> weight, int64_t reduction,
                           Dim ignore_index, double smoothing) {
  const ElementType type = g.result().element_type;
  const auto wide = [&](Value value) { return g.cast(value, opmath_type(type)); };
  Value scores = g.op("MatMul", wide(input), g.transpose(wide(linear_weight), {1, 0}));
  if (linear_bias) scores = g.op("Add", scores, wide(*linear_bias));
  if (weight) weight = wide(*weight);
  return cross_entropy(g, scores, target, weight, reduction, ignore_index, smoothing);
}

Value multi_margin_loss(GraphBuilder& g, Value self, Value target, Scalar p, Scalar margin,
                        std::optional<Value> weight, int64_t reduction) {
  const ElementType type = g.result().element_type;
  if (self.rank() == 2 && target.rank() == 0) self = g.squeeze(self, {0});
  Value x = operand(g, self.rank() == 0 ? g.unsqueeze(self, {0}) : self, type);
  const int64_t axis = class_axis(x);
  const bool is_vector = target.rank() > axis;
  target = class_indices(g, target, x);
  Value at = g.unsqueeze(target, {axis});
  Value score = g.op("GatherElements", x, at, attr("axis", axis));
  Value limit = g.op("Sub", g.scalar_like(x, margin), score);
  Value losses = above_zero(g, g.op("Add", limit, x));
  if (p.to_int() == 2) losses = g.op("Mul", losses, losses);
  if (weight) {
    Value weights = weight->rank() == 0 ? g.unsqueeze(*weight, {0}) : *weight;
    losses = g.op("Mul", losses, g.gather(operand(g, weights, type), at, 0));
  }
  losses = g.op("Where", class_mask(g, x, target, axis), constant(g, x, 0), losses);
  Value loss = g.reduce("ReduceMean", losses, {axis}, false);
  if (is_vector && reduction == no_reduction) loss = g.unsqueeze(loss, {0});
  return reduced(g, loss, reduction);
}

Value multilabel_loss(GraphBuilder& g, Value self, const Multilabel& read, int64_t reduction) {
  Value counted = g.op("And", g.unsqueeze(read.listed, {2}), g.op("Not", read.is_target));
  Value losses = g.op("Where", counted, above_zero(g, read.gaps), constant(g, read.x, 0));
  Value sum = g.reduce("ReduceSum", losses, {1, 2}, false);
  Value result = g.op("Div", sum, g.cast(g.dim_of(read.x, 1), read.x.element_type()));
  if (self.rank() < 2) result = g.squeeze(result, {0});
  return reduced(g, result, reduction);
}

Value multilabel_margin_loss(GraphBuilder& g, Value self, Value target, int64_t reduction) {
  const Multilabel read = read_multilabel(g, operand(g, self, g.result().element_type), target);
  return multilabel_loss(g, self, read, reduction);
}

std::array<Value, 2> multilabel_margin_loss_forward(GraphBuilder& g, Value self, Value target,
                                                    int64_t reduction) {
  const ir::TensorType& type = g.result(1);
  const Multilabel read = read_multilabel(g, operand(g, self, type.element_type), target);
  Value is_target = g.cast(g.reshape(read.is_target, *type.dims), type.element_type);
  return {multilabel_loss(g, self, read, reduction), is_target};
}

}  // namespace

void register_loss(SymbolicRegistry& registry) {
  auto on = add(registry);

  struct Plain {
    const char* name;
    Value (*loss)(GraphBuilder&, Value, Value, int64_t);
  };
  for (const auto& [name, loss] : {Plain{"mse_loss", mse_loss},
                                   {"l1_loss", l1_loss},
                                   {"soft_margin_loss", soft_margin_loss},
                                   {"multilabel_margin_loss", multilabel_margin_loss}}) {
    on(fmt::format("aten::{}(Tensor self, Tensor target, int reduction=1) -> Tensor", name), Since{9}, loss);
  }
  on("aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, "
     "Tensor is_target)",
     Since{9}, multilabel_margin_loss_forward);
  on("aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value target, int64_t reduction, double beta) {
       if (beta == 0) return l1_loss(g, self, target, reduction);
       return rounded_l1(g, self, target, reduction, beta, 0.5 / beta, 1);
     });
  on("aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Value target, int64_t reduction, double delta) {
       return rounded_l1(g, self, target, reduction, delta, 0.5, delta);
     });
  on("aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
     Since{9}, binary_cross_entropy);
  on("aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
     "Tensor? pos_weight=None, int reduction=1) -> Tensor",
     Since{9}, binary_cross_entropy_with_logits);
  on("aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
     Since{9}, kl_div);
  on("aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int "
     "reduction) -> "
     "Tensor",
     Since{9}, poisson_nll_loss);
  on("aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",
     Since{9}, hinge_embedding_loss);
  on("aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int "
     "reduction=1) -> "
     "Tensor",
     Since{9}, margin_ranking_loss);
  on("aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
     "int reduction=1) -> Tensor",
     Since{9}, cosine_embedding_loss);
  on("aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float "
     "p=2., "
     "float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
     Since{9}, triplet_margin_loss);
  for (const char* name : {"nll_loss_nd", "nll_loss", "nll_loss2d"}) {
    on(fmt::format("aten::{}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
                   "SymInt ignore_index=-100) -> Tensor",
                   name),
       Since{9}, nll_loss);
  }
  for (const char* name : {"nll_loss_forward", "nll_loss2d_forward"}) {
    on(fmt::format("aten::{}(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) "
                   "-> (Tensor, Tensor)",
                   name),
       Since{9}, nll_loss_forward);
  }
  on("aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
     "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
     Since{9}, cross_entropy_loss);
  on("aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, "
     "int reduction=1) -> Tensor",
     Since{9}, multi_margin_loss);
  on("torch_nn::_linear_cross_entropy_batch_chunked(Tensor input, Tensor linear_weight, Tensor target, "
     "Tensor? linear_bias, Tensor? weight, str reduction, SymInt ignore_index, float label_smoothing, "
     "SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype, bool allow_retain_graph, "
     "bool compute_input_grad, bool compute_linear_weight_grad, bool compute_linear_bias_grad) -> (Tensor, "
     "Tensor, Tensor, Tensor)",
     Since{9},
     [](GraphBuilder& g, Value input, Value linear_weight, Value target, std::optional<Value> linear_bias,
        std::optional<Value> weight, std::string reduction, Dim ignore_index, double smoothing, Ignored,
        Ignored, Ignored, Ignored, bool of_input, bool of_weight, bool of_bias) {
       if (of_input || of_weight || of_bias)
         g.refuse("its gradients are computed with the loss; export under torch.no_grad()");
       return std::array{linear_cross_entropy(g, input, linear_weight, target, linear_bias, weight,
                                              reduction == "mean" ? mean_reduction : sum_reduction,
                                              ignore_index, smoothing),
                         Value(), Value(), Value()};
     });
  on("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction(Tensor input, Tensor linear_weight, Tensor "
     "target, Tensor? linear_bias, Tensor? weight, SymInt ignore_index, SymInt batch_chunk_size, str "
     "acc_policy, ScalarType acc_dtype) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value input, Value linear_weight, Value target, std::optional<Value> linear_bias,
        std::optional<Value> weight, Dim ignore_index, Ignored, Ignored, Ignored) {
       return linear_cross_entropy(g, input, linear_weight, target, linear_bias, weight, no_reduction,
                                   ignore_index, 0);
     });
}

}  // namespace opbridge::lowering
