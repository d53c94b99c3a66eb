// Window functions of signal processing. They are constants, since their lengths are.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

// a - b cos(2 pi k / period) + c cos(4 pi k / period)
struct Cosines {
  double a, b, c;
};

constexpr Cosines hann{0.5, 0.5, 0}, hamming{0.54, 0.46, 0}, blackman{0.42, 0.5, 0.08};

template <class At>
Value window(GraphBuilder& g, int64_t length, bool periodic, At at) {
  const ElementType type = g.result().element_type;
  if (type != ElementType::float32 && type != ElementType::float64)
    g.refuse("PyTorch rounds every step of a window in this type; create it in float32 and convert it");
  check_constant(g, length);
  const auto period = static_cast<double>(periodic ? length : length - 1);
  std::vector<double> values;
  for (int64_t k = 0; k < length; ++k)
    values.push_back(length == 1 ? 1 : at(static_cast<double>(k) / period));
  if (type == ElementType::float64) return g.constant(ir::Weight::of<double>(values, {length}));
  return g.constant(ir::Weight::of<float>(std::vector<float>(values.begin(), values.end()), {length}));
}

Value cosines(GraphBuilder& g, int64_t length, bool periodic, Cosines of) {
  return window(g, length, periodic, [of](double at) {
    const double turn = 2 * std::numbers::pi * at;
    return of.a - of.b * std::cos(turn) + of.c * std::cos(2 * turn);
  });
}

Value bartlett(GraphBuilder& g, int64_t length, bool periodic) {
  return window(g, length, periodic, [](double at) { return at <= 0.5 ? 2 * at : 2 - 2 * at; });
}

// The modified Bessel function of order 0 (DLMF 10.25.2), which not every C++ library has. All terms are
// positive, so no digits are lost.
double bessel_i0(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > sum * std::numeric_limits<double>::epsilon() / 4; ++k) {
    term *= x / (2 * k) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

Value kaiser(GraphBuilder& g, int64_t length, bool periodic, double beta) {
  return window(g, length, periodic, [beta](double at) {
    const double height = std::sqrt(1 - (2 * at - 1) * (2 * at - 1));
    return bessel_i0(beta * height) / bessel_i0(beta);
  });
}

}  // namespace

void register_window_functions(SymbolicRegistry& registry) {
  auto on = add(registry);
  const auto line = [](const char* name, const char* arguments) {
    return fmt::format("aten::{}(int window_length{}, *, {}) -> Tensor", name, arguments, tensor_options);
  };
  for (const auto& [name, of] :
       {std::pair{"hann_window", hann}, {"hamming_window", hamming}, {"blackman_window", blackman}}) {
    on(line(name, ""), Since{9}, [of](GraphBuilder& g, int64_t length, Ignored, Ignored, Ignored, Ignored) {
      return cosines(g, length, true, of);
    });
    on(line(fmt::format("{}.periodic", name).c_str(), ", bool periodic"), Since{9},
       [of](GraphBuilder& g, int64_t length, bool periodic, Ignored, Ignored, Ignored, Ignored) {
         return cosines(g, length, periodic, of);
       });
  }
  on(line("hamming_window.periodic_alpha", ", bool periodic, float alpha"), Since{9},
     [](GraphBuilder& g, int64_t length, bool periodic, double alpha, Ignored, Ignored, Ignored, Ignored) {
       return cosines(g, length, periodic, {alpha, hamming.b, 0});
     });
  on(line("hamming_window.periodic_alpha_beta", ", bool periodic, float alpha, float beta"), Since{9},
     [](GraphBuilder& g, int64_t length, bool periodic, double alpha, double beta, Ignored, Ignored, Ignored,
        Ignored) {
       return cosines(g, length, periodic, {alpha, beta, 0});
     });
  on(line("bartlett_window", ""), Since{9},
     [](GraphBuilder& g, int64_t length, Ignored, Ignored, Ignored, Ignored) {
       return bartlett(g, length, true);
     });
  on(line("bartlett_window.periodic", ", bool periodic"), Since{9},
     [](GraphBuilder& g, int64_t length, bool periodic, Ignored, Ignored, Ignored, Ignored) {
       return bartlett(g, length, periodic);
     });
  on(line("kaiser_window", ""), Since{9},
     [](GraphBuilder& g, int64_t length, Ignored, Ignored, Ignored, Ignored) {
       return kaiser(g, length, true, 12);
     });
  on(line("kaiser_window.periodic", ", bool periodic"), Since{9},
     [](GraphBuilder& g, int64_t length, bool periodic, Ignored, Ignored, Ignored, Ignored) {
       return kaiser(g, length, periodic, 12);
     });
  on(line("kaiser_window.beta", ", bool periodic, float beta"), Since{9},
     [](GraphBuilder& g, int64_t length, bool periodic, double beta, Ignored, Ignored, Ignored, Ignored) {
       return kaiser(g, length, periodic, beta);
     });
}

}  // namespace opbridge::lowering
