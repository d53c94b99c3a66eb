// Which tensors share memory. Each value of the program is a tensor, a tensor shows a view of a storage, and
// a view is a chain of view operators that starts at the whole storage. A mutation makes a new version of the
// storage; a view whose value is of an older version is made again before it is read.
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
  uint64_t version = 0;
  // The graph input or initializer, or the value of an outer graph, whose memory this is; null for what the
  // graph makes itself.
  const ir::Value* owner = nullptr;
  // Storages that may or may not be the same memory; null where there are none.
  std::shared_ptr<std::vector<Storage*>> maybe_same;
  // The mutation of one of those, for a person to read; since then the elements here are not known.
  std::string lost_by;
};

struct View {
  Storage* storage = nullptr;
  View* base = nullptr;  // null for the whole storage
  ViewKind kind = ViewKind::none;
  const ir::Node* node = nullptr;   // the view operator,
  size_t index = 0;                 // and which of its outputs
  const ir::Value* form = nullptr;  // a value of the view's type and name
  ir::Value* value = nullptr;       // the elements at `version`
  uint64_t version = 0;
  bool contiguous = false;  // known to be
  // Filled in when first asked for; no strides where they are not known.
  bool strides_asked = false;
  std::optional<std::vector<Dim>> strides;

  bool is_stale() const { return version != storage->version; }
  const ir::TensorType& type() const { return form->tensor_type(); }
};

// What Python calls a tensor: `transpose_` changes its view, and all its names show that.
struct Tensor {
  View* view = nullptr;
};

// From now on, a write to the one may or may not be a write to the other.
void link(Storage& a, Storage& b);

}  // namespace opbridge::functionalization
