// ONNX Runtime through its C API, found and opened when it is first needed. Nothing links against it: any
// release from 1.20 on serves, the one inside the `onnxruntime` Python package too.
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
  // Opens `library`. Where that is empty: what the variable OPBRIDGE_ONNXRUNTIME names, else the library of
  // the Python package `onnxruntime` beside this program, in the active virtual environment or beside the
  // first `python3` of PATH, else what the dynamic loader finds as libonnxruntime.so. Throws
  // Error(invalid_argument) where there is none, or one too old.
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
  // `operator_libraries` hold custom operators (libmy_ops_ort.so). Throws Error(invalid_file) where ONNX
  // Runtime refuses the model or a library, with its reason.
  Session(const OnnxRuntime& runtime, const std::filesystem::path& model,
          std::span<const std::filesystem::path> operator_libraries = {});

  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }

  // The outputs, in the order of output_names(), of `inputs`, in the order of input_names(). Throws
  // Error(invalid_argument) where ONNX Runtime does not take them, Error(unsupported) for an output that is
  // no tensor of numbers.
  std::vector<ir::Weight> run(std::span<const ir::Weight> inputs) const;

 private:
  const OnnxRuntime& runtime_;
  std::unique_ptr<OrtSession, void (*)(OrtSession*)> session_;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
};

}  // namespace opbridge::runtime
