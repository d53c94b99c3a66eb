#include "builder/constant_limit.h"

#include <fmt/format.h>

namespace opbridge {

void check_constant(const GraphBuilder& g, int64_t count) {
  if (count < 0 || count > int64_t{1} << 28)
    g.refuse(fmt::format("it would need a constant of {} elements, which exceeds the limit of 2^28", count));
}

}  // namespace opbridge
