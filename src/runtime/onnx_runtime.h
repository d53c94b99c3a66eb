// ONNX Runtime through its C API, found and opened when first needed. Nothing links against it: any release
// from 1.20 on works, including the one in the Python package `onnxruntime`.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "opbridge/ir.h"
#include "runtime/npz.h"

struct OrtApi;
struct OrtEnv;
struct OrtSession;

namespace opbridge::runtime {

class OnnxRuntime {
 public:
  // Opens `library`. If it is empty, opens the first of these: the library named by the variable
  // OPBRIDGE_ONNXRUNTIME; that of the Python package `onnxruntime` beside this program, in the active virtual
  // environment, or beside the first `python3` of PATH; whatever the dynamic loader finds as
  // libonnxruntime.so. Throws Error(invalid_argument) if there is none or it is too old.
  explicit OnnxRuntime(const std::filesystem::path& library = {});
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  const std::string& version() const { return version_; }  // "1.20.1"

 private:
  friend class Session;

  const OrtApi* api_ = nullptr;
  OrtEnv* environment_ = nullptr;
  std::string version_;
};

// A model loaded on the CPU. The runtime must outlive it.
class Session {
 public:
  // `operator_libraries` provide custom operators (libmy_ops_ort.so). Throws Error(invalid_file) with ONNX
  // Runtime's reason if it refuses the model or a library.
  Session(const OnnxRuntime& runtime, const std::filesystem::path& model,
          std::span<const std::filesystem::path> operator_libraries = {});

  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }

  // Runs the model on `inputs`, in the order of input_names(), and returns its outputs, in the order of
  // output_names(). Throws Error(invalid_argument) if ONNX Runtime rejects the inputs, and Error(unsupported)
  // for an output that is not a tensor of numbers.
  std::vector<ir::Weight> run(std::span<const ir::Weight> inputs) const;

 private:
  const OnnxRuntime& runtime_;
  std::unique_ptr<OrtSession, void (*)(OrtSession*)> session_;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
};

}  // namespace opbridge::runtime
