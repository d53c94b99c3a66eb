// Versions: all that were tried, 1.20 to 1.32.
// Model: ScatterND with a reduction, of many updates at equal indices.
// Fault: several threads write without a lock, and some updates are lost.
// Rewrite: a ScatterElements of the rows of the flattened data, which one thread writes.
// Tests: test_runtime_faults.py, test_additions_at_equal_indices_are_not_lost.
#include <algorithm>
#include <span>

#include "lowering/common.h"
#include "runtimes/onnxruntime/replacements.h"

namespace opbridge::onnxruntime {

Value scattered_by_one_thread(GraphBuilder& g, const ir::Node& scatter) {
  const auto attribute = std::ranges::find(scatter.attributes, "reduction", &ir::Attribute::name);
  if (attribute == scatter.attributes.end()) return {};
  const auto* reduction = std::get_if<std::string>(&attribute->value);
  Value data(scatter.inputs[0]), indices(scatter.inputs[1]), updates(scatter.inputs[2]);
  if (!reduction || *reduction == "none" || !data.ranked() || !indices.ranked()) return {};
  const Dim& depth = indices.dim(-1);
  if (!depth.is_static() || depth.value() == 0) return {};
  const std::vector<Dim> dims = data.dims();
  Value row;
  for (int64_t axis = 0; axis < depth.value(); ++axis) {
    Value size = g.size(dims[axis]), index = g.gather(indices, g.scalar(axis, ElementType::int64), -1);
    Value is_negative = g.op("Less", index, g.scalar(0, ElementType::int64));
    index = g.op("Where", is_negative, g.op("Add", index, size), index);
    row = row ? g.op("Add", g.op("Mul", row, size), index) : index;
  }
  const Dim rows = lowering::element_count(std::span(dims).first(depth.value())),
            width = lowering::element_count(std::span(dims).subspan(depth.value()));
  const std::vector<Dim> shape{lowering::element_count(row), width};
  row = g.expand(g.reshape(row, {shape[0], Dim(1)}), shape);
  Value written = g.op("ScatterElements", g.reshape(data, {rows, width}), row, g.reshape(updates, shape),
                       attr("axis", 0), attr("reduction", *reduction));
  return g.reshape(written, dims);
}

}  // namespace opbridge::onnxruntime
