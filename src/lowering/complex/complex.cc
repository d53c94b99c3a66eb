#include "lowering/complex/complex.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "lowering/common.h"
#include "lowering/complex/complex_call.h"
#include "lowering/complex/complex_functions.h"

namespace opbridge::lowering {
namespace {

using namespace std::string_view_literals;

// Operators that are linear, and those that only move elements: what they make of the parts are the parts of
// the result. Sorted.
constexpr std::array mapped_by_parts = {"aten::_conj_copy"sv,
                                        "aten::_unsafe_index"sv,
                                        "aten::_unsafe_index_put"sv,
                                        "aten::_unsafe_view"sv,
                                        "aten::add"sv,
                                        "aten::alias"sv,
                                        "aten::as_strided"sv,
                                        "aten::as_strided_scatter"sv,
                                        "aten::atleast_1d"sv,
                                        "aten::atleast_2d"sv,
                                        "aten::atleast_3d"sv,
                                        "aten::block_diag"sv,
                                        "aten::broadcast_tensors"sv,
                                        "aten::broadcast_to"sv,
                                        "aten::cartesian_prod"sv,
                                        "aten::cat"sv,
                                        "aten::channel_shuffle"sv,
                                        "aten::chunk"sv,
                                        "aten::clone"sv,
                                        "aten::column_stack"sv,
                                        "aten::combinations"sv,
                                        "aten::concat"sv,
                                        "aten::concatenate"sv,
                                        "aten::constant_pad_nd"sv,
                                        "aten::contiguous"sv,
                                        "aten::copy"sv,
                                        "aten::cumsum"sv,
                                        "aten::detach"sv,
                                        "aten::diag"sv,
                                        "aten::diag_embed"sv,
                                        "aten::diagflat"sv,
                                        "aten::diagonal"sv,
                                        "aten::diagonal_scatter"sv,
                                        "aten::diff"sv,
                                        "aten::dsplit"sv,
                                        "aten::dstack"sv,
                                        "aten::embedding"sv,
                                        "aten::expand"sv,
                                        "aten::expand_as"sv,
                                        "aten::fft_fftshift"sv,
                                        "aten::fft_ifftshift"sv,
                                        "aten::fill"sv,
                                        "aten::flatten"sv,
                                        "aten::flip"sv,
                                        "aten::fliplr"sv,
                                        "aten::flipud"sv,
                                        "aten::full"sv,
                                        "aten::full_like"sv,
                                        "aten::gather"sv,
                                        "aten::hsplit"sv,
                                        "aten::hstack"sv,
                                        "aten::index"sv,
                                        "aten::index_add"sv,
                                        "aten::index_copy"sv,
                                        "aten::index_fill"sv,
                                        "aten::index_put"sv,
                                        "aten::index_select"sv,
                                        "aten::lift_fresh"sv,
                                        "aten::linalg_diagonal"sv,
                                        "aten::mT"sv,
                                        "aten::masked_fill"sv,
                                        "aten::masked_scatter"sv,
                                        "aten::masked_select"sv,
                                        "aten::mean"sv,
                                        "aten::meshgrid"sv,
                                        "aten::movedim"sv,
                                        "aten::moveaxis"sv,
                                        "aten::nan_to_num"sv,
                                        "aten::narrow"sv,
                                        "aten::neg"sv,
                                        "aten::negative"sv,
                                        "aten::new_full"sv,
                                        "aten::numpy_T"sv,
                                        "aten::pad"sv,
                                        "aten::permute"sv,
                                        "aten::pixel_shuffle"sv,
                                        "aten::pixel_unshuffle"sv,
                                        "aten::positive"sv,
                                        "aten::put"sv,
                                        "aten::ravel"sv,
                                        "aten::repeat"sv,
                                        "aten::repeat_interleave"sv,
                                        "aten::reshape"sv,
                                        "aten::reshape_as"sv,
                                        "aten::resolve_conj"sv,
                                        "aten::resolve_neg"sv,
                                        "aten::roll"sv,
                                        "aten::rot90"sv,
                                        "aten::row_stack"sv,
                                        "aten::scatter"sv,
                                        "aten::scatter_add"sv,
                                        "aten::select"sv,
                                        "aten::select_scatter"sv,
                                        "aten::slice"sv,
                                        "aten::slice_scatter"sv,
                                        "aten::split"sv,
                                        "aten::split_with_sizes"sv,
                                        "aten::squeeze"sv,
                                        "aten::stack"sv,
                                        "aten::sub"sv,
                                        "aten::subtract"sv,
                                        "aten::sum"sv,
                                        "aten::swapaxes"sv,
                                        "aten::swapdims"sv,
                                        "aten::t"sv,
                                        "aten::take"sv,
                                        "aten::take_along_dim"sv,
                                        "aten::tensor_split"sv,
                                        "aten::tile"sv,
                                        "aten::to"sv,
                                        "aten::_to_copy"sv,
                                        "aten::trace"sv,
                                        "aten::transpose"sv,
                                        "aten::tril"sv,
                                        "aten::triu"sv,
                                        "aten::type_as"sv,
                                        "aten::unbind"sv,
                                        "aten::unflatten"sv,
                                        "aten::unfold"sv,
                                        "aten::unsafe_chunk"sv,
                                        "aten::unsafe_split"sv,
                                        "aten::unsafe_split_with_sizes"sv,
                                        "aten::unsqueeze"sv,
                                        "aten::view"sv,
                                        "aten::view_as"sv,
                                        "aten::vsplit"sv,
                                        "aten::vstack"sv,
                                        "aten::where"sv,
                                        "aten::zeros"sv,
                                        "aten::zeros_like"sv,
                                        "aten::new_zeros"sv,
                                        "aten::_chunk_cat"sv,
                                        "aten::_unsafe_masked_index"sv,
                                        "aten::_unsafe_masked_index_put_accumulate"sv,
                                        "aten::col2im"sv,
                                        "aten::gradient"sv,
                                        "aten::im2col"sv,
                                        "aten::linspace"sv,
                                        "aten::native_channel_shuffle"sv,
                                        "aten::scalar_tensor"sv,
                                        "aten::sum_to_size"sv,
                                        "aten::zero"sv,
                                        "aten::rsub"sv};

// Operators whose mapping takes and returns complex tensors as pairs; the Fourier transforms too. Sorted.
constexpr std::array mapped_in_pairs = {"aten::_linalg_det"sv,
                                        "aten::_linalg_eigh"sv,
                                        "aten::_linalg_eigvals"sv,
                                        "aten::_linalg_slogdet"sv,
                                        "aten::_linalg_solve_ex"sv,
                                        "aten::_linalg_svd"sv,
                                        "aten::_lu_with_info"sv,
                                        "aten::cholesky_inverse"sv,
                                        "aten::cholesky_solve"sv,
                                        "aten::det"sv,
                                        "aten::geqrf"sv,
                                        "aten::inverse"sv,
                                        "aten::istft"sv,
                                        "aten::linalg_cholesky"sv,
                                        "aten::linalg_cholesky_ex"sv,
                                        "aten::linalg_cond"sv,
                                        "aten::linalg_det"sv,
                                        "aten::linalg_eig"sv,
                                        "aten::linalg_eigh"sv,
                                        "aten::linalg_eigvals"sv,
                                        "aten::linalg_eigvalsh"sv,
                                        "aten::linalg_householder_product"sv,
                                        "aten::linalg_inv"sv,
                                        "aten::linalg_inv_ex"sv,
                                        "aten::linalg_ldl_factor"sv,
                                        "aten::linalg_ldl_factor_ex"sv,
                                        "aten::linalg_ldl_solve"sv,
                                        "aten::linalg_lu"sv,
                                        "aten::linalg_lu_factor"sv,
                                        "aten::linalg_lu_factor_ex"sv,
                                        "aten::linalg_lu_solve"sv,
                                        "aten::linalg_matrix_exp"sv,
                                        "aten::linalg_matrix_norm"sv,
                                        "aten::linalg_matrix_power"sv,
                                        "aten::linalg_matrix_rank"sv,
                                        "aten::linalg_matrix_sqrth"sv,
                                        "aten::linalg_norm"sv,
                                        "aten::linalg_pinv"sv,
                                        "aten::linalg_polar"sv,
                                        "aten::linalg_qr"sv,
                                        "aten::linalg_slogdet"sv,
                                        "aten::linalg_solve"sv,
                                        "aten::linalg_solve_ex"sv,
                                        "aten::linalg_solve_triangular"sv,
                                        "aten::linalg_svd"sv,
                                        "aten::linalg_svdvals"sv,
                                        "aten::linalg_tensorinv"sv,
                                        "aten::linalg_tensorsolve"sv,
                                        "aten::logdet"sv,
                                        "aten::lu_solve"sv,
                                        "aten::lu_unpack"sv,
                                        "aten::matrix_exp"sv,
                                        "aten::matrix_power"sv,
                                        "aten::nuclear_norm"sv,
                                        "aten::orgqr"sv,
                                        "aten::ormqr"sv,
                                        "aten::pinverse"sv,
                                        "aten::slogdet"sv,
                                        "aten::stft"sv,
                                        "aten::svd"sv,
                                        "aten::triangular_solve"sv};

// Operators of bools and of places, for which a number only counts as zero or not. Sorted.
constexpr std::array mapped_by_truth = {
    "aten::all"sv,         "aten::any"sv,           "aten::argwhere"sv,      "aten::count_nonzero"sv,
    "aten::logical_and"sv, "aten::logical_not"sv,   "aten::logical_or"sv,    "aten::logical_xor"sv,
    "aten::nonzero"sv,     "aten::nonzero_numpy"sv, "aten::nonzero_static"sv};
// Norms of vectors, to which a number is its size.
constexpr std::array mapped_by_size = {"aten::frobenius_norm"sv, "aten::linalg_vector_norm"sv,
                                       "aten::norm"sv};
// Operators with an argument dtype that come to be of real numbers by it.
constexpr std::array mapped_by_real_part = {"aten::log_softmax"sv, "aten::softmax"sv};
// Constants that are real.
constexpr std::array real_results = {"aten::eye"sv};

// Arguments that say where, not what: the same for both parts.
constexpr std::array place_arguments = {
    "index"sv, "indices"sv, "mask"sv, "condition"sv, "tensor_indices_or_sections"sv, "repeats"sv, "start"sv};
// Numbers that stand for an element; another number is a factor.
constexpr std::array element_arguments = {"other"sv, "value"sv, "fill_value"sv, "self"sv, "fill"sv, "s"sv};
constexpr std::array linspace_arguments = {"start"sv, "end"sv};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

std::string_view base_name(std::string_view op) {
  op = op.substr(0, op.find('.', op.find("::")));
  return op.ends_with("_copy") && op != "aten::_to_copy" && op != "aten::index_copy"
             ? op.substr(0, op.size() - 5)
             : op;
}

// The tensors of a call as they are for one part.
class PartOfValues final : public ValueMap {
 public:
  explicit PartOfValues(const ValueMap& others) : others_(others) {}
  void set(const ir::Value* value, Value part) { parts_[value] = part; }
  Value operator[](const ir::Value* value) const override {
    const auto found = parts_.find(value);
    return found == parts_.end() ? others_[value] : found->second;
  }

 private:
  const ValueMap& others_;
  std::unordered_map<const ir::Value*, Value> parts_;
};

}  // namespace

bool is_complex_value(const ir::Value* value) {
  const auto* type = value ? std::get_if<ir::TensorType>(&value->type) : nullptr;
  return type && is_complex(type->element_type);
}

void for_each_tensor(const ir::AttributeValue& argument, const std::function<void(const ir::Value*)>& visit) {
  if (const auto* one = std::get_if<ir::Value*>(&argument)) {
    visit(*one);
  } else if (const auto* list = std::get_if<std::vector<ir::Value*>>(&argument)) {
    for (const ir::Value* value : *list) visit(value);
  }
}

ElementType part_type(ElementType type) {
  if (type == ElementType::complex64) return ElementType::float32;
  return type == ElementType::complex128 ? ElementType::float64 : type;
}

ir::TensorType in_pairs(ir::TensorType type) {
  if (!is_complex(type.element_type)) return type;
  type.element_type = part_type(type.element_type);
  if (type.dims) type.dims->push_back(Dim(2));
  return type;
}

ir::Weight in_pairs(ir::Weight weight) {
  if (!is_complex(weight.element_type)) return weight;
  weight.element_type = part_type(weight.element_type);
  weight.dims.push_back(2);
  return weight;
}

bool is_in_pairs(const GraphBuilder& g, std::string_view argument) {
  const ir::AttributeValue* value = g.call()->find(argument);
  ir::Value* const* tensor = value ? std::get_if<ir::Value*>(value) : nullptr;
  return tensor && is_complex_value(*tensor);
}

bool ComplexLowering::concerns(const ir::Node& node) {
  bool found = std::ranges::any_of(node.outputs, is_complex_value);
  for (const ir::Attribute& attribute : node.attributes)
    for_each_tensor(attribute.value, [&](const ir::Value* value) { found |= is_complex_value(value); });
  return found;
}

Complex ComplexLowering::from_pairs(Value pairs, const ir::Value* value) {
  auto part = [&](int64_t i) {
    Value result = g_.gather(pairs, g_.scalar(i, ElementType::int64), -1);
    result.get()->type =
        ir::TensorType{part_type(value->tensor_type().element_type), value->tensor_type().dims};
    return result;
  };
  return {part(0), part(1)};
}

void ComplexLowering::set_pairs(const ir::Value* value, Value pairs) {
  parts_[value] = from_pairs(pairs, value);
}

Value ComplexLowering::pairs(const ir::Value* value) {
  const Complex z = parts(value);
  return g_.concat({g_.unsqueeze(z.re, {-1}), g_.unsqueeze(z.im, {-1})}, -1);
}

Complex ComplexLowering::parts(const ir::Value* value) const {
  const auto found = parts_.find(value);
  return found == parts_.end() ? Complex{values_[value], {}} : found->second;
}

// Calls the mapping for real tensors with one part of each argument.
std::vector<Value> ComplexLowering::call(const ir::Node& node, const Symbolic& symbolic,
                                         const Selector& select) {
  ir::Node* shadow = shadows_.make_node(node.op);
  shadow->name = node.name;
  shadow->source = node.source;
  const std::span<const std::string_view> elements =
      base_name(node.op) == "aten::linspace" ? std::span<const std::string_view>(linspace_arguments)
                                             : element_arguments;
  PartOfValues values(values_);
  // A tensor may come twice, each time with another part.
  auto part = [&](ir::Value* tensor, std::string_view argument, size_t index) -> ir::Value* {
    if (!tensor || (contains(place_arguments, argument) && !contains(elements, argument))) return tensor;
    const Part wanted = select(argument, index);
    if (wanted == Part::none) return nullptr;
    const Complex given = parts(tensor);
    const auto is_nonzero = [&](Value x) { return g_.cast(x, ElementType::boolean); };
    Value value = given.re;
    if (wanted == Part::imaginary) {
      value = given.im ? given.im : filled(g_, given.re.dims(), 0, given.re.element_type());
    } else if (wanted == Part::size) {
      value = absolute(g_, given);
    } else if (wanted == Part::is_nonzero) {
      value = is_nonzero(given.re);
      if (given.im) value = g_.op("Or", value, is_nonzero(given.im));
    }
    ir::Value* stand_in = shadows_.add_value(tensor->name, value.type());
    values.set(stand_in, value);
    return stand_in;
  };
  for (const ir::Attribute& attribute : node.attributes) {
    ir::AttributeValue value = attribute.value;
    const bool imaginary = select(attribute.name, 0) == Part::imaginary;
    if (auto* tensor = std::get_if<ir::Value*>(&value)) {
      *tensor = part(*tensor, attribute.name, 0);
      if (*tensor == nullptr) value = std::monostate();
    } else if (auto* list = std::get_if<std::vector<ir::Value*>>(&value)) {
      for (size_t i = 0; i < list->size(); ++i) (*list)[i] = part((*list)[i], attribute.name, i);
    } else if (const auto* number = std::get_if<std::complex<double>>(&value)) {
      value = imaginary ? number->imag() : number->real();
    } else if (imaginary && contains(elements, attribute.name) &&
               (std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value) ||
                std::holds_alternative<bool>(value))) {
      value = 0.0;
    }
    shadow->attributes.push_back({attribute.name, std::move(value)});
  }
  for (const ir::Value* output : node.outputs) {
    ir::TensorType type = output->tensor_type();
    type.element_type = part_type(type.element_type);
    shadows_.add_output_of(shadow, output->name, std::move(type));
  }
  const ir::Node* const outer = g_.call();  // which stays, where `node` was made for this call alone
  g_.set_call(shadow, symbolic.label.empty() ? symbolic.key : symbolic.label, true);
  std::vector<Value> results =
      symbolic.function(SymbolicCall{g_, bind(*symbolic.schema, *shadow), values, *shadow, bodies_});
  g_.set_call(outer, node.op, true);
  return results;
}

std::vector<Value> ComplexLowering::call(const ir::Node& node, const Symbolic& symbolic, Part part) {
  return call(node, symbolic, [part](std::string_view, size_t) { return part; });
}

std::vector<Complex> ComplexLowering::lower_by_parts(const ir::Node& node, const Symbolic& symbolic) {
  const std::vector<Value> real = call(node, symbolic, Part::real);
  std::vector<Value> imaginary(real.size());
  if (std::ranges::any_of(node.outputs, is_complex_value)) imaginary = call(node, symbolic, Part::imaginary);
  std::vector<Complex> results;
  for (size_t i = 0; i < real.size(); ++i) results.push_back({real[i], imaginary[i]});
  return results;
}

// The variance is the sum of those of the parts. The mean may be a second result.
std::vector<Complex> ComplexLowering::lower_deviation(const ir::Node& node, const Symbolic& symbolic) {
  const std::vector<Value> real = call(node, symbolic, Part::real),
                           imaginary = call(node, symbolic, Part::imaginary);
  std::vector<Complex> results;
  if (base_name(node.op).starts_with("aten::std")) {
    auto square = [&](Value x) { return g_.op("Mul", x, x); };
    results.push_back({g_.op("Sqrt", g_.op("Add", square(real[0]), square(imaginary[0]))), {}});
  } else {
    results.push_back({g_.op("Add", real[0], imaginary[0]), {}});
  }
  if (real.size() > 1) results.push_back({real[1], imaginary[1]});
  return results;
}

// Calls the mapping with each complex tensor as pairs. Its types are PyTorch's: is_in_pairs asks for them.
std::vector<Complex> ComplexLowering::call_in_pairs(const ir::Node& node, const Symbolic& symbolic) {
  PartOfValues values(values_);
  for (const ir::Attribute& attribute : node.attributes) {
    for_each_tensor(attribute.value, [&](const ir::Value* tensor) {
      if (is_complex_value(tensor)) values.set(tensor, pairs(tensor));
    });
  }
  g_.set_call(&node, symbolic.label.empty() ? symbolic.key : symbolic.label, true);
  const std::vector<Value> made =
      symbolic.function(SymbolicCall{g_, bind(*symbolic.schema, node), values, node, bodies_});
  std::vector<Complex> results;
  for (size_t i = 0; i < made.size(); ++i) {
    const bool is_pairs = made[i] && i < node.outputs.size() && is_complex_value(node.outputs[i]);
    results.push_back(is_pairs ? from_pairs(made[i], node.outputs[i]) : Complex{made[i], {}});
  }
  return results;
}

void ComplexLowering::refuse_complex(const ir::Node& node, std::string_view argument) const {
  const ir::AttributeValue* value = node.find(argument);
  if (value == nullptr) return;
  for_each_tensor(*value, [&](const ir::Value* tensor) {
    if (is_complex_value(tensor)) g_.refuse(std::string(argument) + " is complex; pass its real part");
  });
}

std::vector<Complex> ComplexLowering::lower(const ir::Node& node, const Symbolic* symbolic) {
  const std::string_view op = base_name(node.op);
  g_.set_call(&node, node.op, true);
  const ir::AttributeValue* rounding = node.find("rounding_mode");
  if (rounding && !std::holds_alternative<std::monostate>(*rounding))
    g_.refuse(std::string(unsupported_complex));
  const Call arguments(*this, g_, node);
  if (const auto special = specials().find(op); special != specials().end())
    return {special->second.function(arguments)};
  if (ComplexFunction function = complex_function(op)) return {function(g_, arguments.full("self"))};
  const ir::AttributeValue* alpha = node.find("alpha");
  const bool complex_alpha = alpha && std::holds_alternative<std::complex<double>>(*alpha);
  if (complex_alpha && (op == "aten::add" || op == "aten::sub" || op == "aten::subtract")) {
    const Complex scaled = multiply(g_, arguments["alpha"], arguments["other"]);
    return {add(g_, arguments["self"], op == "aten::add" ? scaled : negative(g_, scaled))};
  }
  const bool is_transform =
      (op.starts_with("aten::fft_") && !op.ends_with("shift")) || op.starts_with("aten::_fft_");
  const bool in_pairs = is_transform || contains(mapped_in_pairs, op);
  if (!symbolic && in_pairs) g_.refuse("needs a higher opset; Fourier transforms are in ONNX since opset 17");
  if (!symbolic || symbolic->origin == Origin::user || !symbolic->schema)
    g_.refuse(std::string(unsupported_complex));

  if (in_pairs) return call_in_pairs(node, *symbolic);

  if (const Product* product = product_of(op)) return {lower_product(node, *symbolic, *product)};
  // A complex factor is no part of a number.
  if (complex_alpha) g_.refuse("a complex alpha");
  if (op == "aten::gradient") refuse_complex(node, "spacing");
  if (contains(mapped_by_parts, op)) return lower_by_parts(node, *symbolic);
  if (contains(mapped_by_truth, op) || contains(mapped_by_size, op)) {
    std::vector<Complex> results;
    for (Value value : call(node, *symbolic, contains(mapped_by_size, op) ? Part::size : Part::is_nonzero))
      results.push_back({value, {}});
    return results;
  }
  if (contains(mapped_by_real_part, op) && !is_complex_value(node.outputs.at(0)))
    return {{call(node, *symbolic, Part::real)[0], {}}};
  if (op == "aten::mH" || op == "aten::matrix_H" || op == "aten::adjoint") {
    const Complex turned = lower_by_parts(node, *symbolic).at(0);
    return {{turned.re, g_.op("Neg", turned.im)}};
  }
  if (contains(real_results, op)) {
    Value value = call(node, *symbolic, Part::real)[0];
    return {{value, filled(g_, value.dims(), 0, value.element_type())}};
  }
  for (std::string_view name : {"aten::var", "aten::std", "aten::var_mean", "aten::std_mean"}) {
    if (op == name) return lower_deviation(node, *symbolic);
  }
  g_.refuse(std::string(unsupported_complex));
}

}  // namespace opbridge::lowering
