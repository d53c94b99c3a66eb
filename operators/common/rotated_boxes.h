// Rotated boxes (center x, center y, width, height, angle in radians) and their intersection.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace opbridge::op {

// Always in double precision, because areas are differences of products of coordinates.
struct RotatedBox {
  double x, y, half_width, half_height, cos, sin;

  // With y pointing down, as in images, positive angles turn clockwise; with `direction` -1,
  // counterclockwise.
  template <class T>
  static RotatedBox from(const T* row, double direction) {
    const double angle = direction * static_cast<double>(row[4]);
    return {static_cast<double>(row[0]),
            static_cast<double>(row[1]),
            static_cast<double>(row[2]) / 2,
            static_cast<double>(row[3]) / 2,
            std::cos(angle),
            std::sin(angle)};
  }

  double area() const { return 4 * half_width * half_height; }
  double radius() const { return std::hypot(half_width, half_height); }
};

// A convex polygon that can be cut by lines.
class Polygon {
 public:
  struct Point {
    double x, y;
  };

  void add(Point point) { points_[count_++] = point; }

  // Keeps the part where `side`, a linear function of a point, is not negative.
  template <class Side>
  void cut(const Side& side) {
    Polygon kept;
    for (std::size_t i = 0; i < count_; ++i) {
      const Point from = points_[i], to = points_[i + 1 == count_ ? 0 : i + 1];
      const double a = side(from), b = side(to);
      if (a >= 0) kept.add(from);
      if ((a > 0 && b < 0) || (a < 0 && b > 0)) {
        const double t = a / (a - b);
        kept.add({from.x + t * (to.x - from.x), from.y + t * (to.y - from.y)});
      }
    }
    *this = kept;
  }

  double area() const {
    double twice = 0;
    for (std::size_t i = 2; i < count_; ++i) {
      const double ax = points_[i - 1].x - points_[0].x, ay = points_[i - 1].y - points_[0].y;
      const double bx = points_[i].x - points_[0].x, by = points_[i].y - points_[0].y;
      twice += ax * by - bx * ay;
    }
    return std::abs(twice) / 2;
  }

 private:
  std::array<Point, 8> points_;  // four corners, and one more for each of four cuts
  std::size_t count_ = 0;
};

// Cuts the corners of `a` by the sides of `b`, in the frame of `b`, where they are parallel to the axes.
inline double intersection(const RotatedBox& a, const RotatedBox& b) {
  const double dx = a.x - b.x, dy = a.y - b.y;
  const double x = dx * b.cos + dy * b.sin, y = dy * b.cos - dx * b.sin;
  const double cos = a.cos * b.cos + a.sin * b.sin, sin = a.sin * b.cos - a.cos * b.sin;
  const double wx = cos * a.half_width, wy = sin * a.half_width;
  const double hx = -sin * a.half_height, hy = cos * a.half_height;
  Polygon polygon;
  polygon.add({x - wx - hx, y - wy - hy});
  polygon.add({x + wx - hx, y + wy - hy});
  polygon.add({x + wx + hx, y + wy + hy});
  polygon.add({x - wx + hx, y - wy + hy});
  polygon.cut([&](Polygon::Point p) { return b.half_width - p.x; });
  polygon.cut([&](Polygon::Point p) { return b.half_width + p.x; });
  polygon.cut([&](Polygon::Point p) { return b.half_height - p.y; });
  polygon.cut([&](Polygon::Point p) { return b.half_height + p.y; });
  return polygon.area();
}

// The intersection over the union, or over the area of `a`. Boxes without area overlap nothing; NaN gives
// NaN.
inline double overlap(const RotatedBox& a, const RotatedBox& b, bool over_union) {
  const double area = a.area(), other = b.area();
  if (area < 1e-14 || other < 1e-14) return 0;
  if (!std::isfinite(area + other + a.x + a.y + a.cos + b.x + b.y + b.cos)) return std::nan("");
  if (std::hypot(a.x - b.x, a.y - b.y) > a.radius() + b.radius()) return 0;
  const double common = intersection(a, b);
  return common / (over_union ? area + other - common : area);
}

}  // namespace opbridge::op
