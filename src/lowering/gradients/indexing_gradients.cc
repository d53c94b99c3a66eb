// The gradients of reads by index: they are scattered into zeros, and added up where elements were read
// several times.
#include "lowering/add.h"
#include "lowering/gradients/gradients.h"
#include "lowering/indexing/indexing.h"
#include "lowering/layout/views.h"

namespace opbridge::lowering {
namespace {

Value zeros(GraphBuilder& g, Value grad, const std::vector<Dim>& dims) {
  return filled(g, dims, 0, grad.element_type());
}

// Adds the elements of `grad` to those of zeros at `indices` along `dim`.
Value gradient_of_gather(GraphBuilder& g, Value grad, const std::vector<Dim>& dims, int64_t dim,
                         Value indices) {
  const ElementType type = grad.element_type(), wide = opmath_type(type);
  if (dims.empty()) return g.reshape(grad, dims);
  const int64_t axis = wrap_axis(dim, static_cast<int64_t>(dims.size()));
  return g.cast(
      scatter_elements(g, filled(g, dims, 0, wide), indices, g.cast(grad, wide), axis, Reduction::add), type);
}

// Adds the rows of `grad` to those at `indices`; those of `padding_idx` do not count.
Value embedding_gradient(GraphBuilder& g, Value grad, Value indices, const Dim& rows, const Dim& padding_idx,
                         bool by_frequency) {
  const ElementType type = grad.element_type(), wide = opmath_type(type);
  const Dim count = element_count(indices), width = grad.dim(-1);
  indices = g.cast(g.reshape(indices, {count}), ElementType::int64);
  Formula dy(g, g.reshape(g.cast(grad, wide), {count, width}));
  if (!padding_idx.is(-1)) {
    Formula is_padding = Formula(g, indices) == Formula(g, g.size(padding_idx));
    dy = where(Formula(g, g.unsqueeze(is_padding, {1})), 0, dy);
  }
  if (by_frequency) {
    const std::vector<Dim> of_rows{rows}, of_indices{count};
    Value times = scatter_elements(g, filled(g, of_rows, 0, wide), indices, filled(g, of_indices, 1, wide), 0,
                                   Reduction::add);
    dy = dy / Formula(g, g.unsqueeze(g.gather(times, indices, 0), {1}));
  }
  const std::vector<Dim> dims{rows, width};
  return g.cast(scatter_rows(g, filled(g, dims, 0, wide), 0, indices, dy, Reduction::add), type);
}

// The gradient of the table of embedding_bag: each row gets the gradients of the bags that contain it.
Value bag_gradient(GraphBuilder& g, Value grad, Value indices, Value bag, Value sizes, Value greatest,
                   const Dim& rows, bool by_frequency, int64_t mode, std::optional<Value> factors,
                   int64_t padding_idx) {
  const ElementType type = grad.element_type(), wide = opmath_type(type);
  const std::vector<Dim> dims{rows, grad.dim(1)};
  Formula dy(g, g.cast(grad, wide));
  if (mode == 2) {  // the maximum of each column; an empty bag has none
    Formula is_empty(g, g.unsqueeze(Formula(g, g.cast(sizes, ElementType::int64)) == 0, {1}));
    Value start = filled(g, dims, 0, wide);
    return g.cast(scatter_elements(g, start, greatest, where(is_empty, 0, dy), 0, Reduction::add), type);
  }
  if (mode == 1) dy = dy / Formula(g, g.unsqueeze(g.cast(sizes, wide), {1}));
  Formula of_each(g, g.gather(dy, bag, 0));
  if (factors) of_each = of_each * Formula(g, g.unsqueeze(g.cast(*factors, wide), {1}));
  return g.cast(embedding_gradient(g, of_each, indices, rows, Dim(padding_idx), by_frequency), type);
}

// The bag of each of `count` indices, which the forward kernel does not always return: the number of offsets
// up to the index, minus 1. An offset is the first index of a bag.
Value bag_of_each(GraphBuilder& g, Value offsets, const Dim& count) {
  Value begun = g.op("GreaterOrEqual", g.unsqueeze(arithmetic(g, 0, 1, count), {1}),
                     g.unsqueeze(g.cast(offsets, ElementType::int64), {0}));
  Value number = g.reduce("ReduceSum", g.cast(begun, ElementType::int64), {1}, false);
  return g.op("Sub", number, g.scalar(1, ElementType::int64));
}

// Adds the windows, the last axis of `grad`, to where they were read.
Value unfold_gradient(GraphBuilder& g, Value grad, const std::vector<Dim>& dims, int64_t dim, int64_t size,
                      int64_t step) {
  if (dims.empty()) return g.reshape(grad, dims);
  const ElementType type = grad.element_type();
  const int64_t axis = wrap_axis(dim, static_cast<int64_t>(dims.size()));
  // (windows, size) elements along the axis
  Value windows = move_axis(g, g.cast(grad, opmath_type(type)), -1, axis + 1);
  const Dim count = windows.dim(axis) * Dim(size);
  Value starts = g.unsqueeze(arithmetic(g, 0, step, windows.dim(axis)), {1});
  Value indices = g.reshape(g.op("Add", starts, arithmetic(g, 0, 1, size)), {count});
  std::vector<Dim> flattened = windows.dims(), whole = dims;
  flattened.erase(flattened.begin() + axis);
  flattened[axis] = whole[axis] = count;
  Value start = filled(g, dims, 0, windows.element_type());
  Value added = g.expand(g.reshape(windows, flattened), whole);  // PyTorch broadcasts the other dims
  return g.cast(scatter_rows(g, start, axis, indices, added, Reduction::add), type);
}

}  // namespace

void register_indexing_gradients(SymbolicRegistry& registry) {
  auto on = add(registry);
  using Dims = std::vector<Dim>;

  on("aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
     "SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
     Since{16}, embedding_gradient);
  on("aten::embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, "
     "bool scale_grad_by_freq, bool sparse) -> Tensor",
     Since{16},
     [](GraphBuilder& g, Value grad, Value indices, Dim rows, Dim padding_idx, bool by_frequency,
        bool sparse) {
       if (sparse) g.refuse("its gradient is sparse; construct the embedding with sparse=False");
       return embedding_gradient(g, grad, indices, rows, padding_idx, by_frequency);
     });
  on("aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, "
     "Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, "
     "Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
     Since{16}, bag_gradient);
  on("aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, "
     "Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, "
     "bool sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
     Since{16},
     [](GraphBuilder& g, Value grad, Value indices, Value offsets, Value bag, Value sizes, Value greatest,
        Dim rows, bool by_frequency, int64_t mode, bool sparse, std::optional<Value> factors,
        int64_t padding_idx) {
       if (sparse) g.refuse("its gradient is sparse; construct the embedding with sparse=False");
       if (!(bag.dim(0) == indices.dim(0))) bag = bag_of_each(g, offsets, indices.dim(0));
       return bag_gradient(g, grad, indices, bag, sizes, greatest, rows, by_frequency, mode, factors,
                           padding_idx);
     });
  on("aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, "
     "Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
     Since{9},
     [](GraphBuilder& g, Value grad, Value weight, Value indices, Value offsets, Value bag, Ignored,
        int64_t padding_idx) {
       if (!(bag.dim(0) == indices.dim(0))) bag = bag_of_each(g, offsets, indices.dim(0));
       Formula rows = operand_of_result(g, g.gather(weight, indices, 0)),
               dy = operand_of_result(g, g.gather(grad, bag, 0));
       Formula made(g, g.reduce("ReduceSum", rows * dy, {1}, false));
       if (padding_idx >= 0) {
         Value padding = g.scalar(padding_idx, indices.element_type());
         made = where(Formula(g, g.op("Equal", indices, padding)), 0, made);
       }
       return g.cast(made, g.result().element_type);
     });
  on("aten::trace_backward(Tensor grad, SymInt[] sizes) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Dims dims) {
       Value nothing = zeros(g, grad, dims);
       Value is_diagonal =
           g.cast(g.op("EyeLike", filled(g, dims, 0, ElementType::float32)), ElementType::boolean);
       return g.op("Where", is_diagonal, grad, nothing);
     });
  on("aten::gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor",
     Since{16}, [](GraphBuilder& g, Value grad, Value self, int64_t dim, Value indices, bool sparse) {
       if (sparse) g.refuse("its gradient is sparse; call gather with sparse_grad=False");
       return gradient_of_gather(g, grad, self.dims(), dim, indices);
     });
  on("aten::cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor", Since{16},
     [](GraphBuilder& g, Value grad, Value input, Value indices, int64_t dim) {
       return gradient_of_gather(g, grad, input.dims(), dim, indices);
     });
  on("aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, "
     "bool keepdim) -> Tensor",
     Since{16}, [](GraphBuilder& g, Value grad, int64_t dim, Value indices, Dims dims, bool keepdim) {
       if (!keepdim && !dims.empty()) {
         const int64_t axis = wrap_axis(dim, static_cast<int64_t>(dims.size()));
         grad = g.unsqueeze(grad, {axis}), indices = g.unsqueeze(indices, {axis});
       }
       return gradient_of_gather(g, grad, dims, dim, indices);
     });
  on("aten::index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor",
     Since{16}, [](GraphBuilder& g, Value grad, Dims dims, int64_t dim, Value indices) {
       const ElementType type = grad.element_type(), wide = opmath_type(type);
       if (dims.empty()) g.refuse("the gradient of a selection from a number; select from a vector");
       const int64_t axis = wrap_axis(dim, static_cast<int64_t>(dims.size()));
       Value rows = g.reshape(indices, {element_count(indices)});
       return g.cast(
           scatter_rows(g, filled(g, dims, 0, wide), axis, rows, g.cast(grad, wide), Reduction::add), type);
     });
  on("aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Dims dims, int64_t dim, Dim index) {
       return select_scatter(g, zeros(g, grad, dims), grad, dim, index);
     });
  on("aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, "
     "SymInt step) -> Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Dims dims, int64_t dim, Dim start, Dim end, int64_t step) {
       return slice_scatter(g, zeros(g, grad, dims), grad, dim, start, end, step);
     });
  on("aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> "
     "Tensor",
     Since{9}, [](GraphBuilder& g, Value grad, Dims dims, int64_t offset, int64_t dim1, int64_t dim2) {
       return diagonal_scatter(g, zeros(g, grad, dims), grad, offset, dim1, dim2);
     });
  on("aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor",
     Since{16}, unfold_gradient);
  // The elements of the gradient at which the mask is true, followed by zeros.
  on("aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor", Since{9},
     [](GraphBuilder& g, Value grad, Value mask, Dims dims) {
       Value at = nonzero_indices(g, flat(g, g.expand(mask, grad.dims())));
       Value taken = g.gather(flat(g, grad), g.squeeze(at, {1}), 0);
       Value padded =
           g.concat({taken, filled(g, std::vector{element_count(dims)}, 0, grad.element_type())}, 0);
       Value whole = g.slice(padded, 0, g.ints({0}), g.sizes({element_count(dims)}));
       return g.reshape(g.typed(whole, std::vector{element_count(dims)}), dims);
     });
}

}  // namespace opbridge::lowering
