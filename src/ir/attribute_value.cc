#include "opbridge/ir.h"

namespace opbridge::ir {

AttributeValue::AttributeValue() = default;
AttributeValue::AttributeValue(const AttributeValue& other) = default;
AttributeValue::AttributeValue(AttributeValue&& other) noexcept = default;
AttributeValue& AttributeValue::operator=(const AttributeValue& other) = default;
AttributeValue& AttributeValue::operator=(AttributeValue&& other) noexcept = default;
AttributeValue::~AttributeValue() = default;

template <class T>
requires is_alternative<T, AttributeVariant> AttributeValue::AttributeValue(T value)
    : AttributeVariant(std::in_place_type<T>, std::move(value)) {}

template AttributeValue::AttributeValue(std::monostate);
template AttributeValue::AttributeValue(bool);
template AttributeValue::AttributeValue(int64_t);
template AttributeValue::AttributeValue(double);
template AttributeValue::AttributeValue(std::complex<double>);
template AttributeValue::AttributeValue(std::string);
template AttributeValue::AttributeValue(Dim);
template AttributeValue::AttributeValue(ElementType);
template AttributeValue::AttributeValue(Opaque);
template AttributeValue::AttributeValue(Value*);
template AttributeValue::AttributeValue(std::vector<bool>);
template AttributeValue::AttributeValue(std::vector<int64_t>);
template AttributeValue::AttributeValue(std::vector<double>);
template AttributeValue::AttributeValue(std::vector<std::string>);
template AttributeValue::AttributeValue(std::vector<Dim>);
template AttributeValue::AttributeValue(std::vector<Value*>);
template AttributeValue::AttributeValue(std::shared_ptr<const Weight>);
template AttributeValue::AttributeValue(std::vector<std::shared_ptr<const Weight>>);
template AttributeValue::AttributeValue(std::shared_ptr<const SparseTensor>);
template AttributeValue::AttributeValue(std::vector<std::shared_ptr<const SparseTensor>>);
template AttributeValue::AttributeValue(GraphPtr);
template AttributeValue::AttributeValue(std::vector<GraphPtr>);
template AttributeValue::AttributeValue(Type);
template AttributeValue::AttributeValue(std::vector<Type>);

}  // namespace opbridge::ir
