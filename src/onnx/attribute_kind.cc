#include "onnx/attribute_kind.h"

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace opbridge::onnx {
namespace {

struct KindOf {
  using Kind = AttributeKind;
  Kind operator()(bool) const { return Kind::int_; }
  Kind operator()(int64_t) const { return Kind::int_; }
  Kind operator()(ElementType) const { return Kind::int_; }
  Kind operator()(const Dim& value) const { return value.is_static() ? Kind::int_ : Kind::undefined; }
  Kind operator()(double) const { return Kind::float_; }
  Kind operator()(const std::string&) const { return Kind::string; }
  Kind operator()(const std::shared_ptr<const ir::Weight>& value) const {
    return value ? Kind::tensor : Kind::undefined;
  }
  Kind operator()(const std::shared_ptr<const ir::SparseTensor>& value) const {
    return value ? Kind::sparse_tensor : Kind::undefined;
  }
  Kind operator()(const ir::GraphPtr& value) const { return value ? Kind::graph : Kind::undefined; }
  Kind operator()(const ir::Type& value) const {
    return has_type_proto(value) ? Kind::type_proto : Kind::undefined;
  }

  Kind operator()(const std::vector<bool>&) const { return Kind::ints; }
  Kind operator()(const std::vector<int64_t>&) const { return Kind::ints; }
  Kind operator()(const std::vector<Dim>& values) const { return all(values, Kind::ints); }
  Kind operator()(const std::vector<double>&) const { return Kind::floats; }
  Kind operator()(const std::vector<std::string>&) const { return Kind::strings; }
  Kind operator()(const std::vector<std::shared_ptr<const ir::Weight>>& values) const {
    return all(values, Kind::tensors);
  }
  Kind operator()(const std::vector<std::shared_ptr<const ir::SparseTensor>>& values) const {
    return all(values, Kind::sparse_tensors);
  }
  Kind operator()(const std::vector<ir::GraphPtr>& values) const { return all(values, Kind::graphs); }
  Kind operator()(const std::vector<ir::Type>& values) const { return all(values, Kind::type_protos); }

  template <class Other>
  Kind operator()(const Other&) const {
    return Kind::undefined;
  }

 private:
  template <class T>
  Kind all(const std::vector<T>& values, Kind kind) const {
    const bool held =
        std::ranges::all_of(values, [&](const T& value) { return (*this)(value) != Kind::undefined; });
    return held ? kind : Kind::undefined;
  }
};

}  // namespace

AttributeKind kind_of(const ir::AttributeValue& value) { return std::visit(KindOf(), value); }

bool has_type_proto(const ir::Type& type) {
  if (const auto* tensor = std::get_if<ir::TensorType>(&type)) {
    return tensor->element_type != ElementType::undefined;
  }
  if (const auto* list = std::get_if<ir::ListType>(&type)) {
    return !list->elements.empty() && has_type_proto(list->elements.front()) &&
           std::ranges::all_of(list->elements, [&](const ir::TensorType& element) {
             return element.element_type == list->elements.front().element_type;
           });
  }
  return true;
}

}  // namespace opbridge::onnx
