// The field numbers of onnx.proto (IR version 14) that opbridge reads or writes.
#pragma once

#include <protozero/types.hpp>

namespace opbridge::onnx::proto {

using Tag = protozero::pbf_tag_type;

enum class Model : Tag {
  ir_version = 1,
  producer_name = 2,
  producer_version = 3,
  domain = 4,
  model_version = 5,
  doc_string = 6,
  graph = 7,
  opset_import = 8,
  metadata_props = 14,
  functions = 25,
};

// Keys of NodeProto.metadata_props: the PyTorch source line and module of a node.
inline constexpr char source_line_key[] = "pytorch.source";
inline constexpr char source_scope_key[] = "pytorch.scope";
// The name of the call's first result in the captured program, and the operator: "linear_1 aten::linear".
inline constexpr char source_call_key[] = "pytorch.call";
// "user" if a mapping of the user's made the node.
inline constexpr char source_mapping_key[] = "pytorch.mapping";
// The rewrites that made or changed the node after the mapping.
inline constexpr char source_rewritten_key[] = "pytorch.rewritten";

// Key of ModelProto.metadata_props, followed by the name of a size: the values for which the model was
// exported, as `2..512` or `2..`. A size without an entry is at least 1.
inline constexpr char size_range_key[] = "pytorch.size.";

enum class OperatorSetId : Tag { domain = 1, version = 2 };

enum class StringStringEntry : Tag { key = 1, value = 2 };

enum class Function : Tag {
  name = 1,
  input = 4,
  output = 5,
  attribute = 6,
  node = 7,
  opset_import = 9,
  domain = 10,
};

enum class Graph : Tag {
  node = 1,
  name = 2,
  initializer = 5,
  input = 11,
  output = 12,
  value_info = 13,
  sparse_initializer = 15,
};

enum class ValueInfo : Tag { name = 1, type = 2 };

enum class Node : Tag {
  input = 1,
  output = 2,
  name = 3,
  op_type = 4,
  attribute = 5,
  doc_string = 6,
  domain = 7,
  overload = 8,
  metadata_props = 9,
};

// Values as in onnx::AttributeKind: those of AttributeProto.AttributeType.
enum class Attribute : Tag {
  name = 1,
  f = 2,
  i = 3,
  s = 4,
  t = 5,
  g = 6,
  floats = 7,
  ints = 8,
  strings = 9,
  tensors = 10,
  graphs = 11,
  tp = 14,
  type_protos = 15,
  type = 20,
  sparse_tensor = 22,
  sparse_tensors = 23,
};

enum class SparseTensor : Tag { values = 1, indices = 2, dims = 3 };

enum class Tensor : Tag {
  dims = 1,
  data_type = 2,
  segment = 3,
  float_data = 4,
  int32_data = 5,
  string_data = 6,
  int64_data = 7,
  name = 8,
  raw_data = 9,
  double_data = 10,
  uint64_data = 11,
  external_data = 13,
  data_location = 14,
};

inline constexpr int data_location_external = 1;

enum class Type : Tag { tensor_type = 1, sequence_type = 4 };
enum class SequenceType : Tag { elem_type = 1 };
enum class TensorType : Tag { elem_type = 1, shape = 2 };
enum class TensorShape : Tag { dim = 1 };
enum class Dimension : Tag { dim_value = 1, dim_param = 2 };

}  // namespace opbridge::onnx::proto
