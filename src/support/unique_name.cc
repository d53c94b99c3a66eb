#include "support/unique_name.h"

#include <fmt/format.h>

namespace opbridge::support {

std::string unique_name(NameCounts& taken, std::string_view stem) {
  const auto [entry, fresh] = taken.try_emplace(std::string(stem), 0);
  if (fresh) return entry->first;
  int& count = entry->second;  // insertions into the map do not move it
  for (;;) {
    std::string name = fmt::format("{}_{}", stem, ++count);
    if (taken.try_emplace(name, 0).second) return name;
  }
}

}  // namespace opbridge::support
