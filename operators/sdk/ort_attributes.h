// Reads the attributes of a node of ONNX Runtime as the arguments of an operator.
#pragma once

#include <onnxruntime_c_api.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "library.h"
#include "ort_status.h"

namespace opbridge::op::detail {

class Attributes {
 public:
  Attributes(const OrtApi& api, const OrtKernelInfo* info) : api_(api), info_(info) {}

  Value read(const SchemaArgument& argument) const {
    const std::string name(argument.name);
    if (std::optional<Value> value = exact(argument)) return *std::move(value);
    if (std::optional<Value> value = read_as(name, argument.type)) return *std::move(value);
    if (present(name)) {
      throw Error(ErrorCode::invalid_argument, "the attribute " + name + " is not of the kind " +
                                                   std::string(argument.type.list ? "a list of " : "") +
                                                   kind_name(argument.type.kind));
    }
    return default_value(argument);
  }

 private:
  static std::string kind_name(Kind kind) {
    if (kind == Kind::floating) return "FLOAT";
    return kind == Kind::string ? "STRING" : "INT";
  }

  // The double values of a float32 attribute, stored as operator_abi.h describes; nothing if float32 holds
  // them exactly.
  std::optional<Value> exact(SchemaArgument argument) const {
    if (argument.type.kind != Kind::floating) return std::nullopt;
    std::optional<std::string> text = string(std::string(argument.name) + "_float64");
    if (!text) return std::nullopt;
    if (argument.type.list) text = "[" + *text + "]";
    argument.has_default = true;
    argument.default_text = *text;
    return default_value(argument);
  }

  // ONNX Runtime's API does not distinguish absent attributes from those of another kind, so this tries the
  // other kinds.
  bool present(const std::string& name) const {
    for (const Kind kind : {Kind::integer, Kind::floating, Kind::string}) {
      for (const bool list : {false, true}) {
        if (read_as(name, {kind, list, false})) return true;
      }
    }
    return false;
  }

  std::optional<Value> read_as(const std::string& name, SchemaType type) const {
    switch (type.kind) {
      case Kind::tensor:
        return std::nullopt;
      case Kind::integer:
      case Kind::sym_int:
      case Kind::boolean: {
        if (type.list) {
          const auto values = list<std::int64_t>(api_.KernelInfoGetAttributeArray_int64, name);
          if (!values) return std::nullopt;
          return Shape(values->begin(), values->end());
        }
        std::int64_t value = 0;
        if (!ok(api_.KernelInfoGetAttribute_int64(info_, name.c_str(), &value))) return std::nullopt;
        return Dim(value);
      }
      case Kind::floating: {
        if (type.list) {
          const auto values = list<float>(api_.KernelInfoGetAttributeArray_float, name);
          if (!values) return std::nullopt;
          return std::vector<double>(values->begin(), values->end());
        }
        float value = 0;
        if (!ok(api_.KernelInfoGetAttribute_float(info_, name.c_str(), &value))) return std::nullopt;
        return static_cast<double>(value);
      }
      case Kind::string: {
        const std::optional<std::string> text = string(name);
        if (!text) return std::nullopt;
        if (type.list) return split(*text);
        return *text;
      }
    }
    return std::nullopt;
  }

  // Each string of the list is null-terminated.
  static std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> strings;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\0'), text.size());
      strings.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return strings;
  }

  bool ok(OrtStatus* status) const { return Status(api_, status).ok(); }

  template <class T, class Get>
  std::optional<std::vector<T>> list(Get get, const std::string& name) const {
    std::size_t count = 0;
    if (!ok(get(info_, name.c_str(), nullptr, &count))) return std::nullopt;
    std::vector<T> values(count);
    if (count > 0) check(api_, get(info_, name.c_str(), values.data(), &count));
    return values;
  }

  std::optional<std::string> string(const std::string& name) const {
    std::size_t size = 0;  // includes the terminating null
    if (!ok(api_.KernelInfoGetAttribute_string(info_, name.c_str(), nullptr, &size))) return std::nullopt;
    std::string text(size, '\0');
    check(api_, api_.KernelInfoGetAttribute_string(info_, name.c_str(), text.data(), &size));
    text.resize(size > 0 ? size - 1 : 0);
    return text;
  }

  const OrtApi& api_;
  const OrtKernelInfo* info_;
};

}  // namespace opbridge::op::detail
