#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace opbridge::inspect {

// Aligns untrusted text in columns that are as wide as needed.
class Table {
 public:
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

}  // namespace opbridge::inspect
