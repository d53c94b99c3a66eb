// Versions: all; kernels.inc holds what 1.20 and the newest both have.
// Model: Max of two int16 tensors.
// Fault: ONNX allows more element types than the CPU has kernels for; the model does not load.
// Rewrite: the node computes in a wider type, whose results cast back are the same. If there is no wider
// type, one of opbridge's operators takes its place, or the node is refused. float16 stays, because ONNX
// Runtime casts it by itself, and so do the nodes of a user's own functions.
// Tests: test_runtime_types.py, test_runtime_faults.py.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/dead_code.h"
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "onnx/schema_table.h"
#include "onnx/type_inference.h"
#include "runtimes/onnxruntime/faults.h"
#include "runtimes/onnxruntime/kernels.h"
#include "tensor/constants.h"

namespace opbridge::onnxruntime {
namespace {

constexpr size_t most_folded_bytes = 256;

// Operators whose results are elements of their inputs, so that results in a wider type are exact in the
// narrow one.
constexpr std::string_view selections[] = {
    "Clip",      "Compress",  "Concat",  "Expand",    "Flatten", "Gather",  "GatherElements",
    "GatherND",  "Identity",  "Max",     "MaxPool",   "Min",     "Pad",     "ReduceMax",
    "ReduceMin", "Relu",      "Reshape", "Slice",     "Split",   "Squeeze", "Tile",
    "TopK",      "Transpose", "Trilu",   "Unsqueeze", "Where",
};
static_assert(std::ranges::is_sorted(selections));

// Operators whose results are exact in the narrow type if that is floating point.
constexpr std::string_view exact_for_floats[] = {"Abs", "Ceil", "Floor", "Neg", "Round", "Sign"};
static_assert(std::ranges::is_sorted(exact_for_floats));

bool is_exact(const ir::Node& node, ElementType type) {
  return std::ranges::binary_search(selections, node.op) ||
         (is_floating_point(type) && std::ranges::binary_search(exact_for_floats, node.op));
}

// Operators that the runtime computes in float32 at most. opbridge has operators of these names, in lower
// case, for float64.
constexpr std::string_view own_in_float64[] = {
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Erf", "Sinh", "Tan",
};
static_assert(std::ranges::is_sorted(own_in_float64));

// For each type variable of an operator, the type to compute in, if it differs.
struct Change {
  size_t variable;
  ElementType from, to;
  bool by_attribute;  // the attribute "dtype" gives the type, not an input
};

class Fitting {
 public:
  Fitting(int opset, const runtimes::Refuse& refuse) : opset_(opset), refuse_(refuse) {}

  bool run(ir::Graph& root, ir::Names& names) {
    ir::rewrite_nodes(root, names, [&](ir::Rewriter& rewriter, ir::Node& node) { fit(rewriter, node); });
    return changed_;
  }

 private:
  void fit(ir::Rewriter& rewriter, ir::Node& node) {
    replace_by_own(node);
    const bool fits = node.source.by_user || !ir::is_standard(node);
    const onnx::OpSchema* schema = fits ? nullptr : onnx::find_schema("", node.op, opset_);
    const std::vector<Change> changes = schema ? changes_of(*schema, node) : std::vector<Change>();
    for (const Change& change : changes) {
      if (change.by_attribute) node.set("dtype", static_cast<int64_t>(change.to));
      cast_inputs(*schema, node, change, rewriter);
    }
    rewriter.append(node);
    for (const Change& change : changes) cast_outputs(*schema, node, change, rewriter);
  }

  static void replace_by_own(ir::Node& node) {
    if (node.source.by_user || !std::ranges::binary_search(own_in_float64, node.op)) return;
    if (ir::element_type(node.inputs[0]) != ElementType::float64) return;
    node.op[0] = static_cast<char>(node.op[0] - 'A' + 'a');
    node.op = "opbridge::" + node.op;
  }

  std::vector<Change> changes_of(const onnx::OpSchema& schema, const ir::Node& node) {
    std::vector<std::optional<ElementType>> types;
    for (const ir::Value* input : node.inputs) {
      const ElementType type = ir::element_type(input);
      types.push_back(type == ElementType::undefined ? std::nullopt : std::optional(type));
    }
    const onnx::TypeResolution resolution =
        onnx::resolve(schema, types, onnx::type_attribute(schema, node.attributes));
    std::vector<Change> changes;
    for (size_t variable = 0; variable < schema.types().size(); ++variable) {
      const std::optional<ElementType> type = resolution.variable(variable);
      const std::optional<onnx::TypeSet> has = kernel_types(schema, schema.types()[variable]);
      if (!type || !has || *type == ElementType::float16 || has->contains(*type)) continue;
      const std::optional<ElementType> wider = onnx::wider_type(*has, *type);
      if (!wider) {
        refuse_(
            node,
            runtimes::refusal(
                node, fmt::format("ONNX Runtime has no kernel of {} for {}; compute in another element type",
                                  node.op, name(*type))));
        return {};
      }
      bool is_input = false;
      for (size_t i = 0; i < node.inputs.size(); ++i) is_input |= schema.input(i)->type == variable;
      const bool by_attribute = !is_input && onnx::type_attribute_of(schema) == "dtype";
      if (is_input || by_attribute) changes.push_back({variable, *type, *wider, by_attribute});
    }
    return changes;
  }

  void cast_inputs(const onnx::OpSchema& schema, ir::Node& node, const Change& change,
                   ir::Rewriter& rewriter) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ir::Value*& input = node.inputs[i];
      if (input && schema.input(i)->type == change.variable)
        input = widened(input, change.to, node, rewriter);
    }
  }

  void cast_outputs(const onnx::OpSchema& schema, ir::Node& node, const Change& change,
                    ir::Rewriter& rewriter) {
    for (ir::Value*& output : node.outputs) {
      const auto index = static_cast<size_t>(&output - node.outputs.data());
      if (schema.output(index)->type != change.variable) continue;
      ir::Value* narrow = output;
      output =
          rewriter.add_value(narrow->name + ":wide", ir::TensorType{change.to, narrow->tensor_type().dims});
      output->producer = &node;
      ir::set_only_result(add_cast(output, change.from, node, rewriter), narrow);
      if (is_exact(node, change.from)) exact_[narrow] = output;
      changed_ = true;
    }
  }

  // `value` in `type`, for the node `by`.
  ir::Value* widened(ir::Value* value, ElementType type, const ir::Node& by, ir::Rewriter& rewriter) {
    if (const auto exact = exact_.find(value);
        exact != exact_.end() && ir::element_type(exact->second) == type)
      return exact->second;
    const bool folds = value->weight && value->weight->bytes.size() <= most_folded_bytes;
    const ir::Graph* where = folds ? nullptr : &rewriter.graph();
    ir::Value*& known = widened_[{where, value, type}];
    if (known) return known;
    const std::string name = value->name + ":" + std::string(opbridge::name(type));
    if (folds) {
      if (std::optional<ir::Weight> weight = tensor::convert_weight(*value->weight, type))
        return known = rewriter.add_constant(name, std::move(*weight));
    }
    return known = rewriter.add_result(add_cast(value, type, by, rewriter), name,
                                       ir::TensorType{type, value->tensor_type().dims});
  }

  static ir::Node* add_cast(ir::Value* input, ElementType to, const ir::Node& anchor,
                            ir::Rewriter& rewriter) {
    return rewriter.add(anchor, "Cast", {input}, {{"to", static_cast<int64_t>(to)}});
  }

  const int opset_;
  const runtimes::Refuse& refuse_;
  bool changed_ = false;
  std::map<std::tuple<const ir::Graph*, const ir::Value*, ElementType>, ir::Value*> widened_;
  std::unordered_map<const ir::Value*, ir::Value*> exact_;  // a result → the same in a wider type
};

}  // namespace

void fit_element_types(ir::Graph& graph, ir::Names& names, int opset, const runtimes::Refuse& refuse) {
  if (Fitting(opset, refuse).run(graph, names)) ir::remove_dead_code(graph);
}

}  // namespace opbridge::onnxruntime
