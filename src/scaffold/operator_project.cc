#include "scaffold/operator_project.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "opbridge/error.h"
#include "opbridge/operator/schema.h"
#include "scaffold/operator_names.h"

namespace opbridge::scaffold {
namespace {

using Kind = SchemaType::Kind;

bool is_tensor(const SchemaArgument& argument) { return argument.type.kind == Kind::tensor; }

std::string join(const std::vector<std::string>& items, std::string_view between = ", ") {
  std::string text;
  for (const std::string& item : items) {
    if (&item != &items.front()) text += between;
    text += item;
  }
  return text;
}

// The text escaped for a C++ string literal.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// A list of parameters, one per line if it is long.
std::string parameter_list(const std::vector<std::string>& items) {
  const std::string line = join(items);
  return line.size() <= 60 ? line : fmt::format("\n            {}", join(items, ",\n            "));
}

std::string wrap(bool condition, std::string_view before, std::string text, std::string_view after) {
  return condition ? std::string(before) + text + std::string(after) : text;
}

std::string element(Kind kind) {
  switch (kind) {
    case Kind::integer:
    case Kind::sym_int:
      return "std::int64_t";
    case Kind::floating:
      return "double";
    case Kind::boolean:
      return "bool";
    default:
      return "std::string_view";
  }
}

std::string kernel_parameter(const SchemaArgument& argument) {
  const SchemaType& type = argument.type;
  std::string text = is_tensor(argument) ? "TensorView<const T>" : element(type.kind);
  text = wrap(type.list, "std::span<const ", std::move(text), ">");
  return wrap(type.optional, "std::optional<", std::move(text), ">") + " " + variable_name(argument.name);
}

std::string shape_parameter(const SchemaArgument& argument) {
  const SchemaType& type = argument.type;
  std::string text;
  if (is_tensor(argument)) {
    text = wrap(type.list, "std::vector<", "Shape", ">");
  } else if (type.kind == Kind::sym_int) {
    text = type.list ? "Shape" : "Dim";
  } else {
    text = wrap(type.list, "std::span<const ", element(type.kind), ">");
  }
  const bool by_reference = is_tensor(argument) || type.kind == Kind::sym_int;
  text = wrap(type.optional, "std::optional<", std::move(text), ">");
  return wrap(by_reference, "const ", std::move(text), "&") + " " + variable_name(argument.name);
}

int list_size(const SchemaType& type) { return type.fixed_size > 0 ? type.fixed_size : 2; }

// A value for the test, as a Python expression. `size` is the size of the first dimension.
std::string sample(const SchemaArgument& argument, const std::string& size) {
  const SchemaType& type = argument.type;
  std::string one;
  switch (type.kind) {
    case Kind::tensor:
      one = "torch.randn(" + size + ", 4, dtype=dtype)";
      break;
    case Kind::integer:
    case Kind::sym_int:
      one = "1";
      break;
    case Kind::floating:
      one = "0.5";
      break;
    case Kind::boolean:
      one = "True";
      break;
    default:
      one = "\"text\"";
  }
  if (!type.list) return one;
  return fmt::format("[{}]", join(std::vector<std::string>(list_size(type), one)));
}

// The replacements of the placeholders in the templates: everything that differs between projects.
class Project {
 public:
  Project(const OperatorSchema& schema, std::string line) : schema_(schema), line_(std::move(line)) {
    const auto tensor =
        std::find_if(schema.arguments.begin(), schema.arguments.end(),
                     [](const SchemaArgument& a) { return is_tensor(a) && !a.type.optional; });
    first_ = variable_name(tensor->name) + (tensor->type.list ? "[0]" : "");
    for (std::size_t i = 0; i < schema.returns.size(); ++i) {
      outs_.push_back(schema.returns.size() == 1 ? "out" : "out" + std::to_string(i));
    }
    list_ = schema.returns[0].type.list;
    differentiable_ =
        !list_ && std::none_of(schema.arguments.begin(), schema.arguments.end(),
                               [](const SchemaArgument& a) { return is_tensor(a) && a.type.list; });
    const std::size_t colons = schema.name.find("::");
    domain_ = schema.name.substr(0, colons);
    name_ = schema.name.substr(colons + 2);
  }

  const std::string& name() const { return name_; }

  std::string fill(std::string_view text) const {
    const std::pair<std::string_view, std::string> values[] = {
        {"@schema@", line_},
        {"@escaped_schema@", escaped(line_)},
        {"@domain@", domain_},
        {"@name@", name_},
        {"@package@", package_name(schema_)},
        {"@first@", first_},
        {"@shape_parameters@", parameter_list(parameters(shape_parameter))},
        {"@shape@", shape()},
        {"@kernel_parameters@", kernel_parameters()},
        {"@copy@", copy()},
        {"@backward@", differentiable_ ? backward() : ""},
        {"@python_parameters@",
         join(parameters([](const SchemaArgument& a) { return variable_name(a.name); }))},
        {"@reference@", reference()},
        {"@arguments@", arguments()},
        {"@tensor_names@", join(tensor_names())},
        {"@call@", call()},
        {"@tensors@", tuple(std::vector<std::string>(tensor_names().size(), "torch.randn(rows, 4)"))},
        {"@gradient_step@", differentiable_ ? gradient_step() : ""},
        {"@gradient_test@", differentiable_ ? gradient_test() : ""},
        {"@optional_test@", optional_test()},
    };
    std::string result;
    while (!text.empty()) {
      const std::size_t at = std::min(text.find('@'), text.size());
      result += text.substr(0, at);
      text.remove_prefix(at);
      const auto value = std::find_if(std::begin(values), std::end(values),
                                      [&](const auto& v) { return text.starts_with(v.first); });
      if (value != std::end(values)) {
        result += value->second;
        text.remove_prefix(value->first.size());
      } else if (!text.empty()) {
        result += text.front();
        text.remove_prefix(1);
      }
    }
    return result;
  }

 private:
  template <class F>
  std::vector<std::string> parameters(F f) const {
    std::vector<std::string> items;
    for (const SchemaArgument& argument : schema_.arguments) items.push_back(f(argument));
    return items;
  }

  std::string kernel_parameters() const {
    std::vector<std::string> items = parameters(kernel_parameter);
    items.insert(items.begin(), "Context& context");
    for (const std::string& out : outs_) {
      items.push_back((list_ ? "std::span<const TensorView<T>> " : "TensorView<T> ") + out);
    }
    return parameter_list(items);
  }

  std::string shape() const {
    if (list_) return fmt::format("std::vector<Shape>{{{}}}", first_);
    if (outs_.size() == 1) return first_;
    return fmt::format("std::tuple{{{}}}", join(std::vector<std::string>(outs_.size(), first_)));
  }

  std::string copy() const {
    std::string text;
    for (const std::string& out : outs_) {
      text += "          " + out + (list_ ? "[0]" : "") + "[i] = " + first_ + "[i];\n";
    }
    return text;
  }

  std::string backward() const {
    std::vector<std::string> items{"Context& context"};
    for (const std::string& out : outs_) items.push_back("TensorView<const T> grad_" + out);
    for (const SchemaArgument& argument : schema_.arguments) items.push_back(kernel_parameter(argument));
    std::string body, zeros;
    for (const SchemaArgument& argument : schema_.arguments) {
      if (!is_tensor(argument)) continue;
      const std::string gradient = "grad_" + variable_name(argument.name);
      items.push_back("std::optional<TensorView<T>> " + gradient);
      if (variable_name(argument.name) == first_) {
        std::vector<std::string> terms;
        for (const std::string& out : outs_) terms.push_back("grad_" + out + "[i]");
        body += "          if (" + gradient + ") (*" + gradient + ")[i] = " + join(terms, " + ") + ";\n";
      } else {
        zeros += "      if (" + gradient + ") std::fill(" + gradient + "->begin(), " + gradient +
                 "->end(), T(0));\n";
      }
    }
    return "\n    .backward(floating_types, []<class T>(" + parameter_list(items) +
           ") {\n"
           "      // Optional: without a gradient, delete this function and the test of it.\n"
           "      // The gradient of the sum of all results, each weighted by its grad_….\n"
           "      context.parallel_for(grad_" +
           outs_[0] +
           ".size(), 16384, [&](std::int64_t begin, std::int64_t end) {\n"
           "        for (std::int64_t i = begin; i < end; ++i) {\n" +
           body + "        }\n      });\n" + zeros + "    })";
  }

  std::string reference() const {
    if (list_) return "[" + first_ + ".clone()]";
    return join(std::vector<std::string>(outs_.size(), first_ + ".clone()"));
  }

  std::string arguments() const {
    std::vector<std::string> items;
    for (const SchemaArgument& argument : schema_.arguments) {
      items.push_back(sample(argument, "rows"));
    }
    return tuple(items);
  }

  static std::string tuple(const std::vector<std::string>& items) {
    return join(items) + (items.size() == 1 ? "," : "");
  }

  // The tensor inputs of the model; each tensor of a list counts separately.
  std::vector<std::string> tensor_names() const {
    std::vector<std::string> names;
    for (const SchemaArgument& argument : schema_.arguments) {
      if (!is_tensor(argument)) continue;
      if (!argument.type.list) {
        names.push_back(variable_name(argument.name));
      } else {
        for (std::string& name : element_names(argument)) names.push_back(std::move(name));
      }
    }
    return names;
  }

  std::vector<std::string> element_names(const SchemaArgument& argument) const {
    const std::string prefix = element_prefix(schema_, argument.name);
    std::vector<std::string> names;
    for (int i = 0; i < list_size(argument.type); ++i)
      names.push_back(variable_name(prefix + std::to_string(i)));
    return names;
  }

  std::string call() const {
    std::vector<std::string> items;
    for (const SchemaArgument& argument : schema_.arguments) {
      std::string value = is_tensor(argument) ? variable_name(argument.name) : sample(argument, "rows");
      if (is_tensor(argument) && argument.type.list) {
        value = fmt::format("[{}]", join(element_names(argument)));
      }
      items.push_back(std::move(value));
    }
    return join(items);
  }

  static std::string gradient_step() {
    return ", and the gradient in `.backward`. Without a gradient, delete\n"
           "   `.backward` there and `test_gradient` in the tests";
  }

  static std::string gradient_test() {
    return R"(

def test_gradient():
    inputs = [v.requires_grad_() if isinstance(v, torch.Tensor) else v for v in arguments(dtype=torch.float64)]
    assert torch.autograd.gradcheck(OP, tuple(inputs))
)";
  }

  std::string optional_test() const {
    std::string text;
    for (std::size_t i = 0; i < schema_.arguments.size(); ++i) {
      if (!schema_.arguments[i].type.optional) continue;
      text += "\n\ndef test_without_" + schema_.arguments[i].name +
              "():\n    values = list(arguments())\n    values[" + std::to_string(i) +
              "] = None\n    torch.testing.assert_close(OP(*values), reference(*values))\n";
    }
    return text;
  }

  const OperatorSchema& schema_;
  std::string line_, domain_, name_, first_;
  std::vector<std::string> outs_;
  bool list_ = false, differentiable_ = false;
};

constexpr std::string_view source_template = R"(#include "opbridge/operator.h"

using namespace opbridge::op;

OPBRIDGE_OPERATOR("@escaped_schema@")
    .shape([](@shape_parameters@) {
      return @shape@;  // the shape of the result; check the arguments with `require`
    })
    .cpu(floating_types, []<class T>(@kernel_parameters@) {
      // Copies @first@; write the computation here.
      context.parallel_for(@first@.size(), 16384, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
@copy@        }
      });
    })@backward@;
)";

constexpr std::string_view init_template =
    R"("""torch.ops.@domain@.@name@, and the node @name@ of the ONNX domain @domain@."""

from pathlib import Path

import opbridge

_here = Path(__file__).parent
if (_here / "lib@name@_torch.so").exists():
    opbridge.load_operators(_here / "lib@name@")
else:  # not installed: this is the source tree
    opbridge.load_operators(opbridge.build([_here.parent / "@name@.cc"]))
)";

constexpr std::string_view test_template = R"("""@domain@::@name@ in PyTorch and in ONNX Runtime."""

import opbridge
import pytest
import torch

import @package@  # noqa: F401 - makes the operator known

OP = torch.ops.@domain@.@name@


def reference(@python_parameters@):
    """The operator written in PyTorch. Change this first, then the kernel."""
    return @reference@


def arguments(rows=3, dtype=torch.float32):
    torch.manual_seed(0)
    return (@arguments@)


class Model(torch.nn.Module):
    def forward(self, @tensor_names@):
        return OP(@call@)


def tensors(rows=3):
    return (@tensors@)


def test_forward():
    torch.testing.assert_close(OP(*arguments()), reference(*arguments()))
@optional_test@@gradient_test@

def test_fake_and_real_shapes_agree():
    torch.library.opcheck(OP.default, arguments())


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_onnxruntime_agrees_with_torch(tmp_path, capture):
    opbridge.export(Model(), tensors(), tmp_path / "model.onnx", capture=capture, verify=True)


def test_dynamic_shapes(tmp_path):
    path = tmp_path / "model.onnx"
    rows = torch.export.Dim("rows")
    opbridge.export(Model(), tensors(), path, dynamic_shapes=[{0: rows} for _ in tensors()])
    opbridge.verify(path, Model(), tensors(rows=7))
)";

constexpr std::string_view pyproject_template = R"([build-system]
requires = ["setuptools>=64", "opbridge"]
build-backend = "setuptools.build_meta"

[project]
name = "@package@"
version = "0.1.0"
description = "@domain@::@name@ for PyTorch and ONNX Runtime"
dependencies = ["opbridge"]

[tool.setuptools]
packages = ["@package@"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
)";

constexpr std::string_view setup_template = R"(import shutil
from pathlib import Path

import opbridge
from setuptools import Distribution, setup
from setuptools.command.build_py import build_py


class BuildOperator(build_py):
    def run(self):
        super().run()
        stem = opbridge.build(["@name@.cc"])
        for library in stem.parent.glob(f"{stem.name}_*.so"):
            shutil.copy(library, Path(self.build_lib, "@package@"))


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildOperator}, distclass=BinaryDistribution)
)";

constexpr std::string_view readme_template = R"(# @name@

```
@schema@
```

One operator for PyTorch (`torch.ops.@domain@.@name@`) and for ONNX Runtime (node `@name@` of the domain `@domain@`),
written once in `@name@.cc` against opbridge's `opbridge/operator.h`.

```console
$ pytest                                  # builds if sources have changed, then tests
$ pip install --no-build-isolation .      # builds against the installed torch and opbridge
```

1. Write the computation in PyTorch: `reference` in `tests/test_@name@.py`.
2. Write the shape rule and the kernel in `@name@.cc`@gradient_step@.
3. Run `pytest`.

opbridge's site explains the steps: "An operator written once" in the tutorial (`tutorial/operator-once.html`) introduces
`@name@.cc`, "C++ headers for operators" (`reference/cpp-operators.html`) lists what it may use, and "Ship an operator as a
wheel" (`wheel.html`) describes this project. `make docs` in opbridge's repository builds the site.

```python
import @package@, opbridge, torch

opbridge.export(model, args, "model.onnx", verify=True)   # a model that calls torch.ops.@domain@.@name@
session = opbridge.session("model.onnx")                  # an onnxruntime.InferenceSession with the operator
```
)";

}  // namespace

std::string why_no_project(const OperatorSchema& schema, const std::string& line) {
  if (schema.name.starts_with("aten::")) return "the namespace aten is PyTorch's own";
  if (schema.name.find("::") == std::string::npos) return "its name needs a namespace: ns::name";
  bool has_tensor = false;
  for (const SchemaArgument& argument : schema.arguments) {
    if (argument.type.optional_elements) return "lists have no optional elements: " + argument.name;
    if (argument.keyword_only) return "write it without '*'";
    has_tensor = has_tensor || (is_tensor(argument) && !argument.type.optional);
  }
  if (!has_tensor) return "it needs an argument of type Tensor or Tensor[]";
  try {
    op::detail::SchemaReader(line).read();
  } catch (const char* why) {
    return why;
  }
  return {};
}

std::vector<ProjectFile> operator_project(const OperatorSchema& schema, const std::string& line) {
  if (const std::string why = why_no_project(schema, line); !why.empty())
    throw Error(ErrorCode::unsupported, "an operator cannot have the schema " + schema.str() + ": " + why);
  const Project project(schema, line);
  const std::pair<std::string, std::string_view> files[] = {
      {"README.md", readme_template},
      {"pyproject.toml", pyproject_template},
      {"setup.py", setup_template},
      {project.name() + ".cc", source_template},
      {package_name(schema) + "/__init__.py", init_template},
      {"tests/test_" + project.name() + ".py", test_template},
      {".gitignore", "/build/\n__pycache__/\n*.egg-info/\n"},
  };
  std::vector<ProjectFile> result;
  for (const auto& [path, text] : files) result.push_back({path, project.fill(text)});
  return result;
}

}  // namespace opbridge::scaffold
