#include "lowering/complex.h"

#include <algorithm>
#include <array>
#include <numbers>

#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kUnsupported =
    "complex numbers are not supported here; compute with real and imaginary part";

// Operators that are linear, and those that only move elements: what they make of the parts are the parts of
// the result. Sorted.
constexpr std::array kByParts = {"aten::_conj_copy"sv,
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
                                 "aten::constant_pad_nd"sv,
                                 "aten::contiguous"sv,
                                 "aten::copy"sv,
                                 "aten::cumsum"sv,
                                 "aten::cumulative_trapezoid"sv,
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
                                 "aten::trapezoid"sv,
                                 "aten::trapz"sv,
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
                                 "aten::zero"sv,
                                 "aten::rsub"sv};

// Operators whose mapping takes and returns complex tensors as pairs; the Fourier transforms too. Sorted.
constexpr std::array kInPairs = {"aten::_lu_with_info"sv,
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

// Products: linear in each of two arguments.
struct Product {
  std::string_view op, left, right;
};
constexpr std::array kProducts = {
    Product{"aten::mul"sv, "self"sv, "other"sv},          Product{"aten::multiply"sv, "self"sv, "other"sv},
    Product{"aten::matmul"sv, "self"sv, "other"sv},       Product{"aten::mm"sv, "self"sv, "mat2"sv},
    Product{"aten::bmm"sv, "self"sv, "mat2"sv},           Product{"aten::mv"sv, "self"sv, "vec"sv},
    Product{"aten::dot"sv, "self"sv, "tensor"sv},         Product{"aten::inner"sv, "self"sv, "other"sv},
    Product{"aten::outer"sv, "self"sv, "vec2"sv},         Product{"aten::kron"sv, "self"sv, "other"sv},
    Product{"aten::ger"sv, "self"sv, "vec2"sv},           Product{"aten::tensordot"sv, "self"sv, "other"sv},
    Product{"aten::linalg_cross"sv, "self"sv, "other"sv}, Product{"aten::cross"sv, "self"sv, "other"sv}};

// Arguments that say where, not what: the same for both parts.
constexpr std::array kPlaces = {"index"sv, "indices"sv, "mask"sv, "condition"sv};
// Numbers that stand for an element; another number is a factor.
constexpr std::array kElements = {"other"sv, "value"sv, "fill_value"sv, "self"sv};

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

Complex multiply(GraphBuilder& g, Complex a, Complex b) {
  if (!b.im) std::swap(a, b);
  if (!b.im) return {g.op("Mul", a.re, b.re), {}};
  if (!a.im) return {g.op("Mul", a.re, b.re), g.op("Mul", a.re, b.im)};
  return {g.op("Sub", g.op("Mul", a.re, b.re), g.op("Mul", a.im, b.im)),
          g.op("Add", g.op("Mul", a.re, b.im), g.op("Mul", a.im, b.re))};
}

// The larger part of the divisor is divided out first, so that no square overflows.
Complex divide(GraphBuilder& g, Complex a, Complex b) {
  auto quotient = [&](Value x, Value y) { return g.op("Div", x, y); };
  if (!b.im) return {quotient(a.re, b.re), a.im ? quotient(a.im, b.re) : Value()};
  Value size = g.op("Max", g.op("Abs", b.re), g.op("Abs", b.im));
  const Complex unit{quotient(b.re, size), quotient(b.im, size)};
  Value norm = g.op("Add", g.op("Mul", b.re, unit.re), g.op("Mul", b.im, unit.im));
  const Complex product = multiply(g, a, {unit.re, g.op("Neg", unit.im)});
  return {quotient(product.re, norm), quotient(product.im, norm)};
}

// Computed in float64, where the squares of float32 neither overflow nor vanish.
Value absolute(GraphBuilder& g, Complex z) {
  if (!z.im) return g.op("Abs", z.re);
  const ElementType type = z.re.element_type();
  auto square = [&](Value x) {
    x = g.cast(x, ElementType::float64);
    return g.op("Mul", x, x);
  };
  return g.cast(g.op("Sqrt", g.op("Add", square(z.re), square(z.im))), type);
}

Complex exponential(GraphBuilder& g, Complex z) {
  Value size = g.op("Exp", z.re);
  return {g.op("Mul", size, g.op("Cos", z.im)), g.op("Mul", size, g.op("Sin", z.im))};
}

}  // namespace

ElementType part_type(ElementType type) {
  if (type == ElementType::complex64) return ElementType::float32;
  return type == ElementType::complex128 ? ElementType::float64 : type;
}

bool is_in_pairs(const GraphBuilder& g, std::string_view argument) {
  const ir::AttributeValue* value = g.call()->find(argument);
  ir::Value* const* tensor = value ? std::get_if<ir::Value*>(value) : nullptr;
  return tensor && is_complex_value(*tensor);
}

// A call of an operator with a meaning of its own for complex numbers.
class ComplexLowering::Call {
 public:
  Call(const ComplexLowering& lowering, GraphBuilder& g, const ir::Node& node)
      : g(g), lowering_(lowering), node_(node) {
    type = part_type(g.result().element_type);
    for (const ir::Attribute& attribute : node.attributes) {
      for_each_tensor(attribute.value, [&](const ir::Value* value) {
        if (is_complex_value(value)) type = part_type(value->tensor_type().element_type);
      });
    }
  }

  // A tensor or a number, in `type`.
  Complex operator[](std::string_view argument) const {
    const ir::AttributeValue* value = node_.find(argument);
    if (!value) g.refuse(std::string(kUnsupported));
    if (ir::Value* const* tensor = std::get_if<ir::Value*>(value)) {
      const Complex given = lowering_.parts(*tensor);
      return {g.cast(given.re, type), given.im ? g.cast(given.im, type) : Value()};
    }
    if (const auto* number = std::get_if<std::complex<double>>(value))
      return {g.scalar(number->real(), type), g.scalar(number->imag(), type)};
    if (const auto* number = std::get_if<double>(value)) return {g.scalar(*number, type), {}};
    if (const auto* number = std::get_if<int64_t>(value)) return {g.scalar(*number, type), {}};
    g.refuse(std::string(kUnsupported));
  }
  // The same, its imaginary part never absent.
  Complex full(std::string_view argument) const {
    Complex z = (*this)[argument];
    if (!z.im) z.im = g.op("Mul", z.re, g.scalar(0, type));
    return z;
  }

  GraphBuilder& g;
  ElementType type;

 private:
  const ComplexLowering& lowering_;
  const ir::Node& node_;
};

struct ComplexLowering::Special {
  Complex (*function)(const Call& call);
};

const std::unordered_map<std::string_view, ComplexLowering::Special>& ComplexLowering::specials() {
  using C = const Call&;
  static constexpr auto self = [](C call) { return call["self"]; };
  static constexpr auto conjugate = [](C call) {
    const Complex z = call["self"];
    return Complex{z.re, z.im ? call.g.op("Neg", z.im) : Value()};
  };
  static constexpr auto divided = [](C call) { return divide(call.g, call["self"], call["other"]); };
  static constexpr auto real = [](C call) { return Complex{call["self"].re, {}}; };
  static constexpr auto imaginary = [](C call) { return Complex{call.full("self").im, {}}; };
  static constexpr auto absolute_value = [](C call) { return Complex{absolute(call.g, call["self"]), {}}; };
  static constexpr auto equal = [](C call) {
    const Complex a = call.full("self"), b = call.full("other");
    return Complex{call.g.op("And", call.g.op("Equal", a.re, b.re), call.g.op("Equal", a.im, b.im)), {}};
  };
  static constexpr auto ones = [](C call) {
    const std::vector<Dim>& dims = *call.g.result().dims;
    return Complex{filled(call.g, dims, 1, call.type), filled(call.g, dims, 0, call.type)};
  };
  static const std::unordered_map<std::string_view, Special> table = {
      {"aten::conj", {conjugate}},
      {"aten::_conj", {conjugate}},
      {"aten::conj_physical", {conjugate}},
      {"aten::_conj_physical", {conjugate}},
      {"aten::div", {divided}},
      {"aten::divide", {divided}},
      {"aten::true_divide", {divided}},
      {"aten::real", {real}},
      {"aten::imag", {imaginary}},
      {"aten::abs", {absolute_value}},
      {"aten::absolute", {absolute_value}},
      {"aten::eq", {equal}},
      {"aten::ne", {[](C call) {
         return Complex{call.g.op("Not", equal(call).re), {}};
       }}},
      {"aten::not_equal", {[](C call) {
         return Complex{call.g.op("Not", equal(call).re), {}};
       }}},
      {"aten::isnan", {[](C call) {
         const Complex z = call.full("self");
         return Complex{call.g.op("Or", call.g.op("IsNaN", z.re), call.g.op("IsNaN", z.im)), {}};
       }}},
      {"aten::is_complex", {self}},
      {"aten::ones_like", {ones}},
      {"aten::new_ones", {ones}},
      {"aten::ones", {ones}},
      {"aten::square", {[](C call) {
         const Complex z = call["self"];
         return multiply(call.g, z, z);
       }}},
      {"aten::reciprocal", {[](C call) {
         return divide(call.g, {call.g.scalar(1, call.type), {}}, call["self"]);
       }}},
      {"aten::exp", {[](C call) { return exponential(call.g, call["self"]); }}},
      {"aten::exp2", {[](C call) {
         const Complex z = call["self"];
         Value factor = call.g.scalar(std::numbers::ln2, call.type);
         return exponential(call.g, {call.g.op("Mul", z.re, factor), call.g.op("Mul", z.im, factor)});
       }}},
      {"aten::sin", {[](C call) {
         const Complex z = call["self"];
         GraphBuilder& g = call.g;
         return Complex{g.op("Mul", g.op("Sin", z.re), g.op("Cosh", z.im)),
                        g.op("Mul", g.op("Cos", z.re), g.op("Sinh", z.im))};
       }}},
      {"aten::cos", {[](C call) {
         const Complex z = call["self"];
         GraphBuilder& g = call.g;
         return Complex{g.op("Mul", g.op("Cos", z.re), g.op("Cosh", z.im)),
                        g.op("Neg", g.op("Mul", g.op("Sin", z.re), g.op("Sinh", z.im)))};
       }}},
      {"aten::sinh", {[](C call) {
         const Complex z = call["self"];
         GraphBuilder& g = call.g;
         return Complex{g.op("Mul", g.op("Sinh", z.re), g.op("Cos", z.im)),
                        g.op("Mul", g.op("Cosh", z.re), g.op("Sin", z.im))};
       }}},
      {"aten::cosh", {[](C call) {
         const Complex z = call["self"];
         GraphBuilder& g = call.g;
         return Complex{g.op("Mul", g.op("Cosh", z.re), g.op("Cos", z.im)),
                        g.op("Mul", g.op("Sinh", z.re), g.op("Sin", z.im))};
       }}},
      {"aten::complex", {[](C call) {
         const std::vector<Dim>& dims = *call.g.result().dims;
         return Complex{call.g.expand(call["real"].re, dims), call.g.expand(call["imag"].re, dims)};
       }}},
      {"aten::polar", {[](C call) {
         Value size = call["abs"].re, angle = call["angle"].re;
         return Complex{call.g.op("Mul", size, call.g.op("Cos", angle)),
                        call.g.op("Mul", size, call.g.op("Sin", angle))};
       }}},
      {"aten::view_as_complex", {[](C call) {
         Value pairs = call["self"].re;
         auto part = [&](int64_t i) {
           return call.g.gather(pairs, call.g.scalar(i, ElementType::int64), -1);
         };
         return Complex{part(0), part(1)};
       }}},
      {"aten::view_as_real", {[](C call) {
         const Complex z = call.full("self");
         return Complex{call.g.concat({call.g.unsqueeze(z.re, {-1}), call.g.unsqueeze(z.im, {-1})}, -1), {}};
       }}},
  };
  return table;
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
  const Complex z = parts_.at(value);
  return g_.concat({g_.unsqueeze(z.re, {-1}), g_.unsqueeze(z.im, {-1})}, -1);
}

Complex ComplexLowering::parts(const ir::Value* value) const {
  const auto found = parts_.find(value);
  return found == parts_.end() ? Complex{values_[value], {}} : found->second;
}

// Calls the mapping for real tensors with one part of each argument: `imaginary` says which.
std::vector<Value> ComplexLowering::call(const ir::Node& node, const Symbolic& symbolic,
                                         const std::function<bool(std::string_view)>& imaginary) {
  ir::Node* shadow = shadows_.make_node(node.op);
  shadow->name = node.name;
  shadow->source = node.source;
  PartOfValues values(values_);
  for (const ir::Attribute& attribute : node.attributes) {
    const bool wants_imaginary = imaginary(attribute.name);
    ir::AttributeValue value = attribute.value;
    if (const auto* number = std::get_if<std::complex<double>>(&value)) {
      value = wants_imaginary ? number->imag() : number->real();
    } else if (wants_imaginary && contains(kElements, attribute.name) &&
               (std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value) ||
                std::holds_alternative<bool>(value))) {
      value = 0.0;
    }
    for_each_tensor(value, [&](const ir::Value* tensor) {
      if (!tensor || contains(kPlaces, attribute.name)) return;
      const Complex given = parts(tensor);
      if (!wants_imaginary) {
        values.set(tensor, given.re);
      } else if (given.im) {
        values.set(tensor, given.im);
      } else {
        values.set(tensor, filled(g_, given.re.dims(), 0, given.re.element_type()));
      }
    });
    shadow->attributes.push_back({attribute.name, std::move(value)});
  }
  for (const ir::Value* output : node.outputs) {
    ir::TensorType type = output->tensor_type();
    type.element_type = part_type(type.element_type);
    shadows_.add_output_of(shadow, output->name, std::move(type));
  }
  g_.set_call(shadow, symbolic.label.empty() ? symbolic.key : symbolic.label, true);
  return symbolic.function(SymbolicCall{g_, bind(*symbolic.schema, *shadow), values, *shadow, bodies_});
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
    const bool is_pairs = i < node.outputs.size() && is_complex_value(node.outputs[i]);
    results.push_back(is_pairs ? from_pairs(made[i], node.outputs[i]) : Complex{made[i], {}});
  }
  return results;
}

std::vector<Complex> ComplexLowering::lower(const ir::Node& node, const Symbolic* symbolic) {
  const std::string_view op = base_name(node.op);
  g_.set_call(&node, node.op, true);
  const ir::AttributeValue* rounding = node.find("rounding_mode");
  if (rounding && !std::holds_alternative<std::monostate>(*rounding)) g_.refuse(std::string(kUnsupported));
  if (const auto special = specials().find(op); special != specials().end())
    return {special->second.function(Call(*this, g_, node))};
  const bool is_transform = op.starts_with("aten::fft_") && !op.ends_with("shift");
  const bool in_pairs = is_transform || contains(kInPairs, op);
  if (!symbolic && in_pairs) g_.refuse("needs a higher opset; Fourier transforms are in ONNX since opset 17");
  if (!symbolic || symbolic->origin == Origin::user || !symbolic->schema)
    g_.refuse(std::string(kUnsupported));

  if (in_pairs) return call_in_pairs(node, *symbolic);
  std::vector<Complex> results;
  if (contains(kByParts, op)) {
    // A complex factor is no part of a number.
    const ir::AttributeValue* alpha = node.find("alpha");
    if (alpha && std::holds_alternative<std::complex<double>>(*alpha)) g_.refuse("a complex alpha");
    const std::vector<Value> real = call(node, *symbolic, [](std::string_view) { return false; });
    const bool complex_result = std::ranges::any_of(node.outputs, is_complex_value);
    std::vector<Value> imaginary(real.size());
    if (complex_result) imaginary = call(node, *symbolic, [](std::string_view) { return true; });
    for (size_t i = 0; i < real.size(); ++i) results.push_back({real[i], imaginary[i]});
    g_.set_call(&node, node.op, true);
    return results;
  }
  for (const Product& product : kProducts) {
    if (op != product.op) continue;
    auto term = [&](bool left, bool right) {
      return call(node, *symbolic, [&](std::string_view argument) {
        return (left && argument == product.left) || (right && argument == product.right);
      })[0];
    };
    Value both_real = term(false, false), both_imaginary = term(true, true);
    Value right_imaginary = term(false, true), left_imaginary = term(true, false);
    const Complex z{g_.op("Sub", both_real, both_imaginary), g_.op("Add", right_imaginary, left_imaginary)};
    g_.set_call(&node, node.op, true);
    return {z};
  }
  g_.refuse(std::string(kUnsupported));
}

}  // namespace opbridge::lowering
