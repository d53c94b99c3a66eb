#include "opbridge/dim.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "ir/dim_expr.h"
#include "opbridge/error.h"

namespace opbridge {
namespace {

const Dim s0 = Dim::symbol("s0");
const Dim s1 = Dim::symbol("s1");

TEST(Dim, IntegersAreStatic) {
  EXPECT_TRUE(Dim(7).is_static());
  EXPECT_EQ(Dim(7).value(), 7);
  EXPECT_TRUE(Dim(7).is(7));
  EXPECT_FALSE(s0.is(7));
  EXPECT_THROW(s0.value(), Error);
}

TEST(Dim, SumsFold) {
  EXPECT_TRUE((s0 - s0).is(0));
  EXPECT_EQ(s0 + s0 - s0, s0);
  EXPECT_EQ(s0 + 0, s0);
  EXPECT_EQ((s0 + s1 + 1 + s0 + 2).str(), "2*s0 + s1 + 3");
  EXPECT_EQ((Dim(1) - s0).str(), "-s0 + 1");
  EXPECT_EQ(Dim(1) + s0 * 2, s0 * 2 + 1);
  EXPECT_EQ((Dim::symbol("u10") + Dim::symbol("u9") + Dim::symbol("n")).str(), "n + u9 + u10");
}

TEST(Dim, ProductsFold) {
  EXPECT_EQ(s0 * 1, s0);
  EXPECT_TRUE((s0 * 0).is(0));
  EXPECT_EQ((s0 * s1 * 3 * s0).str(), "3*s0**2*s1");
  EXPECT_EQ((s0 + 1) * 2, s0 * 2 + 2);
  EXPECT_EQ((s0 * 2 + 2) * s1, (s0 + 1) * s1 * 2);
}

TEST(Dim, FloorDivisionFolds) {
  EXPECT_TRUE(floor_div(7, 2).is(3));
  EXPECT_TRUE(floor_div(-7, 2).is(-4));
  EXPECT_EQ(floor_div(s0, 1), s0);
  EXPECT_EQ(floor_div(s0 * 6, 3), s0 * 2);
  EXPECT_EQ(floor_div(s0 * s1, s1), s0);
  EXPECT_EQ(floor_div(s0 * 2 + 2, s0 + 1), Dim(2));
  EXPECT_EQ(floor_div(s0 * 2, 4), floor_div(s0, 2));
  EXPECT_EQ(floor_div(s0 - 1, 2) + 1, floor_div(s0 + 1, 2));
  EXPECT_EQ(floor_div(s0 * 2 + s1 + 3, 2).str(), "s0 + (s1 + 1)//2 + 1");
  EXPECT_EQ(floor_div(floor_div(s0, 2), 3), floor_div(s0, 6));
  EXPECT_THROW(floor_div(s0, 0), Error);
}

TEST(Dim, ModuloFolds) {
  EXPECT_TRUE(mod(7, 3).is(1));
  EXPECT_TRUE(mod(-7, 3).is(2));
  EXPECT_TRUE(mod(7, -3).is(-2));
  EXPECT_TRUE(mod(s0 * 4, 2).is(0));
  EXPECT_TRUE(mod(s0 * s1, s0).is(0));
  EXPECT_EQ(mod(s0 * 3 + 5, 2), mod(s0 + 1, 2));
  EXPECT_EQ(mod(s0, s1).str(), "Mod(s0, s1)");
  EXPECT_THROW(mod(s0, 0), Error);
}

TEST(Dim, ExtremaFold) {
  EXPECT_TRUE(min(3, 5).is(3));
  EXPECT_EQ(max(s0, s0), s0);
  EXPECT_EQ(max(max(s0, 1), max(2, s1)).str(), "Max(2, s0, s1)");
}

TEST(Dim, OverflowIsRefused) {
  const Dim big(int64_t{1} << 62);
  EXPECT_THROW(big * 2, Error);
  EXPECT_THROW(s0 * big * 2, Error);
  EXPECT_THROW(big + big, Error);
}

TEST(Dim, EvaluatesAsPythonDoes) {
  const auto value = [](const std::string& name) -> int64_t { return name == "s0" ? 7 : 3; };
  EXPECT_EQ((s0 * 2 + s1).evaluate(value), 17);
  EXPECT_EQ(floor_div(s0 - 10, 2).evaluate(value), -2);
  EXPECT_EQ(mod(s0, s1).evaluate(value), 1);
  EXPECT_EQ(max(s0, s1 * 3).evaluate(value), 9);
  EXPECT_THROW(Dim(dim_expr::true_div(s0.expr(), s1.expr())).evaluate(value), Error);
}

TEST(Dim, ReadsSymbolsAsOthers) {
  const auto parse = [](const char* text, const std::map<std::string, Dim>& symbols) {
    return Dim::parse(text, [&](const std::string& name, std::optional<int64_t> least) {
      const auto found = symbols.find(name);
      return found == symbols.end() ? Dim::symbol(name, least) : found->second;
    });
  };
  const Dim batch = Dim::symbol("batch", 1);
  EXPECT_EQ(parse("2*s0 + s1", {{"s0", batch}}).str(), "2*batch + s1");
  EXPECT_EQ(parse("s0 + s1", {{"s0", batch}, {"s1", batch}}).str(), "2*batch");
  EXPECT_EQ(parse("s0*s1 + s0", {{"s0", 3}}).str(), "3*s1 + 3");
  EXPECT_EQ(parse("s0 - 1", {{"s0", batch}}).least(), 0);
  EXPECT_EQ((s0 * s1 + s0).symbols(), (std::vector<std::string>{"s0", "s1"}));
}

TEST(Dim, TellsTheLeastValue) {
  const Dim axis = Dim::symbol("u0", 1), count = Dim::symbol("s0", 0),
            number = Dim::symbol("n", std::nullopt);
  EXPECT_EQ(Dim(-3).least(), -3);
  EXPECT_EQ((axis * 4 + 1).least(), 5);
  EXPECT_EQ((axis - 3).least(), -2);
  EXPECT_EQ(floor_div(axis - 3, 2).least(), -1);
  EXPECT_EQ((floor_div(axis - 1, 2) + 1).least(), 1);
  EXPECT_EQ(floor_div(count, axis).least(), 0);
  EXPECT_EQ(mod(number, 4).least(), 0);
  EXPECT_EQ(max(number, 2).least(), 2);
  EXPECT_EQ((axis * count).least(), 0);
  for (const Dim& unknown : {number, -1 * axis, number + axis, min(number, axis), floor_div(axis, count),
                             mod(axis, number), Dim::parse("Symbol('u0', integer=True)")}) {
    EXPECT_EQ(unknown.least(), std::nullopt) << unknown.str();
  }
  EXPECT_EQ(Dim::parse("Symbol('u0', integer=True, nonnegative=True)").least(), 0);
  EXPECT_EQ(Dim::parse("Symbol('s0', integer=True, positive=True)").least(), 1);
}

TEST(DimParse, ReadsWhatStrPrints) {
  EXPECT_TRUE(Dim::parse("12").is(12));
  EXPECT_TRUE(Dim::parse(" -3 ").is(-3));
  EXPECT_EQ(Dim::parse("s0"), s0);
  EXPECT_EQ(Dim::parse("1 + 2*s0"), Dim::parse("2*s0 + 1"));
  EXPECT_EQ(Dim::parse("(s0//2)"), floor_div(s0, 2));
  EXPECT_EQ(Dim::parse("((s0 - 1)//2) + 1"), floor_div(s0 + 1, 2));
  EXPECT_EQ(Dim::parse("2*s0*s1//3*s1"), floor_div(s0 * s1 * 2, 3) * s1);
  EXPECT_EQ(Dim::parse("s0**2 - s0*s0 + s1"), s1);
  EXPECT_EQ(Dim::parse("-s0**2"), Dim(0) - s0 * s0);
  EXPECT_EQ(Dim::parse("Max(1, s0)"), max(1, s0));
  EXPECT_EQ(Dim::parse("Abs(s0 - 2)"), max(s0 - 2, 2 - s0));
  EXPECT_EQ(Dim::parse("Mod(s0, 2)"), Dim::parse("s0 % 2"));
  EXPECT_EQ(Dim::parse("ModularIndexing(s0, 3, 4)"), mod(floor_div(s0, 3), 4));
  EXPECT_EQ(Dim::parse("floor(s0/2 - 1/2)"), floor_div(s0 - 1, 2));
  EXPECT_EQ(Dim::parse("ceiling(s0/2)"), floor_div(s0 + 1, 2));
  EXPECT_EQ(Dim::parse("s0/s1*s1"), s0);
}

TEST(DimParse, ReadsWhatSreprPrints) {
  EXPECT_EQ(Dim::parse("Add(Mul(Integer(2), Symbol('s77', integer=True, positive=True)), Integer(1))"),
            Dim::symbol("s77") * 2 + 1);
  EXPECT_EQ(
      Dim::parse("Add(FloorDiv(Add(Symbol('s0', positive=True, integer=True), Integer(-1)), Integer(2)), "
                 "Integer(1))"),
      floor_div(s0 + 1, 2));
  EXPECT_EQ(Dim::parse("Pow(Symbol(\"s0\", integer=True), Integer(2))"), s0 * s0);
  EXPECT_EQ(Dim::parse("PowByNatural(Integer(2), Symbol('s0', integer=True))").str(), "2**s0");
  EXPECT_EQ(Dim::parse("Add(Symbol('s0', integer=True), Rational(1, 2), Rational(-1, 2))"), s0);
}

TEST(DimParse, ReadsFloatsThatAreExact) {
  const std::string size = "ToFloat(Symbol('s0', positive=True, integer=True))";
  EXPECT_EQ(Dim::parse("Max(Integer(1), TruncToInt(Mul(Float('0.5', precision=53), " + size + ")))"),
            max(1, floor_div(s0, 2)));
  EXPECT_EQ(Dim::parse("CeilToInt(FloatTrueDiv(" + size + ", Float('0.5', precision=53)))"), s0 * 2);
  EXPECT_EQ(Dim::parse("CeilToInt(IntTrueDiv(Symbol('s0', integer=True), Integer(3)))"),
            floor_div(s0 + 2, 3));
  EXPECT_EQ(Dim::parse("TruncToInt(IntTrueDiv(Add(Symbol('s0', positive=True, integer=True), Integer(-1)), "
                       "Integer(3)))"),
            floor_div(s0 - 1, 3));
}

// PyTorch computes them in doubles.
TEST(DimParse, ReadsProductsWithDecimals) {
  EXPECT_EQ(Dim::parse("TruncToInt(Mul(Float('1.70000000000000', precision=53), ToFloat(Symbol('s0', "
                       "positive=True, integer=True))))"),
            floor_div(s0 * 17, 10));
  for (const double factor : {0.1, 0.3, 0.33, 0.6, 0.9, 1.2, 1.25, 1.3, 1.7, 1.9, 2.4, 0.001}) {
    const std::string product = fmt::format("{}*ToFloat(s0 + 1)", factor);
    const auto size = [](const std::string& name, auto) { return Dim::symbol(name); };
    const Dim down = Dim::parse("TruncToInt(" + product + ")", size),
              up = Dim::parse("CeilToInt(" + product + ")");
    for (int64_t n = 0; n < 100'000; n = n < 3000 ? n + 1 : n * 11 / 10) {
      const auto value = [&](const std::string&) { return n; };
      const double expected = factor * static_cast<double>(n + 1);
      ASSERT_EQ(down.evaluate(value), static_cast<int64_t>(expected)) << factor << " * " << n + 1;
      ASSERT_EQ(up.evaluate(value), static_cast<int64_t>(std::ceil(expected))) << factor << " * " << n + 1;
    }
  }
}

TEST(DimParse, RefusesWhatItWouldGetWrong) {
  const std::string size = "ToFloat(Symbol('s0', positive=True, integer=True))";
  for (const char* text : {
           "",
           " ",
           "s0 +",
           "s0 s1",
           "(s0",
           "s0)",
           "2s0",
           "Symbol('s0'",
           "Symbol('s0",
           "Symbol(s0, integer=True)",
           "Symbol('625', integer=True)",
           "Symbol('s0')",
           "Symbol('s0 + 1', integer=True)",
           "Symbol('', integer=True)",
           "Symbol('625', integer=True)",
           "Mod(s0)",
           "Max()",
           "Foo(s0)",
           "s0//0",
           "Mod(s0, 0)",
           "9223372036854775808",
           "9223372036854775807*2",
           "2**64",
           "int_oo",
           "zuf0",
           "s0**(1/2)",
           "GreaterThan(Symbol('u0', integer=True), Integer(0))",
           "IntTrueDiv(Symbol('s0', integer=True), Integer(3))",
           "Mul(Integer(3), IntTrueDiv(Symbol('s0', integer=True), Integer(3)))",
           "TruncToInt(IntTrueDiv(Symbol('u0', integer=True), Integer(3)))",
           "RoundToInt(IntTrueDiv(Symbol('u0', integer=True), Integer(2)))",
       }) {
    EXPECT_THROW(Dim::parse(text), Error) << text;
  }
  EXPECT_THROW(Dim::parse("TruncToInt(Mul(Float('0.7', precision=53), " + size + "))"),
               Error);  // 70 gives 48
  EXPECT_THROW(Dim::parse("TruncToInt(Mul(Float('1.3', precision=53), Float('0.3', precision=53)))"), Error);
  EXPECT_THROW(Dim::parse("TruncToInt(Add(Integer(1), Mul(Float('1.3', precision=53), " + size + ")))"),
               Error);
  EXPECT_THROW(Dim::parse("Mul(Float('1.3', precision=53), " + size + ")"), Error);
  EXPECT_THROW(Dim::parse(std::string(100000, '(')), Error);
  EXPECT_THROW(Dim::parse(std::string(60000, '-') + "1"), Error);
  EXPECT_THROW(Dim::parse(std::string(60000, '(')), Error);
  std::string divisions = "s0";
  for (int i = 0; i < 20000; ++i) divisions += "%b";
  EXPECT_THROW(Dim::parse(divisions), Error);
  try {
    Dim::parse("s0 + Foo(s1)");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    EXPECT_EQ(error.message(),
              "the size \"s0 + Foo(s1)\" has Foo(…) of 1 operands, which opbridge does not read");
  }
}

// Evaluates random expressions as they are and in canonical form.
class RandomExpr {
 public:
  explicit RandomExpr(unsigned seed) : random_(seed) {}

  ExprPtr make(int depth) {
    if (depth == 0 || pick(5) == 0) {
      return pick(2) == 0 ? dim_expr::integer(pick(9) - 4) : symbol(pick(3));
    }
    using Kind = Expr::Kind;
    const Kind kinds[] = {Kind::add, Kind::mul, Kind::floor_div, Kind::mod,   Kind::min,
                          Kind::max, Kind::add, Kind::mul,       Kind::floor, Kind::ceil};
    const Kind kind = kinds[pick(10)];
    Expr expr{kind, 0, {}, {}, {}, {}};
    if (kind == Kind::floor || kind == Kind::ceil) {
      expr.operands = {raw({Kind::true_div, 0, {}, {}, {}, {make(depth - 1), make(depth - 1)}})};
    } else {
      expr.operands = {make(depth - 1), make(depth - 1)};
    }
    return raw(std::move(expr));
  }

 private:
  static ExprPtr symbol(int number);
  static ExprPtr raw(Expr expr) { return std::make_shared<const Expr>(std::move(expr)); }
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  std::mt19937 random_;
};

// The values in the test below are at least 1. One symbol has no lower bound, another one a lower bound below
// 1.
ExprPtr RandomExpr::symbol(int number) {
  const std::optional<int64_t> least[] = {1, std::nullopt, -2};
  return dim_expr::symbol("s" + std::to_string(number), least[number]);
}

struct DivisionByZero {};

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) throw DivisionByZero();
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t direct_value(const Expr& expr, const std::function<int64_t(const std::string&)>& symbols) {
  const auto at = [&](size_t i) { return direct_value(*expr.operands[i], symbols); };
  switch (expr.kind) {
    case Expr::Kind::integer:
      return expr.value;
    case Expr::Kind::symbol:
      return symbols(expr.name);
    case Expr::Kind::add:
      return at(0) + at(1);
    case Expr::Kind::mul:
      return at(0) * at(1);
    case Expr::Kind::floor_div:
      return floor_quotient(at(0), at(1));
    case Expr::Kind::mod:
      return at(0) - floor_quotient(at(0), at(1)) * at(1);
    case Expr::Kind::min:
      return std::min(at(0), at(1));
    case Expr::Kind::max:
      return std::max(at(0), at(1));
    case Expr::Kind::floor:
    case Expr::Kind::ceil: {
      const Expr& quotient = *expr.operands[0];
      const int64_t a = direct_value(*quotient.operands[0], symbols);
      const int64_t b = direct_value(*quotient.operands[1], symbols);
      return expr.kind == Expr::Kind::floor ? floor_quotient(a, b) : -floor_quotient(-a, b);
    }
    default:
      ADD_FAILURE() << "a kind that RandomExpr does not make";
      return 0;
  }
}

TEST(DimProperty, CanonicalFormKeepsTheValueAndReadsBack) {
  int compared = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const ExprPtr tree = RandomExpr(seed).make(4);
    Dim dim;
    try {
      dim = Dim(tree);
    } catch (const Error&) {
      continue;  // divides by zero for all symbols
    }
    ASSERT_EQ(Dim::parse(dim.str()), dim) << dim.str();
    ASSERT_EQ(Dim::parse(dim.str()).str(), dim.str());
    for (int64_t base : {1, 5, 12}) {
      const auto symbols = [&](const std::string& name) { return base + 7 * (name.back() - '0'); };
      int64_t expected = 0;
      try {
        expected = direct_value(*tree, symbols);
      } catch (const DivisionByZero&) {
        continue;
      }
      ASSERT_EQ(dim.evaluate(symbols), expected) << "seed " << seed << ": " << dim.str();
      ASSERT_LE(dim.least().value_or(expected), expected) << "seed " << seed << ": " << dim.str();
      ++compared;
    }
  }
  EXPECT_GT(compared, 5000);
}

}  // namespace
}  // namespace opbridge
