#include "functionalize/observers.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace opbridge::functionalization {
namespace {

constexpr float least_scale = 6.1e-5f;

// The scale and the zero point of ATen's ChooseQuantizationParams, computed in the same C++ types.
std::pair<float, int32_t> choose_parameters(float min, float max, int32_t least, int32_t greatest,
                                            bool symmetric) {
  const bool centered = symmetric && min < 0 && max > 0;
  if (centered) {
    const int lowest = -((greatest - least) / 2 + 1);
    const int highest = (greatest - least) / 2;
    const double widest = std::max(std::fabs(static_cast<double>(min) / lowest),  //
                                   std::fabs(static_cast<double>(max) / highest));
    min = static_cast<float>(widest * lowest);
    max = static_cast<float>(widest * highest);
  }
  min = std::min(min, 0.f);
  max = std::max(max, 0.f);
  double scale = (static_cast<double>(max) - min) / (greatest - least);
  if (static_cast<float>(scale) == 0.f || std::isinf(1.f / static_cast<float>(scale))) scale = 0.1;
  if (scale < least_scale) {
    const auto before = static_cast<float>(scale);
    scale = least_scale;
    if (min == 0.f) {
      max = least_scale * static_cast<float>(greatest - least);
    } else if (max == 0.f) {
      min = -least_scale * static_cast<float>(greatest - least);
    } else {
      min *= least_scale / before;
      max *= least_scale / before;
    }
  }
  const double from_min = least - min / scale;
  const double from_max = greatest - max / scale;
  const bool min_is_nearer =
      std::abs(least) + std::fabs(min / scale) < std::abs(greatest) + std::fabs(max / scale);
  double zero = min_is_nearer ? from_min : from_max;
  if (centered) zero = (static_cast<double>(least) + greatest) / 2;
  zero = std::clamp(std::nearbyint(zero), static_cast<double>(least), static_cast<double>(greatest));
  return {static_cast<float>(scale), static_cast<int32_t>(zero)};
}

}  // namespace

bool is_up_to_date(const Observed& observed, int64_t least, int64_t greatest, bool symmetric) {
  const auto is_known = [](const ir::Weight* weight, ElementType type) {
    return weight != nullptr && weight->element_type == type;
  };
  const bool in_range = -(1 << 30) < least && least < greatest && greatest < 1 << 30;
  if (!in_range || !is_known(observed.running_min, ElementType::float32) ||
      !is_known(observed.running_max, ElementType::float32) ||
      !is_known(observed.scale, ElementType::float32) || !is_known(observed.zero_point, ElementType::int32)) {
    return false;
  }
  const auto min = observed.running_min->as<float>(), max = observed.running_max->as<float>();
  const auto scale = observed.scale->as<float>();
  const auto zero_point = observed.zero_point->as<int32_t>();
  if (max.size() != min.size() || scale.size() != min.size() || zero_point.size() != min.size()) return false;
  for (size_t i = 0; i < min.size(); ++i) {
    if (!(std::isfinite(min[i]) && std::isfinite(max[i]) && min[i] <= max[i])) return false;
    const std::pair<float, int32_t> expected = choose_parameters(min[i], max[i], static_cast<int32_t>(least),
                                                                 static_cast<int32_t>(greatest), symmetric);
    if (expected != std::pair(scale[i], zero_point[i])) return false;
  }
  return true;
}

}  // namespace opbridge::functionalization
