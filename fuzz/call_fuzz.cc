// Calls of every operator that opbridge knows, with arguments, shapes and element types that need not fit:
// each becomes a model or an Error.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/model_serializer.h"
#include "opbridge/convert.h"
#include "opbridge/error.h"
#include "torch/traits.h"

namespace opbridge::fuzz {
namespace {

// Operators that are replaced before the mappings are looked up.
constexpr std::string_view replaced[] = {
    "prims::broadcast_in_dim(Tensor a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor",
    "prims::cbrt(Tensor self) -> Tensor",
    "prims::div(Tensor self, Tensor other) -> Tensor",
    "prims::fft_c2r(Tensor self, *, int[] dim, SymInt last_dim_size) -> Tensor",
    "prims::iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype) -> Tensor",
    "prims::prod(Tensor inp, int[]? dims) -> Tensor",
    "prims::split_dim(Tensor a, int dim, SymInt outer_length) -> Tensor",
    "prims::transpose(Tensor a, int[] permutation) -> Tensor",
    "prims::uniform(SymInt[] shape, *, Scalar low, Scalar high, ScalarType dtype) -> Tensor",
    "aten::_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]",
    "aten::_foreach_mul_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()",
    "aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
};

// Arguments that views and writes have, whose schemas are not listed.
constexpr std::string_view of_memory =
    "(Tensor self, Tensor other, SymInt[] size, SymInt[] stride, SymInt? storage_offset, int dim, SymInt "
    "start, "
    "SymInt end, SymInt step, int[] dims, int dim0, int dim1, ScalarType dtype, SymInt index, int offset, "
    "Tensor out)";

const std::vector<OperatorSchema>& schemas() {
  static const std::vector<OperatorSchema> all = [] {
    std::vector<OperatorSchema> made;
    for (const std::string_view line : replaced) made.push_back(parse_schema(line));
    const auto registry = SymbolicRegistry::with_bundled();
    for (const Symbolic* symbolic : registry.all()) {
      if (symbolic->schema) made.push_back(*symbolic->schema);
    }
    for (const torch::TraitsRow& row : torch::all_traits())
      made.push_back(parse_schema(std::string(row.op) + std::string(of_memory) + " -> Tensor"));
    return made;
  }();
  return all;
}

// The bytes of the input; zeros after its end.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  size_t below(size_t count) {
    size_t number = 0;
    for (size_t most = 1; most < count; most *= 256) number = number * 256 + next();
    return number % count;
  }
  bool one_in(size_t count) { return below(count) == count - 1; }
  template <class T>
  T among(std::initializer_list<T> items) {
    return items.begin()[below(items.size())];
  }

 private:
  uint8_t next() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

  std::span<const uint8_t> bytes_;
};

class Program {
 public:
  explicit Program(Bytes& bytes) : bytes_(bytes) {
    for (int i = 0; i < 3; ++i) values_.push_back(graph_.add_input("x" + std::to_string(i), type()));
  }

  ir::Graph make() {
    const size_t calls = 1 + bytes_.below(3);
    for (size_t i = 0; i < calls; ++i) add_call();
    graph_.outputs = {values_.begin() + 3, values_.end()};
    if (graph_.outputs.empty()) graph_.outputs = values_;
    return std::move(graph_);
  }

 private:
  using Kind = SchemaType::Kind;

  ir::TensorType type() {
    const auto element = bytes_.among({ElementType::float32, ElementType::int64, ElementType::boolean,
                                       ElementType::float16, ElementType::uint8, ElementType::complex64,
                                       ElementType::float64, ElementType::undefined});
    std::vector<Dim> dims;
    for (size_t rank = bytes_.below(6); dims.size() < rank;)
      dims.push_back(bytes_.among<Dim>(
          {1, 2, 3, 4, 6, 0, Dim::symbol("n", 1), Dim::symbol("m", 0) * 2 + 1, int64_t{1} << 31}));
    if (bytes_.one_in(16)) return {element, std::nullopt};
    return {element, std::move(dims)};
  }

  ir::Value* tensor() {
    return values_[values_.size() - 1 - bytes_.below(std::min<size_t>(values_.size(), 4))];
  }

  int64_t integer() {
    return bytes_.among<int64_t>({0, 1, -1, 2, 3, -2, 4, 7, -9, 100, 1 << 20, int64_t{1} << 40,
                                  std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()});
  }

  double number() {
    return bytes_.among({0.0, 1.0, -1.5, 0.5, 1e30, std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()});
  }

  template <class T, class Make>
  std::vector<T> list(Make make) {
    std::vector<T> items;
    for (size_t count = bytes_.below(5); items.size() < count;) items.push_back(make());
    return items;
  }

  ir::AttributeValue argument(Kind kind, bool is_list) {
    switch (kind) {
      case Kind::tensor:
        if (is_list) return list<ir::Value*>([&] { return bytes_.one_in(8) ? nullptr : tensor(); });
        return tensor();
      case Kind::integer:
      case Kind::sym_int:
        if (is_list) return list<int64_t>([&] { return integer(); });
        if (bytes_.one_in(8)) return Dim::symbol("n", 1) * 2;
        return integer();
      case Kind::scalar:
        if (bytes_.one_in(3)) return integer();
        [[fallthrough]];
      case Kind::floating:
        if (is_list) return list<double>([&] { return number(); });
        return number();
      case Kind::boolean:
        if (is_list) return list<bool>([&] { return bytes_.one_in(2); });
        return bytes_.one_in(2);
      case Kind::string:
        return std::string(bytes_.among({"mean", "none", "sum", "constant", "trunc", "ij", "bilinear", ""}));
      case Kind::element_type:
        return bytes_.among({ElementType::float32, ElementType::int64, ElementType::boolean});
      case Kind::opaque:
        return ir::Opaque{bytes_.among({"strided", "contiguous_format", "channels_last", "cpu"})};
    }
    return {};
  }

  ir::AttributeValue any_argument() {
    return argument(bytes_.among({Kind::tensor, Kind::integer, Kind::floating, Kind::boolean, Kind::string}),
                    bytes_.one_in(2));
  }

  void add_call() {
    const OperatorSchema& schema = schemas()[bytes_.below(schemas().size())];
    const bool in_place = bytes_.one_in(8);
    ir::Node* node = graph_.add_node(in_place ? schema.name + "_" + schema.key().substr(schema.name.size())
                                              : schema.key());
    for (const SchemaArgument& argument : schema.arguments) {
      if (bytes_.one_in(argument.default_value ? 3 : 16)) continue;
      node->attributes.push_back(
          {argument.name, bytes_.one_in(16)   ? any_argument()
                          : bytes_.one_in(16) ? ir::AttributeValue()
                                              : this->argument(argument.type.kind, argument.type.list)});
    }
    const size_t results = bytes_.one_in(16) ? bytes_.below(4) : schema.returns.size();
    for (size_t i = 0; i < results; ++i) {
      ir::Type result = bytes_.one_in(16) ? ir::Type(ir::ScalarType{ElementType::int64, Dim::symbol("u", 0)})
                        : in_place        ? values_[0]->type
                                          : ir::Type(type());
      values_.push_back(graph_.add_output_of(node, "r" + std::to_string(values_.size()), std::move(result)));
    }
  }

  Bytes& bytes_;
  ir::Graph graph_;
  std::vector<ir::Value*> values_;
};

void convert(Bytes bytes) {
  static const auto registry = SymbolicRegistry::with_bundled();
  ConvertOptions options;
  options.opset = bytes.among({21, 9, 11, 13, 16, 18, 20, 23});
  options.target = bytes.one_in(4) ? Target::onnx : Target::onnxruntime;
  options.mutations_as_outputs = true;
  options.random = bytes.one_in(2);
  try {
    ir::Graph graph = Program(bytes).make();
    ir::print(graph);
    const OnnxModel model = to_onnx(std::move(graph), registry, options);
    ir::verify(model.graph);
    onnx::serialize(model, options.source_lines, {});
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
}

}  // namespace
}  // namespace opbridge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  opbridge::fuzz::convert(opbridge::fuzz::Bytes({data, size}));
  return 0;
}
