#include "opbridge/schema.h"

#include <gtest/gtest.h>

#include <cmath>

namespace opbridge {
namespace {

using Kind = SchemaType::Kind;

SchemaType type_of(const std::string& type) {
  return parse_schema("test::f(" + type + " x) -> ()").arguments.at(0).type;
}

ir::AttributeValue default_of(const std::string& argument) {
  return parse_schema("test::f(" + argument + ") -> ()").arguments.at(0).default_value.value();
}

std::string refusal_of(const std::string& line) {
  try {
    parse_schema(line);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.message();
  }
  return "";
}

TEST(Schema, Line) {
  const OperatorSchema schema =
      parse_schema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  EXPECT_EQ(schema.name, "aten::add");
  EXPECT_EQ(schema.overload, "Tensor");
  EXPECT_EQ(schema.key(), "aten::add.Tensor");
  ASSERT_EQ(schema.arguments.size(), 3u);
  EXPECT_EQ(schema.arguments[1].name, "other");
  EXPECT_FALSE(schema.arguments[1].keyword_only);
  EXPECT_FALSE(schema.arguments[1].default_value);
  EXPECT_TRUE(schema.arguments[2].keyword_only);
  EXPECT_EQ(schema.arguments[2].type.kind, Kind::scalar);
  EXPECT_EQ(*schema.arguments[2].default_value, ir::AttributeValue(int64_t{1}));
  ASSERT_EQ(schema.returns.size(), 1u);
  EXPECT_EQ(schema.returns[0].type.kind, Kind::tensor);
  EXPECT_EQ(parse_schema("aten::asinh(Tensor self) -> Tensor").key(), "aten::asinh");
}

// Lines as PyTorch prints them, in every form that its operators have; each is printed unchanged.
TEST(Schema, LinesPrintBack) {
  for (const char* line : {
           "test::nothing() -> ()",
           "my_add(Tensor a, Tensor b) -> Tensor",
           "aten::__and__.Scalar(Tensor self, Scalar other) -> Tensor",
           "aten::sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
           "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
           "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
           "aten::unbind_copy.int_out(Tensor self, int dim=0, *, Tensor(a!)[] out) -> ()",
           "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
           "aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, "
           "float "
           "dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
           "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
           "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] "
           "padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
           "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
           "-> Tensor",
           "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
           "aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
           "device=None, "
           "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
           "aten::rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None) -> Tensor",
           "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? "
           "bias=None, float "
           "eps=1e-05, bool cudnn_enable=True) -> Tensor",
           "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> "
           "Tensor",
           "aten::linear_prepack(Tensor W, Tensor? B=None) -> Tensor W_prepack",
           "aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
           "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()",
           "prims::le(Tensor self, Tensor other) -> Tensor",
           "aten::items.str(Dict(str, t) self) -> ((str, t)[])",
           "aten::pop.Dict_str(Dict(str, t)(a!) self, str key) -> t(*)",
           "aten::sort.any(t[](a!) self, bool reverse=False) -> ()",
           "aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)",
           "prim::rpc_async(Future(t) y, Any[] rest) -> Future(t)",
           "aten::einsum.sublist(Tensor a, ...) -> Tensor",
           "prim::DifferentiableGraph(...) -> ...",
           "test::tensors(Tensor[][] x, SymInt[][] shapes) -> (Tensor?, Tensor[])",
           "test::either(Tensor(a|b) x) -> Tensor(a|b)",
           "test::later(Future x) -> Future y",
           "rnn::cell(__torch__.torch.classes.rnn.CellParamsBase[] cells) -> complex",
       }) {
    EXPECT_EQ(parse_schema(line).str(), line);
  }
}

TEST(Schema, Types) {
  EXPECT_EQ(type_of("Tensor").kind, Kind::tensor);
  EXPECT_EQ(type_of("Scalar").kind, Kind::scalar);
  EXPECT_EQ(type_of("complex").kind, Kind::scalar);
  EXPECT_EQ(type_of("int").kind, Kind::integer);
  EXPECT_EQ(type_of("SymInt").kind, Kind::sym_int);
  EXPECT_EQ(type_of("float").kind, Kind::floating);
  EXPECT_EQ(type_of("bool").kind, Kind::boolean);
  EXPECT_EQ(type_of("str").kind, Kind::string);
  EXPECT_EQ(type_of("ScalarType").kind, Kind::element_type);
  for (const char* opaque : {"Device", "Layout", "MemoryFormat", "Generator", "Any", "t", "Dict(str, Tensor)",
                             "Future(t)", "(Tensor, int)", "int[][]", "t[](a!)"}) {
    EXPECT_EQ(type_of(opaque).kind, Kind::opaque) << opaque;
  }
}

TEST(Schema, ListsAndOptionals) {
  const SchemaType fixed = type_of("int[2]?");
  EXPECT_TRUE(fixed.list && fixed.optional && !fixed.optional_elements);
  EXPECT_EQ(fixed.fixed_size, 2);
  const SchemaType elements = type_of("Tensor?[]");
  EXPECT_TRUE(elements.list && !elements.optional && elements.optional_elements);
  const SchemaType both = type_of("Tensor?[]?");
  EXPECT_TRUE(both.list && both.optional && both.optional_elements);
  EXPECT_EQ(type_of("Device?").kind, Kind::opaque);
  EXPECT_TRUE(type_of("Device?").optional);
}

TEST(Schema, Aliases) {
  const SchemaType written = type_of("Tensor(a!)[]");
  EXPECT_TRUE(written.list && written.written);
  EXPECT_EQ(written.alias, "a");
  const SchemaType view = type_of("Tensor(a -> *)");
  EXPECT_FALSE(view.written);
  EXPECT_EQ(view.alias, "a");
  EXPECT_EQ(view.alias_after, "*");
}

TEST(Schema, DefaultsHaveTheDeclaredType) {
  using V = ir::AttributeValue;
  EXPECT_EQ(default_of("Scalar x=1"), V(int64_t{1}));
  EXPECT_EQ(default_of("Scalar x=0.125"), V(0.125));
  EXPECT_EQ(default_of("float x=1"), V(1.0));
  EXPECT_EQ(default_of("float x=1."), V(1.0));
  EXPECT_EQ(default_of("float x=1.0000000000000001e-05"), V(1e-05));
  EXPECT_EQ(default_of("float x=-inf"), V(-HUGE_VAL));
  EXPECT_EQ(default_of("float? x=None"), V());
  EXPECT_EQ(default_of("int x=-100"), V(int64_t{-100}));
  EXPECT_EQ(default_of("int reduction=Mean"), V(int64_t{1}));
  EXPECT_EQ(default_of("SymInt x=9223372036854775807"), V(int64_t{9223372036854775807}));
  EXPECT_EQ(default_of("bool? x=False"), V(false));
  EXPECT_EQ(default_of("int[2] x=1"), V(std::vector<int64_t>{1, 1}));
  EXPECT_EQ(default_of("SymInt[3] x=[0, 1, 2]"), V(std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(default_of("int[] x=[]"), V(std::vector<int64_t>()));
  EXPECT_EQ(default_of("int[1]? x=None"), V());
  EXPECT_EQ(default_of("float[] x=[1, 2.5]"), V(std::vector<double>{1, 2.5}));
  EXPECT_EQ(default_of("Scalar[] x=[1, 2]"), V(std::vector<int64_t>{1, 2}));
  EXPECT_EQ(default_of("bool[2] x=[True, False]"), V(std::vector<bool>{true, false}));
  EXPECT_EQ(default_of("str[] x=[\"a\"]"), V(std::vector<std::string>{"a"}));
  EXPECT_EQ(default_of("Tensor[] x=[]"), V(std::vector<ir::Value*>()));
  EXPECT_EQ(default_of("str x='mean'"), V(std::string("mean")));
  EXPECT_EQ(default_of(R"(str x=" \n\t\"\x41\\")"), V(std::string(" \n\t\"A\\")));
  EXPECT_EQ(default_of("ScalarType x=long"), V(ElementType::int64));
  EXPECT_EQ(default_of("ScalarType? x=4"), V(ElementType::int64));
  EXPECT_EQ(default_of("ScalarType? x=None"), V());
  EXPECT_EQ(default_of("MemoryFormat x=contiguous_format"), V(ir::Opaque{"contiguous_format"}));
  EXPECT_EQ(default_of("MemoryFormat? x=0"), V(ir::Opaque{"0"}));
}

TEST(Schema, RefusalShowsThePlace) {
  EXPECT_EQ(refusal_of("aten::f(Tensor self, int) -> Tensor"),
            "schema line not understood: expected an argument's name\n"
            "  aten::f(Tensor self, int) -> Tensor\n"
            "                          ^");
  EXPECT_EQ(refusal_of("aten::f(int x=\"a\") -> Tensor"),
            "schema line not understood: the default of x is not of type int\n"
            "  aten::f(int x=\"a\") -> Tensor\n"
            "                ^");
}

TEST(Schema, RefusesBrokenLines) {
  for (const char* line : {
           "",
           "aten::f",
           "aten::f(",
           "aten::f()",
           "aten::f() ->",
           "aten::f() -> Tensor x y",
           "aten::f() -> (Tensor",
           "aten::f(Tensor) -> ()",
           "aten::f(Tensor x,) -> ()",
           "aten::f(*, Tensor x, *, Tensor y) -> ()",
           "aten::(Tensor x) -> ()",
           "::f(Tensor x) -> ()",
           "aten::f.(Tensor x) -> ()",
           "aten::f(Tensor(a x) -> ()",
           "aten::f(Tensor() x) -> ()",
           "aten::f(int[0] x) -> ()",
           "aten::f(int[99999999999] x) -> ()",
           "aten::f(int?? x) -> ()",
           "aten::f(Dict(str x) -> ()",
           "aten::f(int x=1.5) -> ()",
           "aten::f(int x=99999999999999999999) -> ()",
           "aten::f(int x=[1]) -> ()",
           "aten::f(int[] x=[1) -> ()",
           "aten::f(bool x=1) -> ()",
           "aten::f(float x=1e999) -> ()",
           "aten::f(ScalarType x=quarter) -> ()",
           "aten::f(Tensor x=1) -> ()",
           "aten::f(str x=\"a) -> ()",
           "aten::f(str x=\"\\q\") -> ()",
           "aten::f(str x=\"\\x4",
           "aten::f(str x=\"\\",
           "aten::f(int x=) -> ()",
       }) {
    EXPECT_NE(refusal_of(line), "") << line;
  }
  EXPECT_NE(refusal_of("aten::f(" + std::string(60000, '(')), "");
  EXPECT_NE(refusal_of("aten::f(Tensor x" + std::string(100000, ' ')), "");
}

class Bind : public testing::Test {
 protected:
  OperatorSchema schema_ =
      parse_schema("aten::f(Tensor self, int n, float eps=0.5, *, str? mode=None, int[2] pair=0) -> Tensor");
  ir::Node node_;

  std::string refusal() const {
    try {
      bind(schema_, node_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.where(), "model.py:3");
      return error.message();
    }
    return "";
  }

  Bind() {
    node_.op = "aten::f";
    node_.outputs = {nullptr};
    node_.source.line = "model.py:3";
  }
};

TEST_F(Bind, OrdersByTheSchemaAndFillsDefaults) {
  node_.attributes = {
      {"mode", std::string("same")}, {"n", int64_t{3}}, {"self", static_cast<ir::Value*>(nullptr)}};
  const auto values = bind(schema_, node_);
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(values[0], &node_.attributes[2].value);
  EXPECT_EQ(values[1], &node_.attributes[1].value);
  EXPECT_EQ(values[2], &*schema_.arguments[2].default_value);
  EXPECT_EQ(values[3], &node_.attributes[0].value);
}

TEST_F(Bind, RefusesUnknownDoubledAndMissing) {
  node_.attributes = {{"n", int64_t{3}}};
  EXPECT_EQ(refusal(), "a call of aten::f lacks the argument self; its schema is\n  " + schema_.str());
  node_.attributes = {{"n", int64_t{3}}, {"n", int64_t{4}}};
  EXPECT_NE(refusal().find("has the argument n twice"), std::string::npos);
  node_.attributes = {{"m", int64_t{3}}};
  EXPECT_NE(refusal().find("has the unknown argument m"), std::string::npos);
}

TEST_F(Bind, KnowsArgumentsByTheNamesOfOlderAndNewerTorch) {
  const std::string before =
      "aten::_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor";
  const std::string now =
      "aten::_pdist_backward(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor";
  node_.op = "aten::_pdist_backward";
  node_.attributes = {{"", static_cast<ir::Value*>(nullptr)},
                      {"self", static_cast<ir::Value*>(nullptr)},
                      {"p", 2.0},
                      {"pdist", static_cast<ir::Value*>(nullptr)}};
  for (const char* name : {"grad", "grad_output"}) {
    node_.attributes[0].name = name;
    for (const std::string& line : {before, now}) {
      schema_ = parse_schema(line);
      EXPECT_EQ(bind(schema_, node_)[0], &node_.attributes[0].value);
    }
  }
  node_.attributes.push_back({"grad", static_cast<ir::Value*>(nullptr)});
  EXPECT_NE(refusal().find("has the argument grad twice"), std::string::npos);
}

TEST_F(Bind, RefusesOtherNumbersOfElementsAndOfResults) {
  const auto with = [&](std::vector<int64_t> pair) {
    node_.attributes = {{"self", static_cast<ir::Value*>(nullptr)}, {"n", int64_t{3}}, {"pair", pair}};
    return refusal();
  };
  EXPECT_EQ(with({1, 2}), "");
  EXPECT_EQ(with({1}), "");
  EXPECT_NE(with({1, 2, 3}).find("has pair = [1, 2, 3]"), std::string::npos);
  node_.outputs.clear();
  EXPECT_NE(with({1, 2}).find("has 0 results"), std::string::npos);
}

}  // namespace
}  // namespace opbridge
