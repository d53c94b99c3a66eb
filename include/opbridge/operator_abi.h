/* The C interface of an operator library: the schema lines of its operators, their shape rules, and their
 * lowerings to standard ONNX. Both libraries of a pair (libNAME_torch.so, libNAME_ort.so) export the
 * functions below; the second one can be opened without PyTorch and ONNX Runtime.
 *
 * The mapping to ONNX follows from the schema line `namespace::name(arguments) -> returns`:
 *   - the node is `name` of the domain `namespace`, at opset `version`;
 *   - every Tensor, Tensor? and Tensor[] becomes an input, in the schema's order; None is an empty input;
 *     Tensor[] must be the last and takes all remaining inputs;
 *   - every other argument becomes an attribute of the argument's name: int, SymInt and bool are INT, float
 *     FLOAT, str STRING; int[], SymInt[] and bool[] INTS, float[] FLOATS; str[] is one STRING in which each
 *     element is followed by a zero byte, since the C API of ONNX Runtime before 1.25 cannot read lists of
 *     strings; for None the attribute is omitted;
 *   - FLOAT and FLOATS are float32: if that does not hold a value of the argument `name` exactly, the STRING
 *     `name_float64` has the values as decimal numbers, separated by commas;
 *   - returns are outputs in order; a Tensor[] return is all outputs of the node.
 */
#ifndef OPBRIDGE_OPERATOR_ABI_H
#define OPBRIDGE_OPERATOR_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPBRIDGE_OPERATOR_ABI 2

/* An operator with a gradient is followed by `name_backward`, an operator like others. It takes the gradients
 * of all returns, then all arguments, then `bool[] wanted` with a flag for each of its returns. A return
 * is named `grad_ARGUMENT`; a gradient that is not wanted is returned without elements. */

typedef struct opbridge_operator {
  const char* schema;    /* "custom::my_add(Tensor a, Tensor b) -> Tensor" */
  int32_t version;       /* of its domain's opset, from 1 */
  int32_t backward_of;   /* index of the operator whose gradient this one computes, or -1 */
  int32_t lowered_since; /* the lowest opset of ONNX at which it has a lowering; 0 if it has none */
} opbridge_operator;

typedef struct opbridge_operator_table {
  int32_t abi; /* OPBRIDGE_OPERATOR_ABI of the library; the layout of what follows depends on it */
  int32_t count;
  const opbridge_operator* operators;
  const char* error; /* why an operator could not be registered with the host; NULL if all were */
} opbridge_operator_table;

/* The operators of this library; the same pointer at each call, valid while the library is open. */
const opbridge_operator_table* opbridge_operators(void);

/* A size: an integer, or the host's handle of a symbolic size. */
typedef struct opbridge_dim {
  int64_t value;
  int64_t symbolic; /* 0: `value` is the size. 1: `value` is the host's handle */
} opbridge_dim;

enum opbridge_arithmetic {
  OPBRIDGE_ADD,
  OPBRIDGE_SUB,
  OPBRIDGE_MUL,
  OPBRIDGE_FLOOR_DIV, /* rounds towards minus infinity, as MOD does */
  OPBRIDGE_MOD,
  OPBRIDGE_MIN,
  OPBRIDGE_MAX
};

enum opbridge_comparison { OPBRIDGE_EQ, OPBRIDGE_NE, OPBRIDGE_LT, OPBRIDGE_LE };

typedef struct opbridge_tensor_type {
  int32_t element_type; /* onnx.TensorProto.DataType */
  int32_t rank;
  const opbridge_dim* dims;
} opbridge_tensor_type;

/* The host of a shape rule, which computes with symbolic sizes. The functions return 0, or another number on
 * failure, which ends the rule. */
typedef struct opbridge_shape_host {
  void* user;
  int (*arithmetic)(void* user, int32_t what, const opbridge_dim* a, const opbridge_dim* b,
                    opbridge_dim* result);
  int (*compare)(void* user, int32_t what, const opbridge_dim* a, const opbridge_dim* b, int32_t* result);
  /* The rule requires that the comparison holds; `message` is the error otherwise. */
  int (*require)(void* user, int32_t what, const opbridge_dim* a, const opbridge_dim* b, const char* message);
  /* A size that depends on the data. */
  int (*data_size)(void* user, opbridge_dim* result);
  /* Receives the type of an output: called for each output tensor, in order. `output` is the index of the
   * return that the tensor belongs to. */
  int (*output)(void* user, int32_t output, const opbridge_tensor_type* type);
} opbridge_shape_host;

/* An ONNX value that is being built: the host's handle, valid until the lowering returns; 0 for none. */
typedef int64_t opbridge_value;

enum opbridge_argument_kind {
  OPBRIDGE_NONE,
  OPBRIDGE_TENSOR,
  OPBRIDGE_TENSORS,
  OPBRIDGE_INT, /* SymInt too; bool as 0 and 1 */
  OPBRIDGE_INTS,
  OPBRIDGE_FLOAT,
  OPBRIDGE_FLOATS,
  OPBRIDGE_STRING,
  OPBRIDGE_STRINGS
};

typedef struct opbridge_argument {
  int32_t kind;
  int32_t count;                       /* elements behind the pointer that `kind` names */
  const opbridge_tensor_type* tensors; /* TENSOR, TENSORS of a shape rule */
  const opbridge_value* values;        /* TENSOR, TENSORS of a lowering */
  const opbridge_dim* ints;            /* INT, INTS */
  const double* floats;                /* FLOAT, FLOATS */
  const char* const* strings;          /* STRING, STRINGS; UTF-8, ending in 0 */
} opbridge_argument;

/* Runs the shape rule of operator `index` on one argument per schema argument. Returns 0, or 1 with the error
 * as text in `error` (at most `capacity` bytes with the ending 0). */
int opbridge_infer(int32_t index, const opbridge_argument* arguments, int32_t count,
                   const opbridge_shape_host* host, char* error, size_t capacity);

/* Operations whose nodes differ between opsets, and symbolic sizes as tensors; the host makes the nodes. The
 * comments say what `numbers` of `form` holds. */
enum opbridge_form {
  OPBRIDGE_SIZE,      /* numbers: a size; 0-d int64 */
  OPBRIDGE_SIZES,     /* numbers: sizes; 1-d int64 */
  OPBRIDGE_SHAPE_OF,  /* 1-d int64 */
  OPBRIDGE_SET_DIMS,  /* numbers: the dims of the value, where the host cannot infer them; no new value */
  OPBRIDGE_CAST,      /* numbers: the element type */
  OPBRIDGE_RESHAPE,   /* numbers: the dims */
  OPBRIDGE_EXPAND,    /* numbers: the dims */
  OPBRIDGE_TRANSPOSE, /* numbers: the permutation */
  OPBRIDGE_SQUEEZE,   /* numbers: the axes */
  OPBRIDGE_UNSQUEEZE, /* numbers: the axes of the result */
  OPBRIDGE_CONCAT,    /* numbers: the axis */
  OPBRIDGE_SLICE,     /* numbers: axis, start, end, step */
  OPBRIDGE_SPLIT,     /* numbers: axis, then the size of each output */
  OPBRIDGE_REDUCE     /* name: "ReduceSum", …; numbers: keepdims, then the axes, none for all of them */
};

typedef struct opbridge_attribute {
  const char* name;
  opbridge_argument value; /* INT, INTS, FLOAT, FLOATS, STRING or STRINGS; without symbolic sizes */
} opbridge_attribute;

/* The host of a lowering, which builds the ONNX graph. The functions return 0, or another number on failure,
 * which ends the lowering. */
typedef struct opbridge_onnx_host {
  void* user;
  int32_t opset;
  const opbridge_shape_host* sizes; /* computes with symbolic sizes */
  /* A rank of -1 is unknown. The dims are valid until the lowering returns. */
  int (*type)(void* user, opbridge_value value, opbridge_tensor_type* result);
  int (*node)(void* user, const char* name, const opbridge_value* inputs, int32_t input_count,
              const opbridge_attribute* attributes, int32_t attribute_count, opbridge_value* outputs,
              int32_t output_count);
  int (*form)(void* user, int32_t form, const char* name, const opbridge_value* inputs, int32_t input_count,
              const opbridge_dim* numbers, int32_t number_count, opbridge_value* outputs,
              int32_t output_count);
  /* A constant tensor. `elements` is row-major and is copied. */
  int (*constant)(void* user, int32_t element_type, const int64_t* dims, int32_t rank, const void* elements,
                  opbridge_value* result);
  /* A 0-d tensor from an INT or a FLOAT. With element type 0 it takes the type of the tensors that it is an
   * operand with. */
  int (*scalar)(void* user, const opbridge_argument* number, int32_t element_type, opbridge_value* result);
  /* Receives the results: all returns in order. */
  int (*results)(void* user, const opbridge_value* values, int32_t count);
} opbridge_onnx_host;

enum opbridge_lowering_status {
  OPBRIDGE_LOWERED,
  OPBRIDGE_LOWERING_FAILED, /* `error` says why, as with opbridge_infer */
  OPBRIDGE_OWN_NODE         /* no lowering applies to these arguments: use the operator's own node */
};

/* Runs the lowering of operator `index` with the highest opset not above the host's, on one argument per
 * schema argument. Returns an opbridge_lowering_status. */
int opbridge_lower(int32_t index, const opbridge_argument* arguments, int32_t count,
                   const opbridge_onnx_host* host, char* error, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
