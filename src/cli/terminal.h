// Decides what this command may draw on a terminal.
#pragma once

#include "inspect/table.h"

namespace opbridge::cli {

// Of standard output. Colours are off with NO_COLOR, and all styles with TERM=dumb; COLUMNS sets the width.
inspect::Screen screen_for_output();

// Of standard error, for lines that replace each other: a terminal that cannot move its cursor is none.
inspect::Screen screen_for_progress();

}  // namespace opbridge::cli
