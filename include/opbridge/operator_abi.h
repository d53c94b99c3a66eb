/* What an operator library tells whoever opens it, in plain C: the schema lines of its operators, their shape
 * rules, and their lowerings to standard ONNX. Both libraries of a set (libNAME_torch.so, libNAME_ort.so)
 * export the functions below; the second one needs neither PyTorch nor ONNX Runtime to be opened.
 *
 * The mapping to ONNX follows from the schema line `namespace::name(arguments) -> returns`:
 *   - the node is `name` of the domain `namespace`, at opset `version`;
 *   - every Tensor, Tensor? and Tensor[] becomes an input, in the schema's order; None is an empty input, a
 *     Tensor[] is the last and takes all inputs that are left;
 *   - every other argument becomes an attribute of the argument's name: int, SymInt and bool are INT, float
 *     FLOAT, str STRING; int[], SymInt[] and bool[] INTS, float[] FLOATS; str[] is one STRING in
 *     which a 0 follows each element, since the C API of ONNX Runtime before 1.25 reads no lists of strings;
 *     None is no attribute;
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

/* An operator with a gradient is followed by `name_backward`, which has no node: it takes the gradients of
 * all returns, then all arguments, then `bool[] wanted` with a flag for each of its returns, named `grad_`
 * and the argument; a gradient that is not wanted comes back with no elements. */

typedef struct opbridge_operator {
  const char* schema;    /* "custom::my_add(Tensor a, Tensor b) -> Tensor" */
  int32_t version;       /* of its domain's opset, from 1 */
  int32_t backward_of;   /* index of the operator whose gradient this one computes, or -1 */
  int32_t lowered_since; /* the lowest opset of ONNX at which it has a lowering; 0 where it has none */
} opbridge_operator;

typedef struct opbridge_operator_table {
  int32_t abi; /* OPBRIDGE_OPERATOR_ABI of the library; the layout of what follows depends on it */
  int32_t count;
  const opbridge_operator* operators;
  const char* error; /* why some operator could not be registered with the host; NULL where all are */
} opbridge_operator_table;

/* The operators of this library; the same pointer at each call, valid while the library is open. */
const opbridge_operator_table* opbridge_operators(void);

/* A size: the number itself, or the host's handle of a size that is not a number yet. */
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

/* Who runs a shape rule on sizes that are not numbers. The functions return 0, or another number when they
 * fail, which ends the rule. */
typedef struct opbridge_shape_host {
  void* user;
  int (*arithmetic)(void* user, int32_t what, const opbridge_dim* a, const opbridge_dim* b,
                    opbridge_dim* result);
  int (*compare)(void* user, int32_t what, const opbridge_dim* a, const opbridge_dim* b, int32_t* result);
  /* The rule demands that the comparison holds, else `message` is the error. */
  int (*require)(void* user, int32_t what, const opbridge_dim* a, const opbridge_dim* b, const char* message);
  /* A size that the data decides. */
  int (*data_size)(void* user, opbridge_dim* result);
  /* Takes the result: called for each output tensor, in order; `output` counts returns. */
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

/* What is written differently from opset to opset, and what sizes become: the host knows how. `numbers` are
 * sizes, axes and the like. */
enum opbridge_form {
  OPBRIDGE_SIZE,      /* numbers: a size; 0-d int64 */
  OPBRIDGE_SIZES,     /* numbers: sizes; 1-d int64 */
  OPBRIDGE_SHAPE_OF,  /* 1-d int64 */
  OPBRIDGE_SET_DIMS,  /* numbers: the dims of the value, which the host could not infer; the value itself */
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
  opbridge_argument value; /* INT, INTS, FLOAT, FLOATS, STRING or STRINGS, and no size that is not a number */
} opbridge_attribute;

/* Who builds the ONNX graph of a lowering. The functions return 0, or another number when they fail, which
 * ends the lowering. */
typedef struct opbridge_onnx_host {
  void* user;
  int32_t opset;
  const opbridge_shape_host* sizes; /* computes with sizes that are not numbers */
  /* A rank of -1 is unknown. The dims are valid until the lowering returns. */
  int (*type)(void* user, opbridge_value value, opbridge_tensor_type* result);
  int (*node)(void* user, const char* name, const opbridge_value* inputs, int32_t input_count,
              const opbridge_attribute* attributes, int32_t attribute_count, opbridge_value* outputs,
              int32_t output_count);
  int (*form)(void* user, int32_t form, const char* name, const opbridge_value* inputs, int32_t input_count,
              const opbridge_dim* numbers, int32_t number_count, opbridge_value* outputs,
              int32_t output_count);
  /* A tensor whose elements are copied: row-major, as many as the dims say. */
  int (*constant)(void* user, int32_t element_type, const int64_t* dims, int32_t rank, const void* elements,
                  opbridge_value* result);
  /* A 0-d tensor of an INT or a FLOAT; with element type 0 it takes that of the tensor it meets. */
  int (*scalar)(void* user, const opbridge_argument* number, int32_t element_type, opbridge_value* result);
  /* Takes the result, all returns in order. */
  int (*results)(void* user, const opbridge_value* values, int32_t count);
} opbridge_onnx_host;

enum opbridge_lowering_status {
  OPBRIDGE_LOWERED,
  OPBRIDGE_LOWERING_FAILED, /* `error` says why, as with opbridge_infer */
  OPBRIDGE_OWN_NODE         /* no lowering holds for these arguments: the operator's own node stands */
};

/* Runs the lowering of operator `index` that has the greatest opset up to the host's, on one argument per
 * schema argument. Returns an opbridge_lowering_status. */
int opbridge_lower(int32_t index, const opbridge_argument* arguments, int32_t count,
                   const opbridge_onnx_host* host, char* error, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
