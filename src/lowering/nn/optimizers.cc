// The steps of optimizers in one kernel, torch.optim's `fused=True`: ATen's cpu/FusedAdamKernel.cpp and those
// beside it. Also the gradient scaling of automatic mixed precision: cpu/AmpGradScalerKernels.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lowering/add.h"
#include "lowering/formula.h"

namespace opbridge::lowering {
namespace {

using Tensors = std::vector<Value>;

// What all tensors of a call share.
class Step {
 public:
  Step(GraphBuilder& g, std::optional<Value> grad_scale, std::optional<Value> found_inf, bool maximize)
      : g_(g), maximize_(maximize) {
    if (grad_scale) scale_ = the_number(*grad_scale);
    if (found_inf) is_skipped_ = Formula(g, the_number(*found_inf)) == 1;
  }

  // The kernels compute the numbers that depend on the learning rate or on the count of steps in float64.
  Formula exact(double number) const { return {g_, g_.scalar(number, ElementType::float64)}; }
  Formula exact(Value tensor) const { return {g_, g_.cast(the_number(tensor), ElementType::float64)}; }
  // The kernels read the count as float32.
  Formula count(Value steps) const { return exact(g_.cast(steps, ElementType::float32)); }

  // Begins the step of a parameter.
  void begin(Value parameter) {
    type_ = parameter.element_type();
    if (!is_floating_point(type_)) g_.refuse("the parameters must be of floating point");
  }
  Formula number(const Formula& exact) const { return {g_, g_.cast(exact, opmath_type(type_))}; }
  Formula read(Value tensor) const { return {g_, operand(g_, tensor, type_)}; }
  Formula unscaled(Value gradient) const {
    return scale_ ? read(gradient) / Formula(g_, g_.cast(*scale_, opmath_type(type_))) : read(gradient);
  }
  Formula descent(const Formula& gradient) const { return maximize_ ? -gradient : gradient; }
  // What the step makes of `before`.
  Value updated(Value before, const Formula& after) const {
    const Value value = g_.cast(after, before.element_type());
    return is_skipped_ ? where(*is_skipped_, Formula(g_, before), Formula(g_, value)) : value;
  }

 private:
  Value the_number(Value tensor) const { return g_.reshape(tensor, std::span<const Dim>()); }

  GraphBuilder& g_;
  const bool maximize_;
  std::optional<Value> scale_;
  std::optional<Formula> is_skipped_;
  ElementType type_ = ElementType::undefined;
};

// Tensors that differ in size have no meaning: the kernels read their memory side by side.
void check_lists(GraphBuilder& g, const Tensors& parameters, std::initializer_list<const Tensors*> lists) {
  for (const Tensors* list : lists) {
    if (list->size() != parameters.size()) g.refuse("its lists of tensors differ in length");
    for (size_t i = 0; i < list->size(); ++i) {
      const std::vector<Dim>& given = (*list)[i].dims();
      const std::vector<Dim>& needed = parameters[i].dims();
      const auto fits = [](const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a == b; };
      if (!std::ranges::equal(given, needed, fits)) g.refuse("a tensor has another size than its parameter");
    }
  }
}

// The tensors of one list after the other. An optional last list is not among the call's results.
Tensors joined(GraphBuilder& g, std::initializer_list<const Tensors*> lists) {
  Tensors all;
  for (const Tensors* list : lists) all.insert(all.end(), list->begin(), list->end());
  all.resize(g.result_count());
  return all;
}

enum class Decay : uint8_t { of_gradient, of_parameter };

template <Decay decay, class Rate>
Tensors adam(GraphBuilder& g, Tensors parameters, Tensors gradients, Tensors means, Tensors squares,
             Tensors greatest, const Tensors& steps, Rate lr, double beta1, double beta2, double weight_decay,
             double eps, bool amsgrad, bool maximize, std::optional<Value> grad_scale,
             std::optional<Value> found_inf) {
  check_lists(g, parameters, {&gradients, &means, &squares});
  if (amsgrad) check_lists(g, parameters, {&greatest});
  if (steps.size() != parameters.size() || (!amsgrad && !greatest.empty()))
    g.refuse("its lists of tensors differ in length");
  Step step(g, grad_scale, found_inf, maximize);
  const Formula rate = step.exact(lr);
  for (size_t i = 0; i < parameters.size(); ++i) {
    step.begin(parameters[i]);
    const Formula count = step.count(steps[i]);
    const auto correction = [&](double beta) { return 1 - node("Pow", step.exact(beta), count); };
    Formula parameter = step.read(parameters[i]);
    const Formula unscaled = step.unscaled(gradients[i]);
    Formula gradient = step.descent(unscaled);
    if (weight_decay != 0 && decay == Decay::of_gradient) gradient = gradient + parameter * weight_decay;
    if (weight_decay != 0 && decay == Decay::of_parameter)
      parameter = parameter - step.number(rate * weight_decay) * parameter;
    const Formula mean = step.read(means[i]) * beta1 + gradient * (1 - beta1);
    const Formula square = step.read(squares[i]) * beta2 + gradient * gradient * (1 - beta2);
    const Formula largest = amsgrad ? max(step.read(greatest[i]), square) : square;
    const Formula deviation = sqrt(largest) / step.number(sqrt(correction(beta2))) + eps;
    const Formula moved = parameter - step.number(rate / correction(beta1)) * mean / deviation;
    parameters[i] = step.updated(parameters[i], moved);
    gradients[i] = step.updated(gradients[i], unscaled);
    means[i] = step.updated(means[i], mean);
    squares[i] = step.updated(squares[i], square);
    if (amsgrad) greatest[i] = step.updated(greatest[i], largest);
  }
  return joined(g, {&parameters, &gradients, &means, &squares, &greatest});
}

template <class Rate>
Tensors sgd(GraphBuilder& g, Tensors parameters, Tensors gradients, Tensors buffers, double weight_decay,
            double momentum, Rate lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
            std::optional<Value> grad_scale, std::optional<Value> found_inf) {
  check_lists(g, parameters, {&gradients});
  if (momentum != 0) check_lists(g, parameters, {&buffers});
  if (momentum == 0 && !buffers.empty()) g.refuse("without momentum it takes no buffers");
  Step step(g, grad_scale, found_inf, maximize);
  const Formula rate = step.exact(lr);
  for (size_t i = 0; i < parameters.size(); ++i) {
    step.begin(parameters[i]);
    const Formula parameter = step.read(parameters[i]);
    const Formula unscaled = step.unscaled(gradients[i]);
    Formula gradient = step.descent(unscaled);
    if (weight_decay != 0) gradient = gradient + parameter * weight_decay;
    if (momentum != 0) {
      const Formula buffer =
          is_first_step ? gradient : step.read(buffers[i]) * momentum + gradient * (1 - dampening);
      gradient = nesterov ? gradient + buffer * momentum : buffer;
      buffers[i] = step.updated(buffers[i], buffer);
    }
    parameters[i] = step.updated(parameters[i], parameter - gradient * step.number(rate));
    gradients[i] = step.updated(gradients[i], unscaled);
  }
  return joined(g, {&parameters, &gradients, &buffers});
}

template <class Rate>
Tensors adagrad(GraphBuilder& g, Tensors parameters, Tensors gradients, Tensors sums, const Tensors& steps,
                Rate lr, double lr_decay, double weight_decay, double eps, bool maximize,
                std::optional<Value> grad_scale, std::optional<Value> found_inf) {
  check_lists(g, parameters, {&gradients, &sums});
  if (steps.size() != parameters.size()) g.refuse("its lists of tensors differ in length");
  Step step(g, grad_scale, found_inf, maximize);
  for (size_t i = 0; i < parameters.size(); ++i) {
    step.begin(parameters[i]);
    const Formula rate = step.exact(lr) / (1 + (step.count(steps[i]) - 1) * lr_decay);
    const Formula parameter = step.read(parameters[i]);
    const Formula unscaled = step.unscaled(gradients[i]);
    Formula gradient = step.descent(unscaled);
    if (weight_decay != 0) gradient = gradient + parameter * weight_decay;
    const Formula sum = step.read(sums[i]) + gradient * gradient;
    parameters[i] = step.updated(parameters[i], parameter - step.number(rate) * gradient / (sqrt(sum) + eps));
    gradients[i] = step.updated(gradients[i], unscaled);
    sums[i] = step.updated(sums[i], sum);
  }
  return joined(g, {&parameters, &gradients, &sums, &steps});
}

Tensors unscale(GraphBuilder& g, Tensors gradients, Value found_inf, Value inv_scale) {
  Formula found(g, found_inf);
  for (Value& gradient : gradients) {
    const ElementType type = gradient.element_type();
    if (!is_floating_point(type)) g.refuse("the gradients must be of floating point");
    const Formula scaled(g, operand(g, gradient, type));
    const Formula is_finite = abs(scaled) < INFINITY;
    const Value counted = g.reduce("ReduceSum", where(is_finite, Formula::number(0, found), 1), {}, false);
    found = where(Formula(g, counted) > 0, 1, found);
    const Value factor = g.cast(g.reshape(inv_scale, std::span<const Dim>()), opmath_type(type));
    gradient = g.cast(scaled * Formula(g, factor), type);
  }
  gradients.push_back(found);
  return gradients;
}

// The scale, and the number of steps since it changed.
std::array<Value, 2> update_scale(GraphBuilder& g, Value self, Value growth_tracker, Value found_inf,
                                  double growth, double backoff, int64_t interval) {
  const Formula scale(g, self), steps = Formula(g, growth_tracker) + 1;
  const Formula backs_off(g, g.cast(g.reshape(found_inf, std::span<const Dim>()), ElementType::boolean));
  const auto times = [&](double factor) {
    const Formula exact(g, g.cast(self, ElementType::float64));
    return Formula(g, g.cast(exact * factor, ElementType::float32));
  };
  const Formula grows(
      g, g.op("Equal", g.cast(steps, ElementType::int64), g.scalar(interval, ElementType::int64)));
  const Formula grown = times(growth);
  const Formula new_scale =
      where(backs_off, times(backoff), where(grows && abs(grown) < INFINITY, grown, scale));
  return {g.reshape(new_scale, self.dims()),
          g.reshape(where(backs_off || grows, 0, steps), growth_tracker.dims())};
}

}  // namespace

void register_optimizers(SymbolicRegistry& registry) {
  auto on = add(registry);
  const auto adam_line = [](const std::string& name, const std::string& rate) {
    return "aten::" + name +
           "(Tensor[] self, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, "
           "Tensor[] max_exp_avg_sqs, Tensor[] state_steps, *, " +
           rate +
           " lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
           "Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, "
           "Tensor[] exp_avgs_out, Tensor[] exp_avg_sqs_out, Tensor[] max_exp_avg_sqs_out)";
  };
  on(adam_line("_fused_adam", "float"), Since{11}, adam<Decay::of_gradient, double>);
  on(adam_line("_fused_adam.tensor_lr", "Tensor"), Since{11}, adam<Decay::of_gradient, Value>);
  on(adam_line("_fused_adamw", "float"), Since{11}, adam<Decay::of_parameter, double>);
  on(adam_line("_fused_adamw.tensor_lr", "Tensor"), Since{11}, adam<Decay::of_parameter, Value>);
  const auto sgd_line = [](const std::string& name, const std::string& rate) {
    return "aten::" + name +
           "(Tensor[] self, Tensor[] grads, Tensor[] momentum_buffer_list, *, float weight_decay, "
           "float momentum, " +
           rate +
           " lr, float dampening, bool nesterov, bool maximize, bool is_first_step, "
           "Tensor? grad_scale=None, Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, "
           "Tensor[] momentum_buffer_list_out)";
  };
  on(sgd_line("_fused_sgd", "float"), Since{11}, sgd<double>);
  on(sgd_line("_fused_sgd.tensor_lr", "Tensor"), Since{11}, sgd<Value>);
  const auto adagrad_line = [](const std::string& name, const std::string& rate, const std::string& more) {
    return "aten::" + name +
           "(Tensor[] self, Tensor[] grads, Tensor[] state_sums, Tensor[] state_steps, *, " + rate +
           " lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, "
           "Tensor? found_inf=None) -> (Tensor[] self_out, Tensor[] grads_out, Tensor[] state_sums_out" +
           more + ")";
  };
  on(adagrad_line("_fused_adagrad", "float", ", Tensor[] state_steps_out"), Since{11}, adagrad<double>);
  on(adagrad_line("_fused_adagrad.tensor_lr", "Tensor", ""), Since{11}, adagrad<Value>);

  on("aten::_amp_foreach_non_finite_check_and_unscale(Tensor[] self, Tensor found_inf, Tensor inv_scale) -> "
     "(Tensor[] self_out, Tensor found_inf_out)",
     Since{11}, unscale);
  on("aten::_amp_update_scale(Tensor self, Tensor growth_tracker, Tensor found_inf, "
     "float scale_growth_factor, float scale_backoff_factor, int growth_interval) -> "
     "(Tensor, Tensor growth_tracker_out)",
     Since{11}, update_scale);
}

}  // namespace opbridge::lowering
