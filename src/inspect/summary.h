// Statistics of a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "inspect/table.h"
#include "onnx/model_reader.h"
#include "opbridge/ir.h"

namespace opbridge::inspect {

struct Summary {
  struct Named {
    std::string name;
    std::string type;
  };
  struct Count {
    std::string op;
    size_t count;
  };
  struct Weights {
    size_t tensors = 0;
    uint64_t elements = 0;
    uint64_t bytes = 0;
  };
  struct Function {
    std::string name;
    std::vector<std::string> operators;
  };

  std::string file;
  std::string format;  // "ONNX" or "PyTorch exported program"
  uint64_t file_bytes = 0;
  std::string producer;               // of an ONNX model
  int64_t ir_version = 0;             // of an ONNX model
  std::map<std::string, int> opsets;  // of an ONNX model
  std::vector<Named> inputs;
  std::vector<Named> outputs;
  std::vector<Count> operators;  // of the graph and its subgraphs, most frequent first
  Weights weights;               // initializers of the graph and its subgraphs
  std::map<std::string, Weights> weights_by_type;
  std::vector<std::pair<Named, uint64_t>> largest_weights;  // and their sizes in bytes
  std::vector<Function> functions;
  std::vector<Count> custom_operators;  // defined neither by ONNX nor by the model
};

Summary summarize(const ir::Graph& graph);
Summary summarize(const onnx::ModelFile& file);

// For people. Bytes that could confuse a terminal are escaped.
std::string to_text(const Summary& summary, const Screen& screen = {});
std::string to_json(const Summary& summary);

}  // namespace opbridge::inspect
