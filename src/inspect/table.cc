#include "inspect/table.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "inspect/text.h"

namespace opbridge::inspect {
namespace {

constexpr size_t gap = 3;         // between the columns of a drawn table
constexpr size_t least_text = 8;  // a column of text is made no narrower than this

constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view red = "\x1b[31m";
constexpr std::string_view usual = "\x1b[0m";

std::string spaces(size_t count) { return std::string(count, ' '); }

void add_line(std::string& text, std::string_view line, std::string_view style) {
  line = line.substr(0, line.find_last_not_of(' ') + 1);
  if (style.empty() || line.empty()) {
    text.append(line) += '\n';
  } else {
    text.append(style).append(line).append(usual) += '\n';
  }
}

size_t longest_word(std::string_view text) {
  size_t longest = 0;
  for (const std::string& word : wrapped(text, 1, false)) longest = std::max(longest, columns_of(word));
  return longest;
}

}  // namespace

Table::Table(std::vector<Column> columns, std::string heading)
    : columns_(std::move(columns)), heading_(std::move(heading)) {
  for (const Column& column : columns_) titles_.cells.push_back(printable(column.title));
}

void Table::add(std::vector<std::string> row, bool is_wrong) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back({std::move(row), is_wrong});
}

bool Table::has_titles() const {
  return std::ranges::any_of(columns_, [](const Column& column) { return !column.title.empty(); });
}

std::string Table::text(const Screen& screen) const { return screen.width == 0 ? plain() : drawn(screen); }

std::string Table::plain() const {
  std::vector<const Row*> rows;
  if (has_titles()) rows.push_back(&titles_);
  for (const Row& row : rows_) rows.push_back(&row);
  std::vector<size_t> widths(columns_.size(), 0);
  for (const Row* row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], length(row->cells[i]));
  }
  std::string result = heading_.empty() ? "" : heading_ + '\n';
  for (const Row* row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      result += "  " + row->cells[i];
      if (i + 1 < widths.size()) result += spaces(widths[i] - length(row->cells[i]));
    }
    result += '\n';
  }
  return result;
}

std::string Table::drawn(const Screen& screen) const {
  const std::vector<size_t> widths = widths_in(screen.width);
  size_t width = std::accumulate(widths.begin(), widths.end(), gap * (widths.size() - 1));
  std::string result;
  const std::string_view of_titles = screen.bold ? bold : "";
  if (!heading_.empty()) {
    for (const std::string& line : wrapped(heading_, screen.width)) {
      add_line(result, line, of_titles);
      width = std::max(width, columns_of(line));
    }
  }
  if (has_titles()) {
    for (const std::string& line : lines_of(titles_, widths, true)) add_line(result, line, of_titles);
  }
  if (!result.empty()) {
    for (size_t i = 0; i < width; ++i) result += "─";
    result += '\n';
  }
  for (const Row& row : rows_) {
    for (const std::string& line : lines_of(row, widths, false))
      add_line(result, line, row.is_wrong && screen.colours ? red : "");
  }
  return result;
}

// The widest columns give way until the table fits. Titles and text are wrapped, but no number.
std::vector<size_t> Table::widths_in(size_t width) const {
  std::vector<size_t> widths(columns_.size(), 0), least(columns_.size(), 0);
  const auto fit = [&](const Row& row) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], columns_of(row.cells[i]));
      least[i] = std::max(least[i], columns_[i].is_number ? longest_word(row.cells[i])
                                                          : std::min(columns_of(row.cells[i]), least_text));
    }
  };
  fit(titles_);
  for (const Row& row : rows_) fit(row);
  size_t excess = std::accumulate(widths.begin(), widths.end(), gap * (widths.size() - 1));
  excess -= std::min(excess, width);
  for (; excess > 0; --excess) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == widths.size()) break;
    --widths[widest];
  }
  return widths;
}

std::vector<std::string> Table::lines_of(const Row& row, const std::vector<size_t>& widths,
                                         bool at_bottom) const {
  std::vector<std::vector<std::string>> cells;
  size_t height = 1;
  for (size_t i = 0; i < widths.size(); ++i) {
    cells.push_back(wrapped(row.cells[i], widths[i]));
    height = std::max(height, cells.back().size());
  }
  std::vector<std::string> lines(height);
  for (size_t i = 0; i < widths.size(); ++i) {
    const size_t above = at_bottom ? height - cells[i].size() : 0;
    for (size_t j = 0; j < height; ++j) {
      const bool is_text = j >= above && j - above < cells[i].size();
      const std::string cell = is_text ? cells[i][j - above] : "";
      const std::string padding = spaces(widths[i] - std::min(widths[i], columns_of(cell)));
      if (i > 0) lines[j] += spaces(gap);
      lines[j] += columns_[i].is_number ? padding + cell : cell + padding;
    }
  }
  return lines;
}

}  // namespace opbridge::inspect
