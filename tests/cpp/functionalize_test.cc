#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "opbridge/convert.h"
#include "opbridge/frontend.h"

namespace opbridge {
namespace {

using Ints = std::vector<int64_t>;
using Values = std::vector<ir::Value*>;

ir::TensorType floats(std::vector<Dim> dims) { return {ElementType::float32, std::move(dims)}; }
ir::TensorType ints(std::vector<Dim> dims) { return {ElementType::int64, std::move(dims)}; }
const Dim s0 = Dim::symbol("s0");

// A torch-level program, written call by call. Results are named %v1, %v2, … unless `named` says otherwise.
class Program {
 public:
  ir::Value* input(std::string name, ir::Type type) {
    return builder_.input(std::move(name), std::move(type));
  }

  ir::Value* buffer(std::string name, const std::vector<float>& values) {
    return builder_.weight(std::move(name),
                           ir::Weight::of<float>(values, {static_cast<int64_t>(values.size())}));
  }

  Values calls(std::string op, std::vector<ir::Attribute> arguments, const std::vector<ir::Type>& types) {
    ir::Node* node =
        builder_.call(std::move(op), std::move(arguments), {"", fmt::format("line {}", ++line_)});
    for (const ir::Type& type : types) builder_.result(node, fmt::format("v{}", ++results_), type);
    return node->outputs;
  }
  ir::Value* call(std::string op, std::vector<ir::Attribute> arguments, ir::Type type) {
    return calls(std::move(op), std::move(arguments), {std::move(type)}).front();
  }

  ir::Graph functionalized_graph(const Values& outputs, const FunctionalizeOptions& options = {}) {
    for (ir::Value* output : outputs) builder_.output(output);
    ir::Graph graph = functionalize(std::move(builder_).finish(), options);
    ir::verify(graph);
    return graph;
  }

  std::string functionalized(const Values& outputs, const FunctionalizeOptions& options = {}) {
    return lines_of(functionalized_graph(outputs, options));
  }

  // The nodes and the result, one per line, without types.
  static std::string lines_of(const ir::Graph& graph) {
    std::string text;
    for (const ir::Node* node : graph.nodes) {
      std::vector<std::string> results, arguments;
      for (const ir::Value* output : node->outputs) results.push_back("%" + output->name);
      for (const auto& [name, value] : node->attributes) {
        arguments.push_back(fmt::format("{}={}", name, ir::str(value)));
      }
      text += fmt::format("{} = {}({})\n", fmt::join(results, ", "), node->op, fmt::join(arguments, ", "));
    }
    return text + fmt::format("return {}\n", ir::str(graph.outputs));
  }

  // The refusal, with its source line.
  std::string refusal(const Values& outputs, const FunctionalizeOptions& options = {}) {
    try {
      return functionalized(outputs, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      return error.what();
    }
  }

 private:
  ProgramBuilder builder_;
  int line_ = 0, results_ = 0;
};

TEST(Functionalize, KeepsPureProgram) {
  Program p;
  ir::Value* x = p.input("x", floats({4, 3}));
  ir::Value* y = p.call("aten::relu", {{"self", x}}, floats({4, 3}));
  EXPECT_EQ(p.functionalized({p.call("aten::t", {{"self", y}}, floats({3, 4}))}),
            "%v1 = aten::relu(self=%x)\n"
            "%v2 = aten::t(self=%v1)\n"
            "return [%v2]\n");
}

TEST(Functionalize, DropsWhatNobodyUses) {
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  p.call("aten::exp", {{"self", x}}, floats({4}));
  p.calls("aten::_assert_scalar", {{"self", true}, {"assert_msg", std::string("no")}}, {});
  EXPECT_EQ(p.functionalized({x}), "return [%x]\n");
}

// zeros(nonzero(x).shape[0]): only nonzero makes the number of rows known.
TEST(Functionalize, KeepsWhatMakesASize) {
  Program p;
  ir::Value* x = p.input("x", floats({s0}));
  p.call("aten::nonzero", {{"self", x}}, ints({Dim::symbol("u0"), 1}));
  p.call("aten::nonzero", {{"self", x}}, ints({Dim::symbol("u1"), 1}));
  ir::Value* y = p.call("aten::zeros", {{"size", std::vector<Dim>{Dim::symbol("u0") + 1, s0}}},
                        floats({Dim::symbol("u0") + 1, s0}));
  EXPECT_EQ(p.functionalized({y}),
            "%v1 = aten::nonzero(self=%x)\n"
            "%v3 = aten::zeros(size=[u0 + 1, s0])\n"
            "return [%v3]\n");
}

TEST(Functionalize, DropsIdentities) {
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  ir::Value* y = p.call("aten::relu", {{"self", x}}, floats({4}));
  for (const char* op :
       {"aten::detach", "aten::alias", "aten::contiguous", "aten::clone", "aten::lift_fresh_copy"}) {
    y = p.call(op, {{"self", y}}, floats({4}));
  }
  y = p.call("aten::to.dtype", {{"self", y}, {"dtype", ElementType::float32}}, floats({4}));
  y = p.call("aten::dropout", {{"input", y}, {"p", 0.5}, {"train", false}}, floats({4}));
  y = p.call("aten::to.dtype", {{"self", y}, {"dtype", ElementType::int64}}, ints({4}));
  EXPECT_EQ(p.functionalized({p.call("aten::neg", {{"self", y}}, ints({4}))}),
            "%v1 = aten::relu(self=%x)\n"
            "%v9 = aten::to.dtype(self=%v1, dtype=int64)\n"
            "%v10 = aten::neg(self=%v9)\n"
            "return [%v10]\n");
}

// The result has the name of the output that it replaces.
TEST(Functionalize, InPlaceBecomesPure) {  // relu(bn(x), inplace=True); out += identity
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  ir::Value* y = p.call("aten::mul.Tensor", {{"self", x}, {"other", x}}, floats({4}));
  ir::Value* z = p.call("aten::relu_", {{"self", y}}, floats({4}));
  p.call("aten::add_.Tensor", {{"self", z}, {"other", x}}, floats({4}));
  EXPECT_EQ(p.functionalized({y}),
            "%v3 = aten::mul.Tensor(self=%x, other=%x)\n"
            "%v2 = aten::relu(self=%v3)\n"
            "%v1 = aten::add.Tensor(self=%v2, other=%x)\n"
            "return [%v1]\n");
}

// mask[0:2, 1:3] = 7, as torchvision's swin_t marks its windows.
TEST(Functionalize, WritesThroughViewsOfViews) {
  Program p;
  ir::Value* x = p.input("x", floats({4, 4}));
  ir::Value* mask = p.call("aten::new_zeros", {{"self", x}, {"size", Ints{4, 4}}}, floats({4, 4}));
  ir::Value* rows = p.call("aten::slice.Tensor",
                           {{"self", mask}, {"dim", int64_t{0}}, {"start", int64_t{0}}, {"end", int64_t{2}}},
                           floats({2, 4}));
  ir::Value* part = p.call("aten::slice.Tensor",
                           {{"self", rows}, {"dim", int64_t{1}}, {"start", int64_t{1}}, {"end", int64_t{3}}},
                           floats({2, 2}));
  p.call("aten::fill_.Scalar", {{"self", part}, {"value", int64_t{7}}}, floats({2, 2}));
  EXPECT_EQ(p.functionalized({p.call("aten::neg", {{"self", mask}}, floats({4, 4}))}),
            "%v1 = aten::new_zeros(self=%x, size=[4, 4])\n"
            "%v2 = aten::slice.Tensor(self=%v1, dim=0, start=0, end=2)\n"
            "%v3~1 = aten::full(size=[2, 2], fill_value=7, dtype=float32)\n"
            "%v2~2 = aten::slice_scatter(self=%v2, src=%v3~1, dim=1, start=1, end=3)\n"
            "%v1~3 = aten::slice_scatter(self=%v1, src=%v2~2, dim=0, start=0, end=2)\n"
            "%v5 = aten::neg(self=%v1~3)\n"
            "return [%v5]\n");
}

TEST(Functionalize, ViewTakenBeforeSeesMutation) {
  Program p;
  ir::Value* x = p.input("x", floats({4, 3}));
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({4, 3}));
  ir::Value* flat = p.call("aten::view", {{"self", y}, {"size", Ints{12}}}, floats({12}));
  ir::Value* first =
      p.call("aten::select.int", {{"self", flat}, {"dim", int64_t{0}}, {"index", int64_t{0}}}, floats({}));
  p.call("aten::mul_.Tensor", {{"self", y}, {"other", int64_t{2}}}, floats({4, 3}));
  EXPECT_EQ(p.functionalized({p.call("aten::neg", {{"self", first}}, floats({}))}),
            "%v1 = aten::exp(self=%x)\n"
            "%v4 = aten::mul.Tensor(self=%v1, other=2)\n"
            "%v2~1 = aten::view(self=%v4, size=[12])\n"
            "%v3~2 = aten::select.int(self=%v2~1, dim=0, index=0)\n"
            "%v5 = aten::neg(self=%v3~2)\n"
            "return [%v5]\n");
}

TEST(Functionalize, ViewNotReadAgainIsNotMadeAgain) {
  Program p;
  ir::Value* x = p.input("x", floats({4, 3}));
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({4, 3}));
  ir::Value* flat = p.call("aten::view", {{"self", y}, {"size", Ints{12}}}, floats({12}));
  ir::Value* sum = p.call("aten::sum", {{"self", flat}}, floats({}));
  p.call("aten::relu_", {{"self", y}}, floats({4, 3}));
  EXPECT_EQ(p.functionalized({sum, p.call("aten::neg", {{"self", y}}, floats({4, 3}))}),
            "%v1 = aten::exp(self=%x)\n"
            "%v2 = aten::view(self=%v1, size=[12])\n"
            "%v3 = aten::sum(self=%v2)\n"
            "%v4 = aten::relu(self=%v1)\n"
            "%v5 = aten::neg(self=%v4)\n"
            "return [%v3, %v5]\n");
}

// y.permute(2, 0, 1).view(2, 12)[1] = z, with a symbolic size.
TEST(Functionalize, InvertsPermutationsAndReshapes) {
  Program p;
  ir::Value* x = p.input("x", floats({s0, 3, 2}));
  ir::Value* z = p.input("z", floats({3}));
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({s0, 3, 2}));
  ir::Value* turned = p.call("aten::permute", {{"self", y}, {"dims", Ints{2, 0, 1}}}, floats({2, s0, 3}));
  ir::Value* split =
      p.call("aten::unsqueeze", {{"self", turned}, {"dim", int64_t{0}}}, floats({1, 2, s0, 3}));
  p.call("aten::copy_", {{"self", split}, {"src", z}}, floats({1, 2, s0, 3}));
  EXPECT_EQ(p.functionalized({y}),
            "%v3~1 = aten::expand(self=%z, size=[1, 2, s0, 3])\n"
            "%v2~2 = aten::reshape(self=%v3~1, shape=[2, s0, 3])\n"
            "%v1 = aten::permute(self=%v2~2, dims=[1, 2, 0])\n"
            "return [%v1]\n");
}

TEST(Functionalize, WritesToPartsOfSplit) {
  Program p;
  ir::Value* x = p.input("x", floats({5, 2}));
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({5, 2}));
  const Values parts = p.calls("aten::split.Tensor", {{"self", y}, {"split_size", int64_t{3}}},
                               {floats({3, 2}), floats({2, 2})});
  const Values columns =
      p.calls("aten::unbind.int", {{"self", y}, {"dim", int64_t{1}}}, {floats({5}), floats({5})});
  p.call("aten::neg_", {{"self", parts[1]}}, floats({2, 2}));
  p.call("aten::abs_", {{"self", columns[1]}}, floats({5}));
  EXPECT_EQ(p.functionalized({parts[1]}),
            "%v1 = aten::exp(self=%x)\n"
            "%v2, %v3~4 = aten::split.Tensor(self=%v1, split_size=3)\n"
            "%v6 = aten::neg(self=%v3~4)\n"
            "%v1~1 = aten::slice_scatter(self=%v1, src=%v6, dim=0, start=3, end=5)\n"
            "%v5~2 = aten::select.int(self=%v1~1, dim=1, index=1)\n"
            "%v7 = aten::abs(self=%v5~2)\n"
            "%v1~3 = aten::select_scatter(self=%v1~1, src=%v7, dim=1, index=1)\n"
            "%v3 = aten::slice.Tensor(self=%v1~3, dim=0, start=3, end=5)\n"
            "return [%v3]\n");
}

// x[mask] += 1
TEST(Functionalize, IndexAssignment) {
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  ir::Value* mask = p.input("mask", {ir::TensorType{ElementType::boolean, {{4}}}});
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({4}));
  ir::Value* picked =
      p.call("aten::index.Tensor", {{"self", y}, {"indices", Values{mask}}}, floats({Dim::symbol("u0")}));
  ir::Value* more =
      p.call("aten::add_.Tensor", {{"self", picked}, {"other", int64_t{1}}}, floats({Dim::symbol("u0")}));
  p.call("aten::index_put_", {{"self", y}, {"indices", Values{mask}}, {"values", more}}, floats({4}));
  EXPECT_EQ(p.functionalized({y}),
            "%v4 = aten::exp(self=%x)\n"
            "%v2 = aten::index.Tensor(self=%v4, indices=[%mask])\n"
            "%v3 = aten::add.Tensor(self=%v2, other=1)\n"
            "%v1 = aten::index_put(self=%v4, indices=[%mask], values=%v3)\n"
            "return [%v1]\n");
}

TEST(Functionalize, CastsToTypeOfWhatIsWritten) {
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  ir::Value* d = p.input("d", {ir::TensorType{ElementType::float64, {{4}}}});
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({4}));
  p.call("aten::add_.Tensor", {{"self", y}, {"other", d}}, floats({4}));
  p.call("aten::gt_.Scalar", {{"self", y}, {"other", 0.0}}, floats({4}));
  p.call("aten::mul_.Tensor", {{"self", y}, {"other", 2.5}}, floats({4}));
  ir::Value* z = p.call("aten::neg", {{"self", y}}, floats({4}));
  p.call("aten::copy_", {{"self", y}, {"src", d}}, floats({4}));
  EXPECT_EQ(p.functionalized({z, p.call("aten::abs", {{"self", y}}, floats({4}))}),
            "%v1 = aten::exp(self=%x)\n"
            "%v2~1 = aten::add.Tensor(self=%v1, other=%d)\n"
            "%v2 = aten::to.dtype(self=%v2~1, dtype=float32)\n"
            "%v3~2 = aten::gt.Scalar(self=%v2, other=0.0)\n"
            "%v3 = aten::to.dtype(self=%v3~2, dtype=float32)\n"
            "%v4 = aten::mul.Tensor(self=%v3, other=2.5)\n"
            "%v5 = aten::neg(self=%v4)\n"
            "%v1~3 = aten::to.dtype(self=%d, dtype=float32)\n"
            "%v7 = aten::abs(self=%v1~3)\n"
            "return [%v5, %v7]\n");
}

TEST(Functionalize, OutVariants) {
  Program p;
  ir::Value* x = p.input("x", floats({2, 3}));
  ir::Value* wide = p.call("aten::empty.memory_format", {{"size", Ints{3, 4}}}, floats({3, 4}));
  ir::Value* part = p.call("aten::slice.Tensor", {{"self", wide}, {"dim", int64_t{1}}, {"end", int64_t{2}}},
                           floats({3, 2}));
  ir::Value* turned = p.call("aten::t", {{"self", part}}, floats({2, 3}));
  p.call("aten::add.out", {{"self", x}, {"other", x}, {"out", turned}}, floats({2, 3}));
  ir::Value* grows = p.call("aten::empty.memory_format", {{"size", Ints{0}}}, floats({0}));
  p.call("aten::sum.IntList_out", {{"self", x}, {"dim", Ints{0}}, {"out", grows}}, floats({3}));
  EXPECT_EQ(p.functionalized({wide, grows}),
            "%v1~2 = aten::empty.memory_format(size=[3, 4])\n"
            "%v4 = aten::add.Tensor(self=%x, other=%x)\n"
            "%v2~1 = aten::permute(self=%v4, dims=[1, 0])\n"
            "%v1 = aten::slice_scatter(self=%v1~2, src=%v2~1, dim=1, end=2)\n"
            "%v5 = aten::sum.dim_IntList(self=%x, dim=[0])\n"
            "return [%v1, %v5]\n");
}

TEST(Functionalize, TransposeInPlaceChangesTheTensorAlone) {
  Program p;
  ir::Value* x = p.input("x", floats({2, 3}));
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({2, 3}));
  ir::Value* other = p.call("aten::detach", {{"self", y}}, floats({2, 3}));
  p.call("aten::transpose_", {{"self", y}, {"dim0", int64_t{0}}, {"dim1", int64_t{1}}}, floats({3, 2}));
  p.call("aten::relu_", {{"self", y}}, floats({3, 2}));
  EXPECT_EQ(p.functionalized({p.call("aten::neg", {{"self", y}}, floats({3, 2})),
                              p.call("aten::abs", {{"self", other}}, floats({2, 3}))}),
            "%v1 = aten::exp(self=%x)\n"
            "%v3 = aten::transpose.int(self=%v1, dim0=0, dim1=1)\n"
            "%v4 = aten::relu(self=%v3)\n"
            "%v1~1 = aten::permute(self=%v4, dims=[1, 0])\n"
            "%v5 = aten::neg(self=%v4)\n"
            "%v6 = aten::abs(self=%v1~1)\n"
            "return [%v5, %v6]\n");
}

TEST(Functionalize, RefusesToLoseMutations) {
  Program p;
  ir::Value* buffer = p.buffer("num_batches_tracked", {0});
  p.call("aten::add_.Tensor", {{"self", buffer}, {"other", int64_t{1}}}, floats({1}));
  EXPECT_EQ(p.refusal({p.input("x", floats({1}))}),
            "aten::add_.Tensor writes to the buffer or parameter %num_batches_tracked, and ONNX would lose "
            "that; put the "
            "model into evaluation mode, call .clone() before writing, or ask for mutations as outputs\n  at "
            "line 1");
  Program q;
  ir::Value* x = q.input("x", floats({4}));
  ir::Value* part = q.call("aten::slice.Tensor", {{"self", x}, {"end", int64_t{2}}}, floats({2}));
  q.call("aten::zero_", {{"self", part}}, floats({2}));
  EXPECT_EQ(q.refusal({x}),
            "aten::zero_ writes to the input %x, and ONNX would lose that; call .clone() before writing, or "
            "ask for "
            "mutations as outputs\n  at line 2");
}

TEST(Functionalize, ReturnsMutationsWhereAsked) {
  Program p;
  ir::Value* x = p.input("x", floats({2}));
  ir::Value* buffer = p.buffer("buffer", {1, 2});
  ir::Value* sum = p.call("aten::add_.Tensor", {{"self", buffer}, {"other", x}}, floats({2}));
  p.call("aten::zero_", {{"self", x}}, floats({2}));
  EXPECT_EQ(p.functionalized({sum}, {.mutations_as_outputs = true, .schema = {}, .warn = {}}),
            "%v1 = aten::add.Tensor(self=%buffer, other=%x)\n"
            "%x_out = aten::full(size=[2], fill_value=0, dtype=float32)\n"
            "%buffer_out = aten::alias(self=%v1)\n"
            "return [%v1, %buffer_out, %x_out]\n");
}

TEST(Functionalize, BatchNormInTraining) {
  for (bool as_outputs : {false, true}) {
    Program p;
    ir::Value* x = p.input("x", floats({4, 2}));
    ir::Value* mean = p.buffer("mean", {0, 0});
    ir::Value* var = p.buffer("var", {1, 1});
    ir::Value* y = p.call("aten::batch_norm",
                          {{"input", x},
                           {"weight", std::monostate()},
                           {"bias", std::monostate()},
                           {"running_mean", mean},
                           {"running_var", var},
                           {"training", true},
                           {"momentum", 0.1},
                           {"eps", 1e-5},
                           {"cudnn_enabled", false}},
                          floats({4, 2}));
    if (!as_outputs) {
      EXPECT_EQ(
          p.refusal({y}),
          "aten::batch_norm writes to the buffer or parameter %mean, and ONNX would lose that; put the model "
          "into "
          "evaluation mode, call .clone() before writing, or ask for mutations as outputs\n  at line 1");
      continue;
    }
    EXPECT_EQ(p.functionalized({y}, {.mutations_as_outputs = true, .schema = {}, .warn = {}}),
              "%v1, %mean~1, %var~2, %mean_out, %var_out = "
              "aten::_native_batch_norm_legit_functional(input=%x, weight=None, "
              "bias=None, running_mean=%mean, running_var=%var, training=True, momentum=0.1, eps=1e-05)\n"
              "return [%v1, %mean_out, %var_out]\n");
  }
}

TEST(Functionalize, RefusesWritesToRepeatedElements) {
  Program p;
  ir::Value* x = p.input("x", floats({3}));
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({3}));
  ir::Value* wide = p.call("aten::expand", {{"self", y}, {"size", Ints{2, 3}}}, floats({2, 3}));
  p.call("aten::relu_", {{"self", wide}}, floats({2, 3}));
  EXPECT_EQ(p.refusal({y}),
            "an in-place operator writes to the result of aten::expand, several elements of which share "
            "memory; call "
            ".clone() before writing\n  at line 2");
}

// reshape is a view or a copy, depending on the operators before it: three programs.
TEST(Functionalize, ReshapeIsViewWhereStridesTell) {
  const auto program = [](Program& p, const char* producer, bool transposed) {
    ir::Value* x = p.input("x", floats({2, 3}));
    ir::Value* y = p.call(producer, {{"self", x}}, floats({2, 3}));
    ir::Value* seen = transposed ? p.call("aten::t", {{"self", y}}, floats({3, 2})) : y;
    ir::Value* flat = p.call("aten::reshape", {{"self", seen}, {"shape", Ints{6}}}, floats({6}));
    p.call("aten::relu_", {{"self", flat}}, floats({6}));
    return Values{flat, y};
  };
  Program view, copy, unclear, unread;
  EXPECT_EQ(view.functionalized(program(view, "aten::exp", false)),
            "%v1~1 = aten::exp(self=%x)\n"
            "%v3 = aten::reshape(self=%v1~1, shape=[6])\n"
            "%v2 = aten::relu(self=%v3)\n"
            "%v1 = aten::reshape(self=%v2, shape=[2, 3])\n"
            "return [%v2, %v1]\n");
  EXPECT_EQ(copy.functionalized(program(copy, "aten::exp", true)),
            "%v1 = aten::exp(self=%x)\n"
            "%v2 = aten::t(self=%v1)\n"
            "%v4 = aten::reshape(self=%v2, shape=[6])\n"
            "%v3 = aten::relu(self=%v4)\n"
            "return [%v3, %v1]\n");
  EXPECT_EQ(unclear.refusal(program(unclear, "custom::gather", false)),
            "return reads %v1 after aten::relu_ wrote to what may be the same memory or a copy, depending on "
            "strides; "
            "call .clone() before writing");
  EXPECT_EQ(unread.functionalized({program(unread, "custom::gather", false)[0]}),
            "%v1 = custom::gather(self=%x)\n"
            "%v3 = aten::reshape(self=%v1, shape=[6])\n"
            "%v2 = aten::relu(self=%v3)\n"
            "return [%v2]\n");
}

TEST(Functionalize, SplittingAnAxisIsViewWhateverTheStrides) {
  Program p;
  ir::Value* x = p.input("x", floats({s0, 6}));
  ir::Value* y = p.call("custom::gather", {{"self", x}}, floats({s0, 6}));
  ir::Value* heads = p.call("aten::reshape", {{"self", y}, {"shape", Ints{-1, 2, 3}}}, floats({s0, 2, 3}));
  p.call("aten::relu_", {{"self", heads}}, floats({s0, 2, 3}));
  EXPECT_EQ(p.functionalized({p.call("aten::neg", {{"self", y}}, floats({s0, 6}))}),
            "%v1 = custom::gather(self=%x)\n"
            "%v2 = aten::reshape(self=%v1, shape=[-1, 2, 3])\n"
            "%v3 = aten::relu(self=%v2)\n"
            "%v1~1 = aten::reshape(self=%v3, shape=[s0, 6])\n"
            "%v4 = aten::neg(self=%v1~1)\n"
            "return [%v4]\n");
}

TEST(Functionalize, OutputsKeepTheirNames) {
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  ir::Value* y = p.call("aten::relu", {{"self", x}}, floats({4}));
  ir::Value* copy = p.call("aten::clone", {{"self", x}}, floats({4}));
  ir::Value* same = p.call("aten::detach", {{"self", y}}, floats({4}));
  EXPECT_EQ(p.functionalized({x, copy, same, y, copy}),
            "%v1 = aten::relu(self=%x)\n"
            "%v2 = aten::alias(self=%x)\n"
            "%v3 = aten::alias(self=%v1)\n"
            "return [%x, %v2, %v3, %v1, %v2]\n");
}

TEST(Functionalize, CustomOperators) {
  static const OperatorSchema update =
      parse_schema("custom::update(Tensor x, Tensor(a!) state) -> (Tensor, Tensor(a!))");
  static const OperatorSchema lost = parse_schema("custom::lost(Tensor x, Tensor(a!) state) -> Tensor");
  FunctionalizeOptions options;
  options.schema = [](std::string_view op) -> const OperatorSchema* {
    return op == "custom::update" ? &update : op == "custom::lost" ? &lost : nullptr;
  };
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  ir::Value* state = p.call("aten::exp", {{"self", x}}, floats({4}));
  p.calls("custom::update", {{"x", x}, {"state", state}}, {floats({4}), floats({4})});
  p.call("custom::scale_", {{"x", state}, {"factor", 2.0}}, floats({4}));
  EXPECT_EQ(p.functionalized({state}, options),
            "%v4 = aten::exp(self=%x)\n"
            "%v2, %v3 = custom::update(x=%x, state=%v4)\n"
            "%v1 = custom::scale_(x=%v3, factor=2.0)\n"
            "return [%v1]\n");
  Program q;
  ir::Value* kept = q.call("aten::exp", {{"self", q.input("x", floats({4}))}}, floats({4}));
  EXPECT_EQ(q.refusal({q.call("custom::lost", {{"x", kept}, {"state", kept}}, floats({4}))}, options),
            "custom::lost writes to its argument state but does not return it; give it a schema that returns "
            "Tensor(a!), "
            "or make it pure\n  at line 2");
}

// A branch that negates %captured in place, or a clone of it, and returns that.
ir::GraphPtr branch(ir::Value* captured, bool clones) {
  auto body = std::make_shared<ir::Graph>();
  ir::Value* x = captured;
  if (clones) {
    ir::Node* clone = body->add_node("aten::clone");
    clone->attributes = {{"self", captured}};
    x = body->add_output_of(clone, "copy", captured->type);
  }
  ir::Node* negate = body->add_node("aten::neg_");
  negate->attributes = {{"self", x}};
  body->outputs = {body->add_output_of(negate, "negative", captured->type)};
  return body;
}

TEST(Functionalize, Subgraphs) {
  for (bool clones : {true, false}) {
    Program p;
    ir::Value* x = p.input("x", floats({4}));
    ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({4}));
    p.call("aten::relu_", {{"self", y}}, floats({4}));
    const ir::GraphPtr body = branch(y, clones);
    ir::Value* z = p.call("higher_order::cond",
                          {{"pred", true}, {"true_fn", body}, {"false_fn", branch(y, true)}}, floats({4}));
    if (!clones) {
      EXPECT_EQ(p.refusal({z}),
                "aten::neg_ in a subgraph writes to %v2, which comes from outside of it; call .clone() "
                "before writing");
      continue;
    }
    const ir::Graph graph = p.functionalized_graph({z});
    EXPECT_EQ(Program::lines_of(graph),
              "%v1 = aten::exp(self=%x)\n"
              "%v2 = aten::relu(self=%v1)\n"
              "%v3 = higher_order::cond(pred=True, true_fn=graph main, false_fn=graph main)\n"
              "return [%v3]\n");
    EXPECT_EQ(ir::print(*body),
              "graph main() {\n"
              "  %negative: float32[4] = aten::neg(self=%v2)\n"
              "  return %negative\n"
              "}\n");
  }
}

// Neither the stack nor the time grows faster than the program.
TEST(Functionalize, LongChains) {
  Program p;
  ir::Value* x = p.input("x", floats({4}));
  ir::Value* y = p.call("aten::exp", {{"self", x}}, floats({4}));
  ir::Value* view = y;
  for (int i = 0; i < 20000; ++i)
    view = p.call("aten::view", {{"self", view}, {"size", Ints{4}}}, floats({4}));
  for (int i = 0; i < 20000; ++i) p.call("aten::relu_", {{"self", y}}, floats({4}));
  p.call("aten::relu_", {{"self", view}}, floats({4}));
  const std::string text = p.functionalized({y});
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + 20000 + 20000 + 1 + 20000 + 1);
}

TEST(Functionalize, MalformedArguments) {
  const auto refusal = [](std::string op, std::vector<ir::Attribute> arguments, size_t rank) {
    Program p;
    ir::Value* x = p.call("aten::exp", {{"self", p.input("x", floats(std::vector<Dim>(rank, 2)))}},
                          floats(std::vector<Dim>(rank, 2)));
    arguments.insert(arguments.begin(), {"self", x});
    ir::Value* view = p.call(std::move(op), std::move(arguments), floats({2}));
    p.call("aten::relu_", {{"self", view}}, floats({2}));
    return p.refusal({x});
  };
  EXPECT_EQ(refusal("aten::select.int", {{"dim", int64_t{2}}}, 2),
            "aten::select.int: a tensor of rank 2 has no axis 2\n  at line 2");
  EXPECT_EQ(refusal("aten::unbind.int", {{"dim", int64_t{0}}}, 0),
            "aten::unbind.int: a tensor of rank 0 has no axis 0\n  at line 2");
  EXPECT_EQ(refusal("aten::permute", {{"dims", Ints{0, 0}}}, 2),
            "aten::permute names an axis twice\n  at line 2");
  EXPECT_EQ(refusal("aten::permute", {}, 2), "aten::permute lacks its argument dims\n  at line 2");
}

}  // namespace
}  // namespace opbridge
