#include "lowering/add.h"

namespace opbridge::lowering {

void register_vision(SymbolicRegistry& registry) {
  auto on = add(registry);

  on("torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
     "SymInt stride_h, "
     "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
     "SymInt offset_groups, "
     "bool use_mask) -> Tensor",
     Since{19},
     [](GraphBuilder& g, Value input, Value weight, Value offset, Value mask, Value bias, int64_t stride_h,
        int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
        int64_t groups, int64_t offset_groups, bool use_mask) {
       using Ints = std::vector<int64_t>;
       return g.op("DeformConv", input, weight, offset, bias, use_mask ? mask : Value(),
                   attr("strides", Ints{stride_h, stride_w}), attr("pads", Ints{pad_h, pad_w, pad_h, pad_w}),
                   attr("dilations", Ints{dilation_h, dilation_w}), attr("group", groups),
                   attr("offset_group", offset_groups));
     });
}

}  // namespace opbridge::lowering
