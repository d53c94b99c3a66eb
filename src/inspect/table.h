#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace opbridge::inspect {

// Where text is shown: a terminal, or, if `width` is 0, a file or a pipe.
struct Screen {
  size_t width = 0;  // in columns
  bool bold = false;
  bool colours = false;
};

// Aligns untrusted text in columns. In a file they are as wide as needed; on a terminal the table fits into
// its width, with numbers on the right and a rule below the titles, as rich draws it for the Python package.
class Table {
 public:
  struct Column {
    std::string title = {};
    bool is_number = false;
  };

  // A heading, which is plain text, spans the columns; it is for those without titles.
  explicit Table(std::vector<Column> columns, std::string heading = {});
  // A cell for each column. A row that is wrong is red.
  void add(std::vector<std::string> row, bool is_wrong = false);
  bool empty() const { return rows_.empty(); }
  std::string text(const Screen& screen) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_wrong = false;
  };

  bool has_titles() const;
  std::string plain() const;
  std::string drawn(const Screen& screen) const;
  std::vector<size_t> widths_in(size_t width) const;
  std::vector<std::string> lines_of(const Row& row, const std::vector<size_t>& widths, bool at_bottom) const;

  std::vector<Column> columns_;
  std::string heading_;
  Row titles_;
  std::vector<Row> rows_;
};

// Columns without a title.
inline const Table::Column text_column{};
inline const Table::Column number_column{.is_number = true};

}  // namespace opbridge::inspect
