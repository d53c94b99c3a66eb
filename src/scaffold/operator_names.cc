#include "scaffold/operator_names.h"

#include <algorithm>
#include <ranges>
#include <string_view>

namespace opbridge::scaffold {
namespace {

// The keywords of C++, except those that a schema cannot contain.
constexpr std::string_view words_of_cpp =
    "alignas alignof and_eq asm auto bitand bitor bool case catch char char16_t char32_t char8_t "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit decltype "
    "default delete do double enum explicit export extern false float friend goto inline int long "
    "mutable namespace new noexcept not_eq nullptr operator or_eq private protected public register "
    "requires short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void volatile "
    "wchar_t xor xor_eq dynamic_cast reinterpret_cast";
constexpr std::string_view words_of_python = "async await except finally lambda nonlocal try yield";
constexpr std::string_view names_in_project =
    "BFloat16 Context Dim Half Model OP OPBRIDGE_OPERATOR Output Shape T TensorView arguments begin "
    "capture context dtype end floating_types i isinstance len list opbridge out pytest reference "
    "require rows self std tensors tmp_path torch tuple types values";

// Whether the space-separated list `words` contains `word`.
bool contains(std::string_view words, std::string_view word) {
  for (const auto each : std::views::split(words, ' ')) {
    if (std::string_view(each.begin(), each.end()) == word) return true;
  }
  return false;
}

// Whether the name is out0, out1, …, which the project uses for the returned tensors.
bool is_numbered_out(std::string_view name) {
  return name.starts_with("out") &&
         std::ranges::all_of(name.substr(3), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string variable_name(const std::string& argument) {
  const bool taken = contains(words_of_cpp, argument) || contains(words_of_python, argument) ||
                     contains(names_in_project, argument) || is_numbered_out(argument) ||
                     argument.starts_with("grad_") || argument.starts_with("arg_");
  return taken ? "arg_" + argument : argument;
}

std::string element_prefix(const OperatorSchema& schema, const std::string& list) {
  std::string prefix = list;
  const auto is_prefix = [&](const SchemaArgument& argument) {
    return argument.name != list && argument.name.starts_with(prefix);
  };
  while (std::ranges::any_of(schema.arguments, is_prefix)) prefix += '_';
  return prefix;
}

std::string package_name(const OperatorSchema& schema) {
  std::string name = schema.name;
  name.replace(name.find("::"), 2, "_");
  const std::size_t first = name.find_first_not_of('_'), last = name.find_last_not_of('_');
  return name.substr(first, last - first + 1);
}

}  // namespace opbridge::scaffold
