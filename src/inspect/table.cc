#include "inspect/table.h"

#include <algorithm>

#include "inspect/text.h"

namespace opbridge::inspect {

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  widths_.resize(std::max(widths_.size(), row.size()), 0);
  for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], length(row[i]));
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::string result;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  " + row[i];
      if (i + 1 < row.size()) line += std::string(widths_[i] - length(row[i]), ' ');
    }
    result += line + '\n';
  }
  return result;
}

}  // namespace opbridge::inspect
