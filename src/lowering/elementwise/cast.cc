// Conversions of element type, and operators that copy a tensor without changing its values.
#include <fmt/format.h>

#include "lowering/add.h"
#include "lowering/common.h"

namespace opbridge::lowering {
namespace {

// The element type is that of PyTorch's result; device and layout have no meaning in ONNX.
Value to_result_type(GraphBuilder& g, Value self) { return g.cast(self, g.result().element_type); }

}  // namespace

void register_cast(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, "
     "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
     Since{9}, [](GraphBuilder& g, Value self, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return to_result_type(g, self);
     });
  on("aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
     "MemoryFormat? memory_format=None) -> Tensor(a)",
     Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored, Ignored, Ignored) { return to_result_type(g, self); });
  on("aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, "
     "MemoryFormat? memory_format=None) -> Tensor(a)",
     Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return to_result_type(g, self);
     });
  on("aten::to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, "
     "MemoryFormat? memory_format=None) -> Tensor(a)",
     Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored, Ignored, Ignored) { return to_result_type(g, self); });
  on("aten::to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Ignored, Ignored) { return to_result_type(g, self); });
  on("aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value self, Ignored, Ignored, Ignored, Ignored, Ignored, Ignored) {
       return to_result_type(g, self);
     });
  for (const char* type : {"Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"}) {
    on(fmt::format("aten::_cast_{}(Tensor self, bool non_blocking=False) -> Tensor", type), Since{9},
       [](GraphBuilder& g, Value self, Ignored) { return to_result_type(g, self); });
  }
  on("aten::type_as(Tensor self, Tensor other) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Ignored) { return to_result_type(g, self); });

  for (const char* line :
       {"aten::alias(Tensor(a) self) -> Tensor(a)", "aten::alias_copy(Tensor self) -> Tensor",
        "aten::conj(Tensor(a) self) -> Tensor(a)", "aten::_conj(Tensor(a) self) -> Tensor(a)",
        "aten::conj_physical(Tensor self) -> Tensor", "aten::detach(Tensor(a) self) -> Tensor(a)",
        "aten::detach_copy(Tensor self) -> Tensor", "aten::lift(Tensor self) -> Tensor",
        "aten::lift_fresh(Tensor(a) self) -> Tensor(a)", "aten::lift_fresh_copy(Tensor self) -> Tensor",
        "aten::positive(Tensor(a) self) -> Tensor(a)", "aten::resolve_conj(Tensor(a) self) -> Tensor(a)",
        "aten::resolve_neg(Tensor(a) self) -> Tensor(a)"}) {
    on(line, Since{9}, [](GraphBuilder& g, Value self) {
      if (is_complex(self.element_type())) g.refuse("complex tensors have no counterpart in ONNX");
      return self;
    });
  }
  on("aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", Since{9},
     [](GraphBuilder&, Value self, Ignored) { return self; });
  on("aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", Since{9},
     [](GraphBuilder&, Value self, Ignored) { return self; });
  on("aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", Since{9},
     [](GraphBuilder& g, Ignored, Value src, Ignored) {
       return g.expand(to_result_type(g, src), *g.result().dims);
     });
}

}  // namespace opbridge::lowering
