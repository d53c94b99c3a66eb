// tests/python/test_operator_deform_conv2d.py runs only the vector width of the local CPU; this test runs all
// widths.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "../../operators/deform_conv2d/tile.h"

namespace opbridge::op::deform_conv2d {
namespace {

// Two groups of 6 channels to 40, which need three panels of float; offsets for groups of 4 channels.
constexpr Geometry kGeometry{12, 9, 11, 80, 5, 12, 3, 2, 2, 1, 1, 1, 1, 1, 2, 3};

template <class T>
std::vector<T> random(std::int64_t count, double scale) {
  static std::mt19937 generator(0);
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(normal(generator));
  return values;
}

template <class T>
struct Call {
  const Geometry& g = kGeometry;
  std::vector<T> image = random<T>(g.channels * g.height * g.width, 1);  // [channel][y][x]
  std::vector<T> weight = random<T>(g.out_channels * g.in_group() * g.taps(), 1);
  std::vector<T> bias = random<T>(g.out_channels, 1);
  std::vector<T> offset = random<T>(2 * g.offset_groups * g.taps() * g.pixels(), 2);
  std::vector<T> mask = random<T>(g.offset_groups * g.taps() * g.pixels(), 1);

  T weight_at(std::int64_t out, std::int64_t channel, std::int64_t tap) const {
    return weight[(out * g.in_group() + channel) * g.taps() + tap];
  }

  double image_at(std::int64_t channel, double y, double x) const {
    if (y < 0 || x < 0 || y >= static_cast<double>(g.height) || x >= static_cast<double>(g.width)) return 0;
    return image[(channel * g.height + static_cast<std::int64_t>(y)) * g.width +
                 static_cast<std::int64_t>(x)];
  }

  double sample(std::int64_t channel, std::int64_t tap, std::int64_t pixel) const {
    const std::int64_t plane = channel / (g.channels / g.offset_groups) * g.taps() + tap;
    const auto place = [&](std::int64_t at, std::int64_t stride, std::int64_t pad, std::int64_t dilation,
                           std::int64_t tap_at, std::int64_t axis) {
      return static_cast<double>(at * stride - pad + tap_at * dilation) +
             offset[(2 * plane + axis) * g.pixels() + pixel];
    };
    const double y = place(pixel / g.out_width, g.stride_h, g.pad_h, g.dilation_h, tap / g.kernel_w, 0);
    const double x = place(pixel % g.out_width, g.stride_w, g.pad_w, g.dilation_w, tap % g.kernel_w, 1);
    const double low_y = std::floor(y), low_x = std::floor(x), dy = y - low_y, dx = x - low_x;
    return mask[plane * g.pixels() + pixel] * ((1 - dy) * ((1 - dx) * image_at(channel, low_y, low_x) +
                                                           dx * image_at(channel, low_y, low_x + 1)) +
                                               dy * ((1 - dx) * image_at(channel, low_y + 1, low_x) +
                                                     dx * image_at(channel, low_y + 1, low_x + 1)));
  }

  // The definition.
  double expected(std::int64_t out, std::int64_t pixel) const {
    double sum = bias[out];
    for (std::int64_t c = 0; c < g.in_group(); ++c) {
      const std::int64_t channel = out / g.out_group() * g.in_group() + c;
      for (std::int64_t tap = 0; tap < g.taps(); ++tap)
        sum += weight_at(out, c, tap) * sample(channel, tap, pixel);
    }
    return sum;
  }

  // By run_tile, in two tiles.
  template <int lanes>
  std::vector<T> run() const {
    const std::int64_t padded = padded_group<T>(g), depth = g.taps() * g.in_group();
    std::vector<T> pixels(g.padded_height() * g.padded_width() * g.channels);
    for (std::int64_t c = 0; c < g.channels; ++c) {
      for (std::int64_t y = 0; y < g.height; ++y) {
        for (std::int64_t x = 0; x < g.width; ++x)
          pixels[((y + 1) * g.padded_width() + x + 1) * g.channels + c] =
              image[(c * g.height + y) * g.width + x];
      }
    }
    std::vector<T> weights(g.groups * padded * depth), packed_bias(g.groups * padded);
    for (std::int64_t o = 0; o < g.out_channels; ++o) {
      const std::int64_t column = o / g.out_group() * padded + o % g.out_group();
      packed_bias[column] = bias[o];
      for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
        for (std::int64_t c = 0; c < g.in_group(); ++c) {
          const std::int64_t row = column / kPanel<T> * depth + tap * g.in_group() + c;
          weights[row * kPanel<T> + column % kPanel<T>] = weight_at(o, c, tap);
        }
      }
    }
    std::vector<T> out(g.out_channels * g.pixels());
    const Image<T, T> all{&g,          pixels.data(), weights.data(), packed_bias.data(), offset.data(),
                          mask.data(), out.data()};
    std::vector<T> samples(kTilePixels * taps_per_block(g) * g.channels),
        sums(kTilePixels * g.groups * padded);
    const std::int64_t first = 2 * kGroupPixels + 1;
    run_tile<T, T, lanes>(all, 0, first, {samples.data(), sums.data()});
    run_tile<T, T, lanes>(all, first, g.pixels() - first, {samples.data(), sums.data()});
    return out;
  }
};

template <class T, int lanes>
void expect_the_definition(double tolerance) {
  const Call<T> call;
  const std::vector<T> out = call.template run<lanes>();
  for (std::int64_t o = 0; o < kGeometry.out_channels; ++o) {
    for (std::int64_t pixel = 0; pixel < kGeometry.pixels(); ++pixel)
      EXPECT_NEAR(out[o * kGeometry.pixels() + pixel], call.expected(o, pixel), tolerance)
          << o << ' ' << pixel;
  }
}

TEST(DeformConv2d, VectorsOf16Bytes) {
  expect_the_definition<float, 4>(1e-4);
  expect_the_definition<double, 2>(1e-12);
}

TEST(DeformConv2d, VectorsOf32Bytes) {
  expect_the_definition<float, 8>(1e-4);
  expect_the_definition<double, 4>(1e-12);
}

TEST(DeformConv2d, VectorsOf64Bytes) {
  expect_the_definition<float, 16>(1e-4);
  expect_the_definition<double, 8>(1e-12);
}

// float cannot represent 2^24 + 3 and would round it to 2^24 + 4.
TEST(DeformConv2d, SamplesOutsideOfAHighImageLieInItsBorder) {
  Geometry g = kGeometry;
  g.height = (1 << 24) + 3;
  const std::vector<float> offset(2 * g.offset_groups * g.taps() * g.pixels(), 1e9f);
  const Image<float, float> image{&g, nullptr, nullptr, nullptr, offset.data(), nullptr, nullptr};
  Neighbours<float> n;
  locate(image, 0, 0, 0, g.pixels(), n);
  for (std::int64_t p = 0; p < g.pixels(); ++p) {
    EXPECT_LT(n.y[p] + 1, g.padded_height());
    EXPECT_EQ(n.x[p], 0);
  }
}

}  // namespace
}  // namespace opbridge::op::deform_conv2d
