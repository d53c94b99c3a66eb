#include "frontend/node_source.h"

#include <string>

namespace opbridge {
namespace {

constexpr std::string_view frame_start = "File \"";

std::string_view until(std::string_view text, std::string_view end) { return text.substr(0, text.find(end)); }

std::string_view after(std::string_view text, std::string_view start) {
  const size_t at = text.find(start);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + start.size());
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

bool is_inside_torch(std::string_view file) {
  return file.find("-packages/torch/") != std::string_view::npos;
}

std::string read_scope(std::string_view module_stack) {
  const size_t last = module_stack.rfind(';');
  const std::string_view innermost =
      last == std::string_view::npos ? module_stack : module_stack.substr(last + 1);
  return std::string(until(after(innermost, ","), ","));
}

// `frame` starts after `File "`: model.py", line 12, in forward\n    return self.conv(x)
std::string read_frame(std::string_view frame) {
  const std::string_view head = until(frame, "\n");
  const std::string_view path = until(head, "\"");
  std::string line(path.substr(path.find_last_of("/\\") + 1));
  line += ':';
  line += until(after(head, "line "), ",");
  line += " in ";
  line += after(head, ", in ");
  const std::string_view code = trimmed(until(after(frame, "\n"), "\n"));
  if (!code.empty() && !code.starts_with(frame_start)) {
    line += ": ";
    line += code;
  }
  return line;
}

std::string read_line(std::string_view stack_trace) {
  std::string_view innermost;
  for (size_t end = std::string_view::npos;;) {
    const size_t at = stack_trace.rfind(frame_start, end);
    if (at == std::string_view::npos) break;
    const std::string_view frame = stack_trace.substr(at + frame_start.size());
    if (innermost.empty()) innermost = frame;
    if (!is_inside_torch(until(frame, "\""))) return read_frame(frame);
    if (at == 0) break;
    end = at - 1;
  }
  return innermost.empty() ? std::string() : read_frame(innermost);
}

}  // namespace

ir::Source read_source(std::string_view module_stack, std::string_view stack_trace) {
  return {read_scope(module_stack), read_line(stack_trace)};
}

}  // namespace opbridge
