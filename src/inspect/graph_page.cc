#include "inspect/graph_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "inspect/layout.h"
#include "inspect/modules.h"
#include "inspect/text.h"
#include "onnx/schema_table.h"

namespace opbridge::inspect {
namespace {

// How the page's script draws a box: a title and lines of monospaced text. In CSS pixels.
constexpr double title_height = 22;
constexpr double line_height = 15;
constexpr double lower_margin = 7;
constexpr double title_advance = 7.4;
constexpr double line_advance = 6.7;
constexpr double side_margins = 20;
constexpr double least_width = 64;

constexpr size_t longest_line = 44;
constexpr size_t longest_attribute = 2000;
constexpr int64_t most_shown_elements = 6;
constexpr size_t most_constant_lines = 4;

constexpr char page_template[] =
#include "inspect/graph_page.html.inc"
    ;

// An input of a node and the name of the parameter that takes it.
struct Use {
  std::string parameter;
  const ir::Value* value;
};

template <class Visit>
void for_each_body(const ir::Node& node, const Visit& visit) {
  for (const ir::Attribute& attribute : node.attributes) {
    if (const auto* body = std::get_if<ir::GraphPtr>(&attribute.value)) visit(attribute.name, **body);
    if (const auto* bodies = std::get_if<std::vector<ir::GraphPtr>>(&attribute.value)) {
      for (size_t i = 0; i < bodies->size(); ++i)
        visit(fmt::format("{}[{}]", attribute.name, i), *(*bodies)[i]);
    }
  }
}

// The values that `graph` and its subgraphs use from the graphs around it.
void collect_captured(const ir::Graph& graph, std::unordered_set<const ir::Value*>& own,
                      std::vector<const ir::Value*>& captured) {
  const auto use = [&](const ir::Value* value) {
    if (value != nullptr && own.insert(value).second) captured.push_back(value);
  };
  own.insert(graph.inputs.begin(), graph.inputs.end());
  own.insert(graph.initializers.begin(), graph.initializers.end());
  for (ir::Node* node : graph.nodes) {
    node->for_each_use([&](ir::Value*& value) { use(value); });
    for_each_body(*node,
                  [&](const std::string&, const ir::Graph& body) { collect_captured(body, own, captured); });
    own.insert(node->outputs.begin(), node->outputs.end());
  }
  for (const ir::Value* value : graph.outputs) use(value);
}

std::vector<const ir::Value*> captured_values(const ir::Graph& graph) {
  std::unordered_set<const ir::Value*> own;
  std::vector<const ir::Value*> captured;
  collect_captured(graph, own, captured);
  return captured;
}

std::vector<Use> uses_of(const ir::Node& node, int opset) {
  std::vector<Use> uses;
  const auto [domain, type] = ir::OpName(node.op);
  const int version = domain.empty() ? opset : onnx::newest_opset(domain);
  const onnx::OpSchema* schema = opset == 0 ? nullptr : onnx::find_schema(domain, type, version);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == nullptr) continue;
    const onnx::FormalParameter* parameter = schema == nullptr ? nullptr : schema->input(i);
    uses.push_back(
        {parameter == nullptr ? fmt::format("input {}", i) : std::string(parameter->name()), node.inputs[i]});
  }
  for (const ir::Attribute& attribute : node.attributes) {
    if (const auto* value = std::get_if<ir::Value*>(&attribute.value)) {
      if (*value != nullptr) uses.push_back({attribute.name, *value});
    } else if (const auto* values = std::get_if<std::vector<ir::Value*>>(&attribute.value)) {
      for (size_t i = 0; i < values->size(); ++i) {
        if ((*values)[i] != nullptr) uses.push_back({fmt::format("{}[{}]", attribute.name, i), (*values)[i]});
      }
    }
  }
  for_each_body(node, [&](const std::string& name, const ir::Graph& body) {
    for (const ir::Value* value : captured_values(body)) uses.push_back({name + " uses", value});
  });
  return uses;
}

// The tensor of a node without inputs that does nothing but produce it.
const ir::Weight* constant_of(const ir::Node& node) {
  if (node.op != "Constant") return nullptr;
  const ir::AttributeValue* value = node.find("value");
  const auto* tensor = value == nullptr ? nullptr : std::get_if<std::shared_ptr<const ir::Weight>>(value);
  return tensor == nullptr ? nullptr : tensor->get();
}

const ir::Weight* constant_of(const ir::Value& value) {
  if (value.weight != nullptr) return value.weight;
  return value.producer == nullptr ? nullptr : constant_of(*value.producer);
}

template <class T>
std::string elements_text(const ir::Weight& weight) {
  std::vector<T> values(static_cast<size_t>(weight.element_count()));
  std::copy_n(weight.bytes.data(), values.size() * sizeof(T), reinterpret_cast<std::byte*>(values.data()));
  const std::string text = fmt::format("{}", fmt::join(values, ", "));
  return weight.dims.empty() ? text : '[' + text + ']';
}

// The elements if there are few, otherwise element type and dims.
std::string constant_text(const ir::Weight& weight) {
  if (weight.element_count() <= most_shown_elements && weight.dims.size() <= 1) {
    if (weight.element_type == ElementType::float32) return elements_text<float>(weight);
    if (weight.element_type == ElementType::float64) return elements_text<double>(weight);
    if (weight.element_type == ElementType::int64) return elements_text<int64_t>(weight);
    if (weight.element_type == ElementType::int32) return elements_text<int32_t>(weight);
    if (weight.element_type == ElementType::string) {
      const std::string text = fmt::format("\"{}\"", fmt::join(weight.strings(), "\", \""));
      return weight.dims.empty() ? text : '[' + text + ']';
    }
  }
  return fmt::format("{}[{}]", opbridge::name(weight.element_type), fmt::join(weight.dims, ", "));
}

bool is_known(const ir::Type& type) {
  const auto* tensor = std::get_if<ir::TensorType>(&type);
  return tensor == nullptr || tensor->element_type != ElementType::undefined;
}

std::string type_text(const ir::Value& value) { return is_known(value.type) ? ir::str(value.type) : ""; }

// The contents of a box on the page. Everything but `title` and `lines` is shown when the box is selected.
struct Drawn {
  std::string_view kind;  // "node", "input", "output", "captured"
  std::string title;
  std::vector<std::string> lines = {};
  std::vector<Use> uses = {};
  std::vector<const ir::Value*> makes = {};
  const ir::Node* node = nullptr;
};

class PageWriter {
 public:
  explicit PageWriter(int opset) : opset_(opset) {}

  // The graph and its subgraphs, and the views by modules.
  std::string json(const ir::Graph& graph) {
    Drawing drawing;
    add_graph(graph, graph.name, &drawing);
    return fmt::format(R"("graphs":[{}],"views":[{}])", fmt::join(graphs_, ",\n"),
                       fmt::join(views_of(drawing), ",\n"));
  }

 private:
  // The boxes of a graph and the edges between them.
  struct Drawing {
    std::vector<Drawn> boxes = {};
    std::vector<std::pair<size_t, size_t>> edges = {};
  };

  // Returns the index by which nodes refer to the graph.
  size_t add_graph(const ir::Graph& graph, const std::string& title, Drawing* drawing = nullptr) {
    const size_t index = graphs_.size();
    graphs_.emplace_back();

    std::vector<Drawn> drawn;
    std::unordered_map<const ir::Value*, size_t> makers;
    const auto add = [&](Drawn box) {
      for (const ir::Value* value : box.makes) makers.emplace(value, drawn.size());
      drawn.push_back(std::move(box));
    };
    for (const ir::Value* value : graph.inputs) add(terminal("input", *value, true));
    for (const ir::Value* value : captured_values(graph)) {
      if (constant_of(*value) == nullptr) add(terminal("captured", *value, true));
    }
    for (const ir::Node* node : graph.nodes) {
      if (constant_of(*node) == nullptr) add(box_of(*node));
    }
    for (const ir::Value* value : graph.outputs) add(terminal("output", *value, false));

    Layout layout;
    std::set<std::pair<size_t, size_t>> edges;
    for (size_t to = 0; to < drawn.size(); ++to) {
      layout.boxes.push_back(size_of_box(drawn[to]));
      bool floats = drawn[to].kind == "node";
      for (const Use& use : drawn[to].uses) {
        const auto maker = makers.find(use.value);
        if (maker == makers.end()) continue;
        edges.emplace(maker->second, to);
        floats = floats && layout.boxes[maker->second].floats;
      }
      layout.boxes.back().floats = floats;
    }
    for (const auto& [from, to] : edges) layout.edges.push_back({.from = from, .to = to});
    lay_out(layout);
    if (drawing != nullptr) drawing->edges.assign(edges.begin(), edges.end());

    std::vector<std::string> boxes;
    for (size_t i = 0; i < drawn.size(); ++i)
      boxes.push_back(box_json(drawn[i], layout.boxes[i], makers, title));
    graphs_[index] = layout_json(title, layout, boxes);
    if (drawing != nullptr) drawing->boxes = std::move(drawn);
    return index;
  }

  static std::string layout_json(const std::string& title, const Layout& layout,
                                 const std::vector<std::string>& boxes, const std::string& more = {}) {
    std::vector<std::string> lines;
    for (const Edge& edge : layout.edges) {
      std::vector<std::string> points;
      for (const Point& point : edge.route) points.push_back(fmt::format("{:.0f},{:.0f}", point.x, point.y));
      lines.push_back(fmt::format("[{},{},[{}]]", edge.from, edge.to, fmt::join(points, ",")));
    }
    return fmt::format(R"({{"title":{},{}"width":{:.0f},"height":{:.0f},"boxes":[{}],"edges":[{}]}})",
                       json_string(title), more, layout.width, layout.height, fmt::join(boxes, ",\n"),
                       fmt::join(lines, ","));
  }

  // The views by modules. A box of the graph is given by its index there, as `ref`.
  static std::vector<std::string> views_of(const Drawing& drawing) {
    ScopedGraph scoped;
    for (const Drawn& box : drawing.boxes) {
      const bool is_onnx = box.node != nullptr;
      scoped.scopes.push_back(is_onnx ? box.node->source.scope : std::string());
    }
    scoped.edges = drawing.edges;
    const std::vector<ModuleView> views = module_views(scoped);
    std::vector<std::string> result;
    for (const ModuleView& view : views) {
      Layout layout;
      std::vector<std::string> texts;  // of the boxes, without their positions
      for (const ModuleView::Item& item : view.items) {
        if (item.box) {
          const Drawn& box = drawing.boxes[*item.box];
          layout.boxes.push_back(size_of_box(box));
          layout.boxes.back().floats = box.kind == "node" && box.uses.empty();
          texts.push_back(fmt::format(R"("ref":{})", *item.box));
          continue;
        }
        const Drawn box =
            item.view ? module_box(views[*item.view], view, drawing) : outside_box(item, drawing);
        layout.boxes.push_back(size_of_box(box));
        std::vector<std::string> lines;
        for (const std::string& line : box.lines) lines.push_back(json_string(line));
        const size_t target = item.view ? *item.view : item.source ? *item.source : *item.target;
        texts.push_back(fmt::format(R"("kind":"{}","title":{},"lines":[{}],"{}":{})", box.kind,
                                    json_string(box.title), fmt::join(lines, ","),
                                    item.view ? "view" : "outside", target));
      }
      for (const auto& [from, to] : view.edges) layout.edges.push_back({.from = from, .to = to});
      lay_out(layout);
      for (size_t i = 0; i < texts.size(); ++i) {
        const Box& box = layout.boxes[i];
        texts[i] = fmt::format(R"({{"at":[{:.0f},{:.0f},{:.0f},{:.0f}],{}}})", box.top_left.x, box.top_left.y,
                               box.width, box.height, texts[i]);
      }
      const size_t nodes = count_nodes(view, drawing);
      const std::string parent = view.parent ? std::to_string(*view.parent) : "-1";
      result.push_back(layout_json(view.scope, layout, texts,
                                   fmt::format(R"("parent":{},"nodes":{},"members":[{}],)", parent, nodes,
                                               fmt::join(view.members, ","))));
    }
    return result;
  }

  static size_t count_nodes(const ModuleView& view, const Drawing& drawing) {
    return static_cast<size_t>(
        std::ranges::count_if(view.members, [&](size_t box) { return drawing.boxes[box].node != nullptr; }));
  }

  static Drawn module_box(const ModuleView& module, const ModuleView& around, const Drawing& drawing) {
    std::string title = module.scope;
    if (!around.scope.empty() && title.starts_with(around.scope + "."))
      title = title.substr(around.scope.size() + 1);
    Drawn box{.kind = "module", .title = clipped(title, longest_line)};
    std::set<const ir::Weight*> weights;
    for (const size_t member : module.members) {
      for (const Use& use : drawing.boxes[member].uses) {
        if (use.value->weight != nullptr) weights.insert(use.value->weight);
      }
    }
    uint64_t bytes = 0;
    for (const ir::Weight* weight : weights) bytes += weight->bytes.size();
    box.lines.push_back(fmt::format("{} nodes", count_nodes(module, drawing)));
    if (bytes > 0) box.lines.push_back(size_text(bytes));
    return box;
  }

  // A box of another module that gives or takes results.
  static Drawn outside_box(const ModuleView::Item& item, const Drawing& drawing) {
    const Drawn& box = drawing.boxes[item.source ? *item.source : *item.target];
    const bool has_scope = box.node != nullptr && !box.node->source.scope.empty();
    Drawn result{.kind = item.source ? "captured" : "output", .title = box.title};
    if (has_scope) result.lines.push_back(clipped(box.node->source.scope, longest_line));
    if (item.source && !box.lines.empty() && box.lines[0] != box.title) result.lines.push_back(box.lines[0]);
    return result;
  }

  static Drawn terminal(std::string_view kind, const ir::Value& value, bool makes) {
    Drawn box{.kind = kind, .title = clipped(value.name, longest_line)};
    if (is_known(value.type)) box.lines.push_back(clipped(ir::str(value.type), longest_line));
    if (makes) {
      box.makes.push_back(&value);
    } else {
      box.uses.push_back({"value", &value});
    }
    return box;
  }

  Drawn box_of(const ir::Node& node) const {
    constexpr std::string_view aten = "aten::";
    const std::string_view op = node.op;
    Drawn box{.kind = "node",
              .title = clipped(op.starts_with(aten) ? op.substr(aten.size()) : op, longest_line),
              .uses = uses_of(node, opset_),
              .makes = {node.outputs.begin(), node.outputs.end()},
              .node = &node};
    if (!node.outputs.empty() && is_known(node.outputs[0]->type)) {
      box.lines.push_back(clipped(ir::str(node.outputs[0]->type), longest_line));
    }
    size_t constants = 0;
    for (const Use& use : box.uses) {
      const ir::Weight* weight = constant_of(*use.value);
      if (weight == nullptr || ++constants > most_constant_lines) continue;
      box.lines.push_back(
          clipped(fmt::format("{} = {}", use.parameter, constant_text(*weight)), longest_line));
    }
    return box;
  }

  static Box size_of_box(const Drawn& box) {
    double width = static_cast<double>(length(box.title)) * title_advance;
    for (const std::string& line : box.lines) {
      width = std::max(width, static_cast<double>(length(line)) * line_advance);
    }
    double height = title_height;
    if (!box.lines.empty()) height += static_cast<double>(box.lines.size()) * line_height + lower_margin;
    return {.width = std::max(width + side_margins, least_width), .height = height};
  }

  std::string box_json(const Drawn& box, const Box& layout,
                       const std::unordered_map<const ir::Value*, size_t>& makers,
                       const std::string& graph_title) {
    std::vector<std::string> lines;
    for (const std::string& line : box.lines) lines.push_back(json_string(line));
    std::vector<std::string> uses;
    for (const Use& use : box.uses) {
      const auto maker = makers.find(use.value);
      const ir::Weight* weight = constant_of(*use.value);
      uses.push_back(fmt::format("[{},{},{},{},{}]", json_string(use.parameter), json_string(use.value->name),
                                 json_string(type_text(*use.value)),
                                 maker == makers.end() ? -1 : static_cast<int64_t>(maker->second),
                                 json_string(weight == nullptr ? "" : constant_text(*weight))));
    }
    std::vector<std::string> makes;
    for (const ir::Value* value : box.makes) {
      makes.push_back(fmt::format("[{},{}]", json_string(value->name), json_string(type_text(*value))));
    }
    std::string json = fmt::format(
        R"({{"at":[{:.0f},{:.0f},{:.0f},{:.0f}],"kind":"{}","title":{},"lines":[{}],"uses":[{}],"makes":[{}])",
        layout.top_left.x, layout.top_left.y, layout.width, layout.height, box.kind, json_string(box.title),
        fmt::join(lines, ","), fmt::join(uses, ","), fmt::join(makes, ","));
    if (box.node != nullptr) json += node_json(*box.node, graph_title);
    return json + '}';
  }

  std::string node_json(const ir::Node& node, const std::string& graph_title) {
    std::vector<std::string> attributes;
    for (const ir::Attribute& attribute : node.attributes) {
      const bool is_use = std::holds_alternative<ir::Value*>(attribute.value) ||
                          std::holds_alternative<std::vector<ir::Value*>>(attribute.value);
      const bool is_graph = std::holds_alternative<ir::GraphPtr>(attribute.value) ||
                            std::holds_alternative<std::vector<ir::GraphPtr>>(attribute.value);
      if (is_use || is_graph) continue;
      attributes.push_back(
          fmt::format("[{},{}]", json_string(attribute.name),
                      json_string(clipped(attribute_text(attribute.value), longest_attribute))));
    }
    std::vector<std::string> bodies;
    for_each_body(node, [&](const std::string& name, const ir::Graph& body) {
      const size_t index = add_graph(body, fmt::format("{} › {} {}", graph_title, node.op, name));
      bodies.push_back(fmt::format("[{},{}]", json_string(name), index));
    });
    const ir::Source& source = node.source;
    std::string json =
        fmt::format(R"(,"op":{},"name":{},"scope":{},"source":{},"attributes":[{}],"bodies":[{}])",
                    json_string(node.op), json_string(node.name), json_string(source.scope),
                    json_string(source.line), fmt::join(attributes, ","), fmt::join(bodies, ","));
    if (!source.call.empty())
      json += fmt::format(R"(,"call":{},"aten":{})", json_string(source.call), json_string(source.op));
    if (source.by_user) json += R"(,"user":true)";
    if (!source.rewritten.empty()) json += fmt::format(R"(,"rewritten":{})", json_string(source.rewritten));
    return json;
  }

  static std::string attribute_text(const ir::AttributeValue& value) {
    const auto* tensor = std::get_if<std::shared_ptr<const ir::Weight>>(&value);
    return tensor == nullptr ? ir::str(value) : constant_text(**tensor);
  }

  const int opset_;
  std::vector<std::string> graphs_;
};

// All initializers, the largest first: name, type, bytes.
std::string weights_json(const ir::Graph& graph) {
  std::vector<const ir::Value*> weights(graph.initializers.begin(), graph.initializers.end());
  std::ranges::stable_sort(weights, std::greater(),
                           [](const ir::Value* value) { return value->weight->bytes.size(); });
  std::vector<std::string> rows;
  for (const ir::Value* value : weights) {
    rows.push_back(fmt::format("[{},{},{}]", json_string(value->name), json_string(ir::str(value->type)),
                               value->weight->bytes.size()));
  }
  return fmt::format("[{}]", fmt::join(rows, ","));
}

std::string export_json(const ExportFacts& facts) {
  std::vector<std::string> steps, errors;
  for (const auto& [name, seconds] : facts.steps)
    steps.push_back(fmt::format("[{},{:.3f}]", json_string(name), seconds));
  const auto number = [](double value) {
    return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
  };
  for (const CallError& error : facts.errors) {
    errors.push_back(fmt::format("[{},{},{},{}]", json_string(error.call), number(error.max_absolute),
                                 number(error.max_relative), json_string(error.mismatch)));
  }
  return fmt::format(R"({{"steps":[{}],"errors":[{}],"verdict":{}}})", fmt::join(steps, ","),
                     fmt::join(errors, ","), json_string(facts.verdict));
}

}  // namespace

std::string graph_page(const ir::Graph& graph, const Summary& summary, int opset, const ExportFacts& facts) {
  const std::string data =
      fmt::format("{{\"summary\":{},\n\"weights\":{},\n\"export\":{},\n{}}}", to_json(summary),
                  weights_json(graph), export_json(facts), PageWriter(opset).json(graph));
  constexpr std::string_view page = page_template;
  constexpr std::string_view mark = "@data@";
  constexpr size_t at = page.find(mark);
  static_assert(at != std::string_view::npos);
  std::string result(page.substr(0, at));
  result += data;
  result += page.substr(at + mark.size());
  return result;
}

}  // namespace opbridge::inspect
