#include "json_mutator.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace opbridge::fuzz {
namespace {

enum class Kind : uint8_t { object, array, string, number, word };

constexpr size_t none = SIZE_MAX;

// A JSON value; values are listed in the order in which they begin.
struct Node {
  Kind kind;
  size_t begin = 0, end = 0;
  size_t parent = none;
  std::string_view key;  // its key in an object; list elements have the list's key

  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<std::vector<Node>> parse() {
    if (!value(none, {}, 0)) return std::nullopt;
    return std::move(nodes_);
  }

 private:
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char token) {
    if (next() != token) return false;
    ++at_;
    return true;
  }

  bool skip_string() {
    if (!take('"')) return false;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    return take('"');
  }

  bool members(size_t self, int depth) {
    ++at_;
    if (take('}')) return true;
    do {
      next();
      const size_t begin = at_ + 1;
      if (!skip_string()) return false;
      const std::string_view key = text_.substr(begin, at_ - 1 - begin);
      if (!take(':') || !value(self, key, depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool elements(size_t self, std::string_view key, int depth) {
    ++at_;
    if (take(']')) return true;
    do {
      if (!value(self, key, depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool value(size_t parent, std::string_view key, int depth) {
    constexpr int deepest = 64;
    if (depth > deepest) return false;
    const char first = next();
    const size_t self = nodes_.size();
    nodes_.push_back({Kind::word, at_, at_, parent, key});
    bool read = true;
    if (first == '{') {
      nodes_[self].kind = Kind::object;
      read = members(self, depth);
    } else if (first == '[') {
      nodes_[self].kind = Kind::array;
      read = elements(self, key, depth);
    } else if (first == '"') {
      nodes_[self].kind = Kind::string;
      read = skip_string();
    } else {
      if (first == '-' || (first >= '0' && first <= '9')) nodes_[self].kind = Kind::number;
      at_ = std::min(text_.find_first_of(",]} \n", at_), text_.size());
    }
    nodes_[self].end = at_;
    return read && at_ > nodes_[self].begin;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Node> nodes_;
};

constexpr const char* numbers[] = {"0",
                                   "1",
                                   "2",
                                   "3",
                                   "5",
                                   "7",
                                   "16",
                                   "100",
                                   "65537",
                                   "1048576",
                                   "-1",
                                   "-2",
                                   "-7",
                                   "2147483647",
                                   "2147483648",
                                   "-2147483648",
                                   "4294967296",
                                   "1073741824",
                                   "4611686018427387904",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "0.0",
                                   "-0.5",
                                   "0.1",
                                   "1e300",
                                   "1e-300",
                                   "2.5"};
constexpr const char* arguments[] = {
    R"({"as_none": true})",        R"({"as_int": 0})",       R"({"as_int": -1})",
    R"({"as_int": 2147483648})",   R"({"as_float": 0.0})",   R"({"as_float": "NaN"})",
    R"({"as_float": "Infinity"})", R"({"as_bool": false})",  R"({"as_ints": []})",
    R"({"as_ints": [0]})",         R"({"as_ints": [1, 0]})", R"({"as_ints": [2, 2, 2]})",
    R"({"as_string": ""})",        R"({"as_floats": []})",   R"({"as_tensors": []})",
    R"({"as_bools": [true]})"};
constexpr const char* sizes[] = {"\"s0\"",         "\"2*s0\"",   "\"s0 + 1\"", "\"s0 - 4\"",     "\"s0//2\"",
                                 "\"Mod(s0, 2)\"", "\"u0\"",     "\"-s0\"",    "\"Max(1, s0)\"", "\"s0**2\"",
                                 "\"0\"",          "\"s77*s0\"", "\"\"",       "\"s0/2\""};

class Mutator {
 public:
  Mutator(std::string_view text, std::vector<Node> nodes, Random& random)
      : text_(text), nodes_(std::move(nodes)), random_(random) {}

  std::string run() {
    switch (below(8)) {
      case 0:
      case 1:
        return replaced(some(Kind::number), other_number());
      case 2:
        return with_other_name();
      case 3:
        return with_other_subtree();
      case 4:
      case 5:
        return with_other_list();
      case 6:
        return replaced(some_of_key("arg"), from(arguments));
      default:
        return replaced(some_of_key("expr_str"), from(sizes));
    }
  }

 private:
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  template <size_t count>
  std::string from(const char* const (&choices)[count]) {
    return choices[below(count)];
  }

  template <class Condition>
  const Node* some_where(Condition condition) {
    const size_t start = below(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[(start + i) % nodes_.size()];
      if (condition(node)) return &node;
    }
    return nullptr;
  }
  const Node* some(Kind kind) {
    return some_where([&](const Node& node) { return node.kind == kind; });
  }
  const Node* some_of_key(std::string_view key) {
    return some_where([&](const Node& node) { return node.key == key; });
  }

  std::string replaced(const Node* node, std::string_view by) const {
    return node == nullptr ? std::string(text_) : replaced(node->begin, node->end, by);
  }
  std::string replaced(size_t begin, size_t end, std::string_view by) const {
    return std::string(text_).replace(begin, end - begin, by);
  }

  std::string other_number() {
    const Node* other = below(3) > 0 ? nullptr : some(Kind::number);
    return other == nullptr ? from(numbers) : std::string(other->of(text_));
  }

  std::string with_other_name() {
    const Node* name = some(Kind::string);
    if (name == nullptr) return std::string(text_);
    const bool of_same_key = below(4) > 0;
    const Node* other = some_where([&](const Node& node) {
      return node.kind == Kind::string && (!of_same_key || node.key == name->key) &&
             node.of(text_) != name->of(text_);
    });
    return other == nullptr ? std::string(text_) : replaced(name, other->of(text_));
  }

  std::string with_other_subtree() {
    const Node& node = nodes_[below(nodes_.size())];
    if (below(8) == 0) return replaced(&node, "null");
    const Node* other = some_where([&](const Node& each) {
      return each.key == node.key && each.kind == node.kind && each.of(text_) != node.of(text_);
    });
    return other == nullptr ? std::string(text_) : replaced(&node, other->of(text_));
  }

  // Drops one element, doubles it, moves it to the end, or empties the list.
  std::string with_other_list() {
    const Node* list = some(Kind::array);
    if (list == nullptr) return std::string(text_);
    const auto self = static_cast<size_t>(list - nodes_.data());
    std::vector<std::string_view> elements;
    for (const Node& node : nodes_) {
      if (node.parent == self) elements.push_back(node.of(text_));
    }
    if (elements.empty()) return replaced(list, R"([{"as_int": 3}])");
    const size_t at = below(elements.size());
    const std::string_view element = elements[at];
    const size_t what = below(8);
    if (what == 0) return replaced(list, "[]");
    if (what < 4 || what == 7) elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
    if (what >= 4) elements.push_back(element);
    std::string joined;
    for (const std::string_view each : elements) joined += (joined.empty() ? "[" : ", ") + std::string(each);
    return replaced(list, joined.empty() ? "[]" : joined + "]");
  }

  std::string_view text_;
  std::vector<Node> nodes_;
  Random& random_;
};

}  // namespace

std::string mutate_json(std::string text, Random& random) {
  do {
    std::optional<std::vector<Node>> nodes = Parser(text).parse();
    if (!nodes) return text;
    text = Mutator(text, *std::move(nodes), random).run();
  } while (random() % 3 == 0);
  return text;
}

}  // namespace opbridge::fuzz
