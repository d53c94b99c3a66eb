// Linear algebra of real matrices, a row or a column at a time, computed in float64. A singular matrix, for
// which PyTorch raises an error, gives infinities or NaN.

#include <array>

#include "lowering/add.h"
#include "lowering/common.h"
#include "runtimes/standard/bodies.h"
#include "runtimes/standard/counted_loop.h"

namespace opbridge::standard {
namespace {

using lowering::arithmetic;

Value float64(GraphBuilder& g, Value value) { return g.cast(value, ElementType::float64); }
Value transposed(GraphBuilder& g, Value a) { return g.transpose(a, {0, 2, 1}); }
Value zero_like(GraphBuilder& g, Value value) { return g.scalar_like(value, 0); }

// Matrices of float64 with one dim for the batch.
struct Batch {
  Batch(GraphBuilder& g, Value value, bool complex)
      : dims(lowering::first_dims(value.dims(), value.rank() - 2)),
        type(value.element_type()),
        rows(value.dim(-2)),
        columns(value.dim(-1)) {
    if (complex)
      g.refuse("complex matrices have no body of standard operators; export with target=\"onnxruntime\"");
    matrices = g.reshape(float64(g, value), {lowering::element_count(dims), rows, columns});
  }
  Dim count() const { return matrices.dim(0); }
  // `value`, which has one dim for the batch, with the original batch dims and element type.
  Value back(GraphBuilder& g, Value value) const { return back(g, value, type); }
  Value back(GraphBuilder& g, Value value, ElementType to) const {
    std::vector<Dim> all = dims;
    for (int64_t axis = 1; axis < value.rank(); ++axis) all.push_back(value.dim(axis));
    return g.cast(g.reshape(value, all), to);
  }

  std::vector<Dim> dims;
  ElementType type;
  Dim rows, columns;
  Value matrices;
};

// (rows, columns): whether the column's index minus the row's is at least `offset`.
Value above(GraphBuilder& g, const Dim& rows, const Dim& columns, int64_t offset) {
  Value row = g.op("Add", g.unsqueeze(arithmetic(g, 0, 1, rows), {1}), g.scalar(offset, ElementType::int64));
  return g.op("GreaterOrEqual", arithmetic(g, 0, 1, columns), row);
}

Value identity(GraphBuilder& g, const Dim& count, const Dim& size) {
  Value positions = arithmetic(g, 0, 1, size);
  Value one = float64(g, g.op("Equal", positions, g.unsqueeze(positions, {1})));
  return g.expand(g.unsqueeze(one, {0}), std::vector{count, size, size});
}

// The row (column) at `index`, which is 0-d, of each matrix: (batch, rows, columns) to (batch, columns).
Value row_at(GraphBuilder& g, Value a, Value index) { return g.gather(a, index, 1); }
Value column_at(GraphBuilder& g, Value a, Value index) { return g.gather(a, index, 2); }

// The first `count` along `axis`.
Value first(GraphBuilder& g, Value value, int64_t axis, const Dim& count) {
  std::vector<Dim> dims = value.dims();
  if (dims.at(axis) == count) return value;
  dims[axis] = count;
  return g.typed(g.slice(value, axis, g.scalar(0, ElementType::int64), g.size(count)), dims);
}

Value diagonal(GraphBuilder& g, Value a) {
  Value at = g.op("Equal", arithmetic(g, 0, 1, a.dim(2)), g.unsqueeze(arithmetic(g, 0, 1, a.dim(1)), {1}));
  Value values = g.reduce("ReduceSum", g.op("Where", at, a, zero_like(g, a)), {2}, false);
  return first(g, values, 1, min(a.dim(1), a.dim(2)));
}

// `order`, (batch, rows), with the elements at `k`, 0-d, and at `p`, (batch, 1), exchanged in each row.
Value swapped(GraphBuilder& g, Value order, Value k, Value p) {
  Value rows = arithmetic(g, 0, 1, order.dim(1));
  Value index = g.op("Where", g.op("Equal", rows, k), p, g.op("Where", g.op("Equal", rows, p), k, rows));
  return g.op("GatherElements", order, index, attr("axis", 1));
}

// The index, from 1 on, of the first true element in each row of `fails` (batch, n); 0 if there is none.
Value first_failure(GraphBuilder& g, Value fails) {
  Value numbers = g.op("Add", arithmetic(g, 0, 1, fails.dim(1)), g.scalar(1, ElementType::int64));
  Value none = g.op("Add", g.size(fails.dim(1)), g.scalar(1, ElementType::int64));
  Value first = g.op("Where", fails, numbers, none);
  first =
      g.concat({first, g.expand(g.reshape(none, {Dim(1), Dim(1)}), std::vector{fails.dim(0), Dim(1)})}, 1);
  first = g.reduce("ReduceMin", first, {1}, false);
  return g.op("Where", g.op("Equal", first, none), zero_like(g, first), first);
}

// P A = L U with partial pivoting.
struct Lu {
  Value factors;  // L below the diagonal of U
  Value order;    // (batch, rows): the row of A in each row of P A
  Value pivots;   // (batch, min(rows, columns)): the row with which each was exchanged
};

Lu factor_lu(GraphBuilder& g, Value a) {
  const Dim count = a.dim(0), rows = a.dim(1), columns = a.dim(2), steps = min(rows, columns);
  Value step_index = arithmetic(g, 0, 1, steps);
  Value none = lowering::filled(g, std::vector{count, steps}, 0, ElementType::int64);
  Value row_index = arithmetic(g, 0, 1, rows), column_index = arithmetic(g, 0, 1, columns);
  const std::vector order_dims{count, rows};
  Value start = g.expand(g.unsqueeze(row_index, {0}), order_dims);
  std::vector<Value> made = counted_loop(
      g, "eliminate", g.size(steps), {a, start, none},
      [&](GraphBuilder& on, Value k, std::span<const Value> values) {
        const Value before = values[0], before_order = values[1], before_pivots = values[2];
        Value size = on.op("Abs", column_at(on, before, k));
        size = on.op("Where", on.op("Less", row_index, k), on.scalar_like(size, -1), size);
        Value p = on.op("ArgMax", size, attr("axis", 1));
        Value index = swapped(on, on.expand(on.unsqueeze(row_index, {0}), order_dims), k, p);
        Value now = on.op("GatherND", before, on.unsqueeze(index, {2}), attr("batch_dims", 1));
        on.typed(now, a.type());
        Value column = column_at(on, now, k);
        Value pivot = on.unsqueeze(on.gather(column, k, 1), {1});
        Value quotient =
            on.op("Where", on.op("Equal", pivot, zero_like(on, pivot)), column, on.op("Div", column, pivot));
        Value is_below = on.op("Greater", row_index, k);
        Value factor = on.unsqueeze(on.op("Where", is_below, quotient, zero_like(on, quotient)), {2});
        Value row = row_at(on, now, k);
        row = on.unsqueeze(on.op("Where", on.op("Greater", column_index, k), row, zero_like(on, row)), {1});
        Value rest = on.op("Sub", now, on.op("Mul", factor, row));
        Value stored = on.op("And", on.unsqueeze(is_below, {1}), on.op("Equal", column_index, k));
        Value next = on.op("Where", stored, factor, rest);
        Value next_order = swapped(on, before_order, k, p);
        Value pivots = on.op("Where", on.op("Equal", step_index, k), p, before_pivots);
        return std::vector{next, next_order, pivots};
      });
  return {made[0], made[1], made[2]};
}

// The order of rows after the exchanges of `pivots`, (batch, n), which are 1-based.
Value order_of(GraphBuilder& g, Value pivots, const Dim& rows) {
  pivots = g.op("Sub", g.cast(pivots, ElementType::int64), g.scalar(1, ElementType::int64));
  Value start = g.expand(g.unsqueeze(arithmetic(g, 0, 1, rows), {0}), std::vector{pivots.dim(0), rows});
  const auto exchange = [&](GraphBuilder& on, Value k, std::span<const Value> values) {
    Value p = on.unsqueeze(on.gather(pivots, k, 1), {1});
    return std::vector{swapped(on, values[0], k, p)};
  };
  return counted_loop(g, "exchange", g.size(pivots.dim(1)), {start}, exchange).front();
}

Value rows_in_order(GraphBuilder& g, Value b, Value order) {
  return g.typed(g.op("GatherND", b, g.unsqueeze(order, {2}), attr("batch_dims", 1)), b.type());
}

// A X = B, from the first row on, or with `upper` from the last.
Value solve_triangle(GraphBuilder& g, Value a, Value b, bool upper, bool unitriangular) {
  const Dim n = a.dim(1);
  Value indices = arithmetic(g, 0, 1, n), last = g.op("Sub", g.size(n), g.scalar(1, ElementType::int64));
  const auto substitute = [&](GraphBuilder& on, Value step, std::span<const Value> values) {
    Value i = upper ? on.op("Sub", last, step) : step;
    Value before = values[0], row = row_at(on, a, i);
    Value is_known = on.op(upper ? "Greater" : "Less", indices, i);
    Value known = on.unsqueeze(on.op("Where", is_known, row, zero_like(on, row)), {1});
    Value right = on.unsqueeze(row_at(on, before, i), {1});
    Value found = on.op("Sub", right, on.op("MatMul", known, before));
    if (!unitriangular) found = on.op("Div", found, on.unsqueeze(on.gather(row, i, 1), {1, 2}));
    Value here = on.unsqueeze(on.op("Equal", indices, i), {1});
    return std::vector{on.op("Where", here, found, before)};
  };
  return counted_loop(g, "substitute", g.size(n), {b}, substitute).front();
}

// A X = B; A^T X = B with `transpose`.
Value solve_lu(GraphBuilder& g, Value factors, Value order, Value b, bool transpose) {
  if (!transpose) {
    Value y = solve_triangle(g, factors, rows_in_order(g, b, order), false, true);
    return solve_triangle(g, factors, y, true, false);
  }
  Value turned = transposed(g, factors);
  Value y = solve_triangle(g, turned, b, false, false);
  Value z = solve_triangle(g, turned, y, true, true);
  // The inverse of the permutation: the position of each row in the order.
  Value rows = arithmetic(g, 0, 1, factors.dim(1));
  Value stands = g.op("Equal", g.unsqueeze(order, {1}), g.unsqueeze(rows, {1}));
  return g.op("MatMul", float64(g, stands), z);
}

std::array<Value, 2> solve(GraphBuilder& g, Value a_value, std::optional<Value> b_value, bool left, Ignored,
                           bool complex) {
  const Batch a(g, a_value, complex);
  Value matrices = left ? a.matrices : transposed(g, a.matrices);
  const Lu lu = factor_lu(g, matrices);
  Value b = b_value ? Batch(g, *b_value, false).matrices : identity(g, a.count(), a.rows);
  Value x = solve_lu(g, lu.factors, lu.order, left || !b_value ? b : transposed(g, b), false);
  Value pivots = diagonal(g, lu.factors);
  Value info = first_failure(g, g.op("Equal", pivots, zero_like(g, pivots)));
  return {a.back(g, left ? x : transposed(g, x)), a.back(g, info, ElementType::int32)};
}

std::array<Value, 3> lu_factor(GraphBuilder& g, Value a_value, Ignored, bool complex) {
  const Batch a(g, a_value, complex);
  const Lu lu = factor_lu(g, a.matrices);
  Value diagonal_of_u = diagonal(g, lu.factors);
  Value info = first_failure(g, g.op("Equal", diagonal_of_u, zero_like(g, diagonal_of_u)));
  Value pivots = g.op("Add", lu.pivots, g.scalar(1, ElementType::int64));
  return {a.back(g, lu.factors), a.back(g, pivots, ElementType::int32), a.back(g, info, ElementType::int32)};
}

// Pivots with the dims of a batch, (…, n), as (batch, n).
Value flat_pivots(GraphBuilder& g, Value pivots, const Batch& of) {
  return g.reshape(pivots, {of.count(), pivots.dim(-1)});
}

Value lu_solve(GraphBuilder& g, Value lu_value, Value pivots, Value b_value, bool left, bool adjoint,
               bool complex) {
  const Batch lu(g, lu_value, complex), b(g, b_value, complex);
  Value order = order_of(g, flat_pivots(g, pivots, lu), lu.rows);
  Value x = solve_lu(g, lu.matrices, order, left ? b.matrices : transposed(g, b.matrices), adjoint == left);
  return b.back(g, left ? x : transposed(g, x));
}

std::array<Value, 3> lu_unpack(GraphBuilder& g, Value lu_value, Value pivots, bool complex) {
  const Batch lu(g, lu_value, complex);
  Value order = order_of(g, flat_pivots(g, pivots, lu), lu.rows);
  Value rows = arithmetic(g, 0, 1, lu.rows);
  Value p = float64(g, g.op("Equal", g.unsqueeze(order, {1}), g.unsqueeze(rows, {1})));
  const Dim count = min(lu.rows, lu.columns);
  Value zero = zero_like(g, lu.matrices);
  Value left = first(g, lu.matrices, 2, count), top = first(g, lu.matrices, 1, count);
  Value l = g.op("Where", above(g, lu.rows, count, 0), zero, left);
  l = g.op("Add", l, float64(g, g.op("Equal", g.unsqueeze(rows, {1}), arithmetic(g, 0, 1, count))));
  Value u = g.op("Where", above(g, count, lu.columns, 0), top, zero);
  return {lu.back(g, p), lu.back(g, l), lu.back(g, u)};
}

std::array<Value, 3> determinant(GraphBuilder& g, Value a_value, bool complex) {
  const Batch a(g, a_value, complex);
  const Lu lu = factor_lu(g, a.matrices);
  Value exchanged = g.op("Not", g.op("Equal", lu.pivots, arithmetic(g, 0, 1, a.rows)));
  Value exchanges = g.reduce("ReduceSum", g.cast(exchanged, ElementType::int64), {1}, false);
  Value odd = float64(g, g.op("Mod", exchanges, g.scalar(2, ElementType::int64)));
  Value parity = g.op("Sub", g.scalar_like(odd, 1), g.op("Mul", odd, g.scalar_like(odd, 2)));
  Value factors = diagonal(g, lu.factors);
  Value det = g.op("Mul", parity, g.reduce("ReduceProd", factors, {1}, false));
  Value sign = g.op("Mul", parity, g.reduce("ReduceProd", g.op("Sign", factors), {1}, false));
  Value log = g.reduce("ReduceSum", g.op("Log", g.op("Abs", factors)), {1}, false);
  return {a.back(g, det), a.back(g, sign), a.back(g, log)};
}

Value solve_triangular(GraphBuilder& g, Value a_value, Value b_value, bool upper, bool left,
                       bool unitriangular, bool complex) {
  const Batch a(g, a_value, complex), b(g, b_value, complex);
  // X A = B is A^T X^T = B^T.
  if (left) return b.back(g, solve_triangle(g, a.matrices, b.matrices, upper, unitriangular));
  Value x = solve_triangle(g, transposed(g, a.matrices), transposed(g, b.matrices), !upper, unitriangular);
  return b.back(g, transposed(g, x));
}

// A = L L^T, a column at a time, from the lower triangle of A.
Value factor_cholesky(GraphBuilder& g, Value a) {
  Value indices = arithmetic(g, 0, 1, a.dim(1));
  const auto column = [&](GraphBuilder& on, Value j, std::span<const Value> values) {
    Value before = values[0], row = row_at(on, before, j);
    row = on.unsqueeze(on.op("Where", on.op("Less", indices, j), row, zero_like(on, row)), {2});
    Value column = on.op("Sub", column_at(on, a, j), on.squeeze(on.op("MatMul", before, row), {2}));
    Value root = on.op("Sqrt", on.unsqueeze(on.gather(column, j, 1), {1}));
    Value on_diagonal = on.op("Where", on.op("Equal", indices, j), root, zero_like(on, root));
    Value next = on.op("Where", on.op("Greater", indices, j), on.op("Div", column, root), on_diagonal);
    return std::vector{on.op("Where", on.op("Equal", indices, j), on.unsqueeze(next, {2}), before)};
  };
  return counted_loop(g, "column", g.size(a.dim(1)), {a}, column).front();
}

std::array<Value, 2> cholesky(GraphBuilder& g, Value a_value, bool upper, Ignored, bool complex) {
  const Batch a(g, a_value, complex);
  Value l = factor_cholesky(g, upper ? transposed(g, a.matrices) : a.matrices);
  Value roots = diagonal(g, l);
  Value info = first_failure(g, g.op("Not", g.op("Greater", roots, zero_like(g, roots))));
  return {a.back(g, upper ? transposed(g, l) : l), a.back(g, info, ElementType::int32)};
}

Value cholesky_solve(GraphBuilder& g, Value l_value, std::optional<Value> b_value, bool upper, bool complex) {
  const Batch l(g, l_value, complex);
  Value lower = upper ? transposed(g, l.matrices) : l.matrices;
  Value b = b_value ? Batch(g, *b_value, complex).matrices : identity(g, l.count(), l.rows);
  Value y = solve_triangle(g, lower, b, false, false);
  return l.back(g, solve_triangle(g, transposed(g, lower), y, true, false));
}

}  // namespace

void register_linalg(SymbolicRegistry& registry) {
  auto on = lowering::add(registry);
  on("opbridge::solve(Tensor A, Tensor? B=None, *, bool left=True, bool check_errors=True, "
     "bool complex=False) -> (Tensor X, Tensor info)",
     Since{13}, solve);
  on("opbridge::lu_factor(Tensor A, *, bool check_errors=False, bool complex=False) "
     "-> (Tensor LU, Tensor pivots, Tensor info)",
     Since{13}, lu_factor);
  on("opbridge::lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False, "
     "bool complex=False) -> Tensor",
     Since{13}, lu_solve);
  on("opbridge::lu_unpack(Tensor LU, Tensor pivots, *, bool complex=False) -> (Tensor P, Tensor L, Tensor U)",
     Since{13}, lu_unpack);
  on("opbridge::determinant(Tensor A, *, bool complex=False) -> (Tensor det, Tensor sign, Tensor logabsdet)",
     Since{13}, determinant);
  on("opbridge::solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, "
     "bool unitriangular=False, bool complex=False) -> Tensor",
     Since{13}, solve_triangular);
  on("opbridge::cholesky(Tensor A, *, bool upper=False, bool check_errors=True, bool complex=False) "
     "-> (Tensor L, Tensor info)",
     Since{13}, cholesky);
  on("opbridge::cholesky_solve(Tensor L, Tensor? B=None, *, bool upper=False, bool complex=False) -> Tensor",
     Since{13}, cholesky_solve);
}

}  // namespace opbridge::standard
