#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "inspect/model_difference.h"
#include "inspect/text.h"

namespace opbridge::inspect {
namespace {

constexpr size_t longest_line = 300;
constexpr size_t context = 3;  // equal nodes that are shown around different ones

constexpr char page_head[] = R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>opbridge compare</title>
<style>
:root {
  color-scheme: light dark;
  --paper: #f6f7f9; --panel: #ffffff; --ink: #1d2430; --faint: #667085; --line: #d5dae1;
  --gone: #fbe4e1; --new: #dff2e3; --other: #fdf1d7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --panel: #1b2027; --ink: #e6e9ee; --faint: #98a2b3; --line: #343c47;
    --gone: #4a2523; --new: #1d3b27; --other: #43371a;
  }
}
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper); font: 13px/1.45 system-ui, sans-serif; }
header { padding: 8px 14px; background: var(--panel); border-bottom: 1px solid var(--line); position: sticky; top: 0; }
header b { font-size: 15px; }
header span { color: var(--faint); margin-left: 10px; }
main { padding: 4px 14px 30px; }
h2 { font-size: 11px; text-transform: uppercase; letter-spacing: 0.06em; color: var(--faint); margin: 18px 0 4px; }
table { border-collapse: collapse; background: var(--panel); border: 1px solid var(--line); }
table.wide { width: 100%; table-layout: fixed; }
td, th { padding: 2px 10px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line);
         overflow-wrap: anywhere; }
th { color: var(--faint); font-weight: normal; }
.mono td { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12px; }
.gone { background: var(--gone); }
.new { background: var(--new); }
.other { background: var(--other); }
.source { color: var(--faint); display: block; }
details { border: 1px solid var(--line); border-top: 0; }
summary { color: var(--faint); padding: 2px 10px; cursor: pointer; }
details table { border: 0; }
</style>
</head>
<body>
)page";

std::string html(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string row(const std::vector<std::string>& cells, std::string_view style = {}) {
  std::string text = style.empty() ? std::string("<tr>") : fmt::format("<tr class=\"{}\">", style);
  for (const std::string& cell : cells) text += fmt::format("<td>{}</td>", cell);
  return text + "</tr>\n";
}

std::string node_cell(const ir::Node& node) {
  std::string text = html(clipped(node_line(node), longest_line));
  if (!node.source.line.empty())
    text += fmt::format("<span class=\"source\">{}</span>", html(node.source.line));
  return text;
}

class PageWriter {
 public:
  PageWriter(const ModelDifference& difference, const ir::Graph& a, const ir::Graph& b)
      : difference_(difference), a_(a), b_(b) {}

  std::string page() {
    std::string text = page_head;
    const std::string verdict = difference_.same()
                                    ? "the same, up to names"
                                    : plural(difference_.different_nodes(), "node") +
                                          (difference_.different_nodes() == 1 ? " differs" : " differ");
    text += fmt::format("<header><b>{} | {}</b><span>{}</span></header>\n<main>\n", html(difference_.a.file),
                        html(difference_.b.file), verdict);
    text += overview() + values("Inputs", difference_.inputs) + values("Outputs", difference_.outputs) +
            nodes() + values("Initializers", difference_.initializers);
    return text + "</main>\n</body>\n</html>\n";
  }

 private:
  std::string overview() const {
    const Summary &a = difference_.a, &b = difference_.b;
    const auto compared = [](const std::string& name, const std::string& one, const std::string& other) {
      return row({html(name), html(one), html(other)}, one == other ? "" : "other");
    };
    std::string text = "<h2>Models</h2><table>\n" + compared("file", a.file, b.file) +
                       compared("size", size_text(a.file_bytes), size_text(b.file_bytes)) +
                       compared("producer", a.producer, b.producer) +
                       compared("weights", size_text(a.weights.bytes), size_text(b.weights.bytes));
    std::map<std::string, std::pair<std::string, std::string>> rows;
    for (const auto& [domain, version] : a.opsets)
      rows["opset " + (domain.empty() ? "ai.onnx" : domain)].first = std::to_string(version);
    for (const auto& [domain, version] : b.opsets)
      rows["opset " + (domain.empty() ? "ai.onnx" : domain)].second = std::to_string(version);
    for (const Summary::Count& each : a.operators) rows[each.op].first = std::to_string(each.count);
    for (const Summary::Count& each : b.operators) rows[each.op].second = std::to_string(each.count);
    for (const auto& [name, pair] : rows) text += compared(name, pair.first, pair.second);
    return text + "</table>\n";
  }

  static std::string values(std::string_view title, const std::vector<ValuePair>& pairs) {
    if (pairs.empty()) return {};
    std::string text = fmt::format("<h2>{}</h2><table class=\"mono\">\n", title);
    for (const ValuePair& pair : pairs) {
      const char* style = !pair.differs() ? "" : pair.a.empty() ? "new" : pair.b.empty() ? "gone" : "other";
      text += row({html(pair.name), html(pair.a), html(pair.b), html(pair.difference)}, style);
    }
    return text + "</table>\n";
  }

  std::string node_row(const NodePair& pair) const {
    const std::string one = pair.a ? node_cell(*a_.nodes[*pair.a]) : "",
                      other = pair.b ? node_cell(*b_.nodes[*pair.b]) : "";
    if (pair.a && pair.b && !pair.difference.empty())
      return row({one, other + fmt::format("<span class=\"source\">{}</span>", html(pair.difference))},
                 "other");
    return row({one, other}, !pair.b ? "gone" : !pair.a ? "new" : "");
  }

  // Runs of equal nodes are folded, except for those beside different ones.
  std::string nodes() const {
    const std::vector<NodePair>& pairs = difference_.nodes;
    std::string text = "<h2>Nodes</h2>\n";
    std::string shown, folded;
    size_t hidden = 0;
    const auto close_folded = [&] {
      if (hidden > 0)
        text += fmt::format(
            "<details><summary>{} equal nodes</summary><table class=\"wide mono\">\n{}</table></details>\n",
            hidden, folded);
      folded.clear();
      hidden = 0;
    };
    const auto close_shown = [&] {
      if (!shown.empty()) text += fmt::format("<table class=\"wide mono\">\n{}</table>\n", shown);
      shown.clear();
    };
    for (size_t i = 0; i < pairs.size(); ++i) {
      bool near = false;
      for (size_t j = i > context ? i - context : 0; j <= std::min(i + context, pairs.size() - 1); ++j)
        near |= pairs[j].differs();
      if (near) {
        close_folded();
        shown += node_row(pairs[i]);
      } else {
        close_shown();
        folded += node_row(pairs[i]);
        ++hidden;
      }
    }
    close_shown();
    close_folded();
    return text;
  }

  const ModelDifference& difference_;
  const ir::Graph& a_;
  const ir::Graph& b_;
};

}  // namespace

std::string difference_page(const ModelDifference& difference, const onnx::ModelFile& a,
                            const onnx::ModelFile& b) {
  return PageWriter(difference, a.model.graph, b.model.graph).page();
}

}  // namespace opbridge::inspect
