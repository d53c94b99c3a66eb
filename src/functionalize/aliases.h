// The alias model. Each value of the program is a tensor, a tensor refers to a view of a storage, and a view
// is a chain of view operators that starts at the whole storage. A mutation creates a new version of the
// storage; a view with a value of an older version is recomputed before it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opbridge/ir.h"
#include "torch/traits.h"

namespace opbridge::functionalization {

using torch::ViewKind;
using torch::without_overload;

struct View;

struct Storage {
  View* whole = nullptr;
  Dim start;  // the offset of `whole` in PyTorch's storage, in elements
  uint64_t version = 0;
  // The graph input, initializer or value of an outer graph that owns the memory; null for memory that the
  // graph allocates itself.
  const ir::Value* owner = nullptr;
  // Storages that may or may not be the same memory; null if there are none.
  std::shared_ptr<std::vector<Storage*>> maybe_same;
  // The operator that wrote to one of them, for an error: since then the elements of this storage are
  // unknown.
  std::string lost_by;
};

struct View {
  Storage* storage = nullptr;
  View* base = nullptr;  // null for the whole storage
  ViewKind kind = ViewKind::none;
  const ir::Node* node = nullptr;   // the view operator
  size_t index = 0;                 // of the output of `node`
  const ir::Value* form = nullptr;  // a value with the view's type and name
  ir::Value* value = nullptr;       // the elements at `version`
  uint64_t version = 0;
  bool contiguous = false;   // true if this is certain
  bool may_overlap = false;  // whether several elements of the whole storage may share memory
  // A write to one of the views with equal `owner` would change the others if all inputs were contiguous.
  const View* owner = nullptr;
  size_t first_write = 0;  // in Memory's list of writes: those before are in its elements
  // Computed on first use; missing if they are unknown.
  bool strides_computed = false;
  std::optional<std::vector<Dim>> strides;

  bool is_stale() const { return version != storage->version; }
  const ir::TensorType& type() const { return form->tensor_type(); }
};

// A tensor as in Python: `transpose_` changes its view, which all of its names then refer to.
struct Tensor {
  View* view = nullptr;
};

// Records that a write to one storage may or may not be a write to the other.
void link(Storage& a, Storage& b);

}  // namespace opbridge::functionalization
