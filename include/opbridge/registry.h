// The symbolic registry: the functions that turn calls of an operator into ONNX nodes, by operator and opset.
//
// A key is `namespace::name` (all overloads; with a schema, only the default one) or
// `namespace::name.overload`. `Since{n}` holds from opset n until the next registration of the key with a
// higher one; `Exactly{n}` holds for opset n alone. find() prefers, in this order: a user's registration to a
// bundled one, the overload to the bare name, Exactly to Since, the highest opset, the latest registration.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "opbridge/schema.h"
#include "opbridge/symbolic.h"

namespace opbridge {

struct Since {
  int opset;
};
struct Exactly {
  int opset;
};

class OpsetRule {
 public:
  OpsetRule(Since since) : opset_(since.opset), exactly_(false) {}       // NOLINT: reads as the rule itself
  OpsetRule(Exactly exactly) : opset_(exactly.opset), exactly_(true) {}  // NOLINT
  int opset() const { return opset_; }
  bool exactly() const { return exactly_; }
  bool holds_at(int opset) const { return exactly_ ? opset == opset_ : opset >= opset_; }

 private:
  int opset_;
  bool exactly_;
};

enum class Origin { bundled, user };

struct Symbolic {
  std::string key;
  std::optional<OperatorSchema>
      schema;  // missing if only a name was registered; the schema of the call is used then
  OpsetRule rule;
  Origin origin;
  SymbolicFunction function;
  std::string label = {};  // the function's name in errors; if empty, the key
};

class SymbolicRegistry {
 public:
  // Every mapping that opbridge ships.
  static SymbolicRegistry with_bundled();

  // Registers a C++ function by its schema line. Its parameters after GraphBuilder& are the schema's
  // arguments, with the C++ types that symbolic.h lists. Throws Error(invalid_argument) if parameters and
  // schema do not match.
  //   registry.add("aten::asinh(Tensor self) -> Tensor", Since{9},
  //                [](GraphBuilder& g, Value self) { return g.op("Asinh", self); });
  template <class F>
  void add(std::string_view schema_line, OpsetRule rule, F function, Origin origin = Origin::user) {
    OperatorSchema schema = parse_schema(schema_line);
    check_parameters(schema, symbolic_detail::parameters_of(function));
    add(Symbolic{schema.key(), std::move(schema), rule, origin, symbolic_detail::erase(std::move(function))});
  }
  void add(Symbolic symbolic);

  // Registers an operator written with opbridge/operator.h, by its schema. Its mapping is a node of the same
  // name in the domain named like the namespace, with tensors as inputs, other arguments as attributes.
  void add_operator(std::string_view schema_line);

  // Registers every operator of a library (libNAME_torch.so or libNAME_ort.so), with its lowerings to
  // standard ONNX. The library stays open. Throws Error(invalid_file) if it cannot be opened, is not an
  // operator library, or was built with another version of opbridge.
  void add_operators(const std::filesystem::path& library);

  // The opset version of a custom domain that its registered operators need; at least 1.
  int domain_version(std::string_view domain) const;

  // Removes the user's registrations of the key whose rule has this opset. Returns whether there were any.
  bool remove(std::string_view key, int opset);

  // `key` names an overload ("aten::add.Tensor") or the default one ("aten::asinh"). Null if no registration
  // holds at `opset`.
  const Symbolic* find(std::string_view key, int opset) const;

  // The lowest opset at which `key` has a mapping, for the error about an opset that is too low.
  std::optional<int> first_opset(std::string_view key) const;

  // All registrations, ordered by key.
  std::vector<const Symbolic*> all() const;

 private:
  static void check_parameters(const OperatorSchema& schema,
                               std::span<const symbolic_detail::Parameter> parameters);

  std::unordered_map<std::string, std::vector<std::shared_ptr<const Symbolic>>> table_;
  std::map<std::string, int, std::less<>> domain_versions_;
};

}  // namespace opbridge
