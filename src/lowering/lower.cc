// Stage: torch-level graph → ONNX graph, by the symbolic function of each node.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "builder/not_constant.h"
#include "builder/stage.h"
#include "ir/inconsistent.h"
#include "ir/queries.h"
#include "lowering/common.h"
#include "lowering/complex/complex.h"
#include "lowering/diagnosis.h"
#include "lowering/missing.h"
#include "onnx/schema_table.h"
#include "opbridge/convert.h"
#include "support/unique_name.h"

namespace opbridge {
namespace {

// Two shapes of one element each are compatible: PyTorch's own shape of a loss of one sample is wrong.
bool contradict(std::span<const Dim> a, std::span<const Dim> b) {
  if (lowering::element_count(a).is(1) && lowering::element_count(b).is(1)) return false;
  return !std::ranges::equal(a, b, [](const Dim& x, const Dim& y) {
    return !x.is_static() || !y.is_static() || x.value() == y.value();
  });
}

// The lower bounds of the symbols of inputs.
using LeastSizes = std::unordered_map<std::string, int64_t>;

// Whether PyTorch's size is a constant only because PyTorch assumes that no input size is 0, although one may
// be.
bool ignores_zero(std::span<const Dim> torch, std::span<const Dim> made, const LeastSizes& least) {
  if (torch.size() != made.size()) return false;
  return !std::ranges::equal(torch, made, [&](const Dim& x, const Dim& y) {
    if (!x.is_static() || y.is_static()) return true;
    const std::vector<std::string> symbols = y.symbols();
    const bool is_known =
        std::ranges::all_of(symbols, [&](const auto& name) { return least.contains(name); });
    const bool may_be_zero =
        is_known && std::ranges::any_of(symbols, [&](const auto& name) { return least.at(name) == 0; });
    return !may_be_zero || y.evaluate([&](const std::string& name) { return least.at(name); }) == x.value();
  });
}

bool is_complex_tensor(const ir::Value& value) { return is_complex(ir::as_tensor_type(value).element_type); }

class Lowering final : public ValueMap, public BodyLowering {
 public:
  Lowering(const ir::Graph& source, const SymbolicRegistry& registry, const ConvertOptions& options)
      : source_(source),
        registry_(registry),
        options_(options),
        g_(model_.graph, options.opset),
        complex_(g_, *this, *this),
        report_(registry, options) {
    model_.opset = options.opset;
    model_.graph.name = source.name;
  }

  OnnxModel run() {
    lower_all();
    if (!report_.empty()) report_.raise();
    declare_outputs();
    model_.functions = BuilderStage(g_).functions();
    return std::move(model_);
  }

  LoweringDiagnosis diagnose() {
    LoweringDiagnosis result{{}, {}, MissingReport(registry_, options_)};
    log_ = &result.log;
    lower_all();
    model_.functions = BuilderStage(g_).functions();
    result.model = std::move(model_);
    result.report = std::move(report_);
    return result;
  }

  Value operator[](const ir::Value* value) const override {
    const auto found = values_.find(value);
    if (found != values_.end()) return found->second;
    const ir::Node* maker = value->producer;
    if (maker == nullptr)
      throw Error(ErrorCode::internal, "value " + value->name + " is used before it is made");
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the program uses result {} of {}, which no mapping computes", maker->op,
                            std::ranges::find(maker->outputs, value) - maker->outputs.begin() + 1,
                            maker->outputs.size()),
                maker->source.line);
  }

  std::vector<Value> lower_body(const ir::Graph& body, GraphBuilder& g,
                                std::span<const Value> inputs) override {
    if (inputs.size() != body.inputs.size()) {
      g.refuse(fmt::format("a body with {} inputs is called with {}", body.inputs.size(), inputs.size()));
    }
    GraphBuilder scope = BuilderStage(g).scope();
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_[body.inputs[i]] = inputs[i];
      bind_symbols(*body.inputs[i], scope);
    }
    for (const ir::Value* weight : body.initializers)
      values_[weight] =
          model_.graph.add_initializer(BuilderStage(scope).unique_name(weight->name), *weight->weight);
    for (const ir::Node* node : body.nodes) lower_node(*node, scope);
    std::vector<Value> outputs;
    for (const ir::Value* output : body.outputs) outputs.push_back((*this)[output]);
    return outputs;
  }

 private:
  void lower_all() {
    reserve_symbols(source_);
    declare_inputs();
    for (const ir::Node* node : source_.nodes) lower_node(*node, g_);
  }

  // Reserves the names of the program's symbols, so that no new symbol gets one of them.
  void reserve_symbols(const ir::Graph& graph) {
    const auto reserve = [&](const ir::Value& value) {
      const auto* type = std::get_if<ir::TensorType>(&value.type);
      if (!type || !type->dims) return;
      for (const Dim& dim : *type->dims) {
        if (dim.is_static() || !reserved_.insert(dim.expr().get()).second) continue;
        for (const std::string& symbol : dim.symbols()) BuilderStage(g_).reserve_symbol(symbol);
      }
    };
    for (const ir::Value* input : graph.inputs) reserve(*input);
    for (const ir::Node* node : graph.nodes) {
      for (const ir::Value* output : node->outputs) reserve(*output);
      for (const ir::GraphPtr& body : node->bodies()) reserve_symbols(*body);
    }
  }

  void declare_inputs() {
    // The names of inputs and outputs come first, so that nothing else gets them.
    for (const ir::Value* input : source_.inputs) {
      BuilderStage(g_).reserve_name(input->name);
      values_[input] = model_.graph.add_input(input->name, lowering::in_pairs(ir::as_tensor_type(*input)));
    }
    name_outputs();
    for (const ir::Value* weight : source_.initializers) {
      values_[weight] = model_.graph.add_initializer(BuilderStage(g_).unique_name(weight->name),
                                                     lowering::in_pairs(*weight->weight));
    }
    for (const ir::Value* input : source_.inputs) {
      bind_symbols(*input, g_);
      for (const Dim& dim : ir::as_tensor_type(*input).dims.value_or(std::vector<Dim>())) {
        if (!dim.is_static() && dim.expr()->kind == Expr::Kind::symbol && dim.least())
          least_sizes_.emplace(dim.str(), *dim.least());
      }
    }
    for (const auto* values : {&source_.inputs, &source_.initializers}) {
      for (const ir::Value* value : *values) {
        if (is_complex_tensor(*value)) complex_.set_pairs(value, values_.at(value));
      }
    }
  }

  void bind_symbols(const ir::Value& value, GraphBuilder& g) {
    if (const auto* scalar = std::get_if<ir::ScalarType>(&value.type)) {
      const ExprPtr& expr = scalar->value.expr();
      if (scalar->element_type == ElementType::int64 && expr && expr->kind == Expr::Kind::symbol)
        g.bind_symbol(expr->name, values_.at(&value));
    } else {
      g.bind_dims(values_.at(&value));
    }
  }

  // The copying form of a view operator (`aten::view_copy`) has the mapping of the view.
  const Symbolic* find(const std::string& op) const {
    const Symbolic* symbolic = registry_.find(op, options_.opset);
    return symbolic ? symbolic : registry_.find(torch::without_copy(op), options_.opset);
  }

  void lower_node(const ir::Node& node, GraphBuilder& g) {
    const Symbolic* symbolic = find(node.op);
    const size_t before = BuilderStage(g).graph().nodes.size();
    const bool is_complex = lowering::ComplexLowering::concerns(node);
    bool refused = false;
    if (!symbolic && !is_complex) {
      report_.add_missing(node);
      give_up(node, g);
    } else {
      try {
        ir::of_consistent_call(
            node, [&] { is_complex ? lower_complex(node, symbolic, g) : lower_real(node, *symbolic, g); });
      } catch (const Error& error) {
        if (error.code() == ErrorCode::internal) throw;
        refused = true;
        report_.add_refused(node, error);
        give_up(node, g);
      }
    }
    BuilderStage(is_complex ? g_ : g).set_call(nullptr, {});
    if (log_) {
      const std::optional<Origin> bundled = is_complex ? std::optional(Origin::bundled) : std::nullopt;
      log_->add(node, symbolic ? symbolic->origin : bundled, refused,
                std::span(BuilderStage(g).graph().nodes).subspan(before));
    }
  }

  // The mappings that opbridge ships rely on the shapes that PyTorch gave.
  static void check_ranks(const ir::Node& node) {
    for (const ir::Value* output : node.outputs) {
      const auto* type = std::get_if<ir::TensorType>(&output->type);
      if (type != nullptr && type->element_type != ElementType::undefined && !type->ranked())
        throw Error(ErrorCode::unsupported,
                    fmt::format("{}: the program does not say of which rank its result is", node.op),
                    node.source.line);
    }
  }

  void lower_real(const ir::Node& node, const Symbolic& symbolic, GraphBuilder& g) {
    if (symbolic.origin == Origin::bundled) check_ranks(node);
    BuilderStage(g).set_call(&node, symbolic.label.empty() ? symbolic.key : symbolic.label,
                             symbolic.origin == Origin::bundled);
    std::vector<const ir::AttributeValue*> arguments;
    if (symbolic.schema) {
      arguments = bind(*symbolic.schema, node);
    } else {
      for (const ir::Attribute& attribute : node.attributes) arguments.push_back(&attribute.value);
    }
    try {
      accept(node, g, symbolic.function(SymbolicCall{g, arguments, *this, node, *this}), symbolic.origin);
    } catch (const NotConstant& error) {
      g.refuse(
          fmt::format("{} is computed from sizes or data when the model runs, but this mapping needs a "
                      "constant; compute the function with tensors, or make the size constant",
                      name_of_argument(node, error.number())));
    }
  }

  // The argument of a call that is `number`, which is known only when the model runs.
  std::string name_of_argument(const ir::Node& node, const Scalar& number) const {
    const Dim* const size = std::get_if<Dim>(&number.get());
    const Value* const computed = std::get_if<Value>(&number.get());
    for (const auto& [name, argument] : node.attributes) {
      const Dim* const dim = std::get_if<Dim>(&argument);
      ir::Value* const* const value = std::get_if<ir::Value*>(&argument);
      if (size && dim && *size == *dim) return name;
      if (computed && value && *value && (*this)[*value].get() == computed->get()) return name;
    }
    return "a number";
  }

  void lower_complex(const ir::Node& node, const Symbolic* symbolic, GraphBuilder& g) {
    if (&g != &g_) g.refuse("complex numbers inside branches and loops are not supported");
    check_ranks(node);
    if (symbolic && symbolic->schema) bind(*symbolic->schema, node);  // checks the arguments
    const std::vector<lowering::Complex> results = complex_.lower(node, symbolic);
    std::vector<Value> real;
    for (const lowering::Complex& result : results) real.push_back(result.re);
    for (size_t i = 0; i < std::min(results.size(), node.outputs.size()); ++i) {
      if (!is_complex_tensor(*node.outputs[i]) || !results[i].re) continue;
      for (Value part : {results[i].re, results[i].im}) {
        const ir::TensorType& type = node.outputs[i]->tensor_type();
        if (!part)
          g.refuse(fmt::format("the mapping gives real numbers, PyTorch gives {}", name(type.element_type)));
        if (part.element_type() != lowering::part_type(type.element_type))
          g.refuse(fmt::format("the mapping gives parts of {}", name(part.element_type())));
        if (type.ranked() && part.get()->producer)
          std::get<ir::TensorType>(part.get()->type).dims = type.dims;
      }
      complex_.set(node.outputs[i], results[i]);
      values_[node.outputs[i]] = results[i].re;
      bind_symbols(*node.outputs[i], g_);
      real[i] = Value();
    }
    accept(node, g_, real, Origin::bundled);
  }

  void accept(const ir::Node& node, GraphBuilder& g, const std::vector<Value>& results, Origin origin) {
    if (results.size() != node.outputs.size()) {
      g.refuse(fmt::format("the mapping returns {} values, PyTorch returns {}", results.size(),
                           node.outputs.size()));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const ir::Value& expected = *node.outputs[i];
      if (!results[i]) continue;  // operator[] refuses its use
      const ir::TensorType type = ir::as_tensor_type(expected);
      ir::TensorType& made = std::get<ir::TensorType>(results[i].get()->type);
      if (type.element_type == ElementType::undefined) {
        values_[&expected] = results[i];
        continue;
      }
      if (made.element_type == ElementType::undefined) made.element_type = type.element_type;
      Value result = results[i];
      if (made.element_type != type.element_type) {
        // A user's mapping that returns another type than PyTorch would make later nodes silently wrong.
        g.refuse(fmt::format("the mapping gives {}, PyTorch gives {}", name(made.element_type),
                             name(type.element_type)));
      }
      if (type.ranked() && made.ranked() && contradict(*type.dims, *made.dims)) {
        g.refuse(fmt::format("the mapping gives {}, PyTorch gives {}", ir::str(ir::Type(made)),
                             ir::str(ir::Type(type))));
      }
      if (type.ranked() && made.ranked() && ignores_zero(*type.dims, *made.dims, least_sizes_)) {
        g.refuse(fmt::format(
            "the result is {}, but PyTorch gives {} because it assumes that no size is 0; pass an example "
            "that has elements",
            ir::str(ir::Type(made)), ir::str(ir::Type(type))));
      }
      if (type.ranked() && result.get()->producer) made.dims = merged_dims(*type.dims, made.dims, origin);
      values_[&expected] = result;
      bind_symbols(expected, g);
    }
  }

  // PyTorch's dims, except for dims that a user's function declares as symbolic (sizes that depend on data).
  static std::vector<Dim> merged_dims(std::vector<Dim> dims, const std::optional<std::vector<Dim>>& made,
                                      Origin origin) {
    if (origin == Origin::user && made && made->size() == dims.size()) {
      for (size_t i = 0; i < dims.size(); ++i) {
        if (!(*made)[i].is_static()) dims[i] = (*made)[i];
      }
    }
    return dims;
  }

  // Gives the node placeholder outputs, so that the remaining nodes can be lowered and all errors reported
  // together.
  void give_up(const ir::Node& node, GraphBuilder& g) {
    for (const ir::Value* output : node.outputs) {
      if (!values_.contains(output))
        values_[output] =
            model_.graph.add_value(output->name, lowering::in_pairs(ir::as_tensor_type(*output)));
      if (is_complex_tensor(*output)) {
        ir::TensorType type = ir::as_tensor_type(*output);
        type.element_type = lowering::part_type(type.element_type);
        const Value part = model_.graph.add_value(output->name, type);
        complex_.set(output, {part, part});
      }
      bind_symbols(*output, g);
    }
  }

  // An output has the name that the user chose, or its name in the program, with a suffix if an input, a
  // weight or an earlier output has that name.
  void name_outputs() {
    support::NameCounts taken;
    for (const ir::Value* input : model_.graph.inputs) taken.try_emplace(input->name, 0);
    for (const ir::Value* weight : source_.initializers) taken.try_emplace(weight->name, 0);
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      const bool given = i < options_.output_names.size();
      const std::string& wanted = given ? options_.output_names[i] : source_.outputs[i]->name;
      std::string name = given ? wanted : support::unique_name(taken, wanted);
      taken.try_emplace(name, 0);
      BuilderStage(g_).reserve_name(name);
      output_names_.push_back(std::move(name));
    }
  }

  void declare_outputs() {
    std::unordered_set<const ir::Value*> returned;
    std::unordered_set<std::string_view> names;
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      const ir::Value* source = source_.outputs[i];
      Value value = is_complex_tensor(*source) ? complex_.pairs(source) : (*this)[source];
      if (!value.get()->producer || returned.contains(value.get())) {
        value = g_.typed(g_.op("Identity", value), value.type());
      }
      // Outputs of the user's choice may have the same name.
      const bool is_named = !names.insert(output_names_[i]).second;
      value.get()->name = is_named ? BuilderStage(g_).unique_name(output_names_[i]) : output_names_[i];
      returned.insert(value.get());
      model_.graph.outputs.push_back(value.get());
    }
  }

  const ir::Graph& source_;
  const SymbolicRegistry& registry_;
  const ConvertOptions& options_;
  OnnxModel model_;
  GraphBuilder g_;
  lowering::ComplexLowering complex_;
  MissingReport report_;
  DiagnosisLog* log_ = nullptr;  // set by diagnose()
  std::vector<std::string> output_names_;
  LeastSizes least_sizes_;
  std::unordered_set<const Expr*> reserved_;  // expressions whose symbols are reserved
  std::unordered_map<const ir::Value*, Value> values_;
};

// The domains of all nodes and functions, with their versions.
std::map<std::string, int> opset_imports(OnnxModel& model, const SymbolicRegistry& registry,
                                         const ConvertOptions& options) {
  std::map<std::string, int> imports{{"", options.opset}};
  auto add = [&](const std::string& domain, int version) {
    const auto chosen = options.custom_opsets.find(domain);
    imports.try_emplace(domain, chosen == options.custom_opsets.end() ? version : chosen->second);
  };
  for (const OnnxFunction& function : model.functions) add(function.domain, function.version);
  ir::for_each_node(model.graph, [&](ir::Graph&, ir::Node& node) {
    const std::string domain(ir::OpName(node.op).domain);
    if (!domain.empty()) add(domain, registry.domain_version(domain));
  });
  return imports;
}

void check_opset(const ConvertOptions& options) {
  if (options.opset < lowest_opset) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("opset {} is too low; the lowest is {}", options.opset, lowest_opset));
  }
  if (options.opset > onnx::newest_opset()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("opset {} is not known; the newest of onnx {} is {}", options.opset,
                            onnx::onnx_version(), onnx::newest_opset()));
  }
}

}  // namespace

OnnxModel lower(const ir::Graph& graph, const SymbolicRegistry& registry, const ConvertOptions& options) {
  check_opset(options);
  OnnxModel model = Lowering(graph, registry, options).run();
  model.opset_imports = opset_imports(model, registry, options);
  return model;
}

LoweringDiagnosis diagnose_lowering(const ir::Graph& graph, const SymbolicRegistry& registry,
                                    const ConvertOptions& options) {
  check_opset(options);
  LoweringDiagnosis result = Lowering(graph, registry, options).diagnose();
  result.model.opset_imports = opset_imports(result.model, registry, options);
  return result;
}

}  // namespace opbridge
