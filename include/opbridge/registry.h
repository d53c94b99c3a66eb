// The symbolic registry: which function turns the calls of an operator into ONNX nodes, at which opset.
//
// A key is `namespace::name` (all overloads; with a schema, the default one alone) or
// `namespace::name.overload`. `Since{n}` holds for opset n and every later one until a later registration
// replaces it; `Exactly{n}` for opset n alone. What a user registers wins over what is bundled; then the
// exact overload over the bare name, then Exactly over Since, then the greatest opset; of equals, the last.
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
      schema;  // missing where only a name was registered: the call's own schema decides
  OpsetRule rule;
  Origin origin;
  SymbolicFunction function;
  std::string label = {};  // what errors call the function; the key where empty
};

class SymbolicRegistry {
 public:
  // Every mapping that opbridge ships.
  static SymbolicRegistry with_bundled();

  // Registers a C++ function by its schema line. Its parameters after GraphBuilder& are the schema's
  // arguments, one C++ type for each (see symbolic.h); throws Error(invalid_argument) where they do not fit
  // each other.
  //   registry.add("aten::asinh(Tensor self) -> Tensor", Since{9},
  //                [](GraphBuilder& g, Value self) { return g.op("Asinh", self); });
  template <class F>
  void add(std::string_view schema_line, OpsetRule rule, F function, Origin origin = Origin::user) {
    OperatorSchema schema = parse_schema(schema_line);
    check_parameters(schema, symbolic_detail::parameters_of(function));
    add(Symbolic{schema.key(), std::move(schema), rule, origin, symbolic_detail::erase(std::move(function))});
  }
  void add(Symbolic symbolic);

  // The mapping of an operator written once (opbridge/operator.h), from its schema: a node of the same name
  // in the domain that the namespace names, tensors as inputs, the other arguments as attributes.
  void add_operator(std::string_view schema_line);

  // The same of every operator of a library, either of a set (libNAME_torch.so, libNAME_ort.so), with the
  // lowerings to standard ONNX that it carries. The library stays open.
  void add_operators(const std::filesystem::path& library);

  // The opset version of a custom domain that its operators written once need; 1 where none needs more.
  int domain_version(std::string_view domain) const;

  // Takes back what a user registered under the key at that opset rule's opset. Returns whether there was
  // any.
  bool remove(std::string_view key, int opset);

  // `key` names an overload ("aten::add.Tensor") or the default one ("aten::asinh"). Null where nothing holds
  // at `opset`.
  const Symbolic* find(std::string_view key, int opset) const;

  // The lowest opset at which `key` has a mapping; for the error "an opset too low".
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
