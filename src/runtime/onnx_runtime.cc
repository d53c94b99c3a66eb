#include "runtime/onnx_runtime.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "opbridge/error.h"
#include "runtime/find_library.h"
#include "support/operator_library.h"
#include "support/path.h"

namespace opbridge::runtime {
namespace {

// The API version of ONNX Runtime 1.20, the oldest supported release. Later releases keep supporting it,
// whichever header compiled this.
constexpr uint32_t api_version = 20;

// Turns a failed call into an Error with ONNX Runtime's own message.
void check(const OrtApi& api, OrtStatus* status, ErrorCode code, std::string_view what) {
  if (status == nullptr) return;
  std::string message = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  if (message.find("is not a registered function/op") != std::string::npos)
    message += "; name the library that has its kernel: --ops libNAME_ort.so";
  std::ranges::replace(message, '\n', ' ');
  throw Error(code, fmt::format("{}: {}", what, message));
}

void check(const OrtApi& api, OrtStatus* status) { check(api, status, ErrorCode::internal, "ONNX Runtime"); }

template <class T>
using Owned = std::unique_ptr<T, void(ORT_API_CALL*)(T*)>;

Owned<OrtSessionOptions> session_options(const OrtApi& api,
                                         std::span<const std::filesystem::path> libraries) {
  OrtSessionOptions* options = nullptr;
  check(api, api.CreateSessionOptions(&options));
  Owned<OrtSessionOptions> owned(options, api.ReleaseSessionOptions);
  // Otherwise ONNX Runtime rounds the other factor of a product with a dequantized weight to 8 bits.
  check(api, api.AddSessionConfigEntry(options, "session.qdq_matmulnbits_accuracy_level", "1"));
  for (const std::filesystem::path& library : libraries) {
    const std::filesystem::path path = support::operator_library(library);
    check(api, api.RegisterCustomOpsLibrary_V2(options, path.c_str()), ErrorCode::invalid_file,
          library.string());
  }
  return owned;
}

Owned<OrtValue> tensor(const OrtApi& api, const ir::Weight& weight, OrtAllocator* allocator,
                       std::string_view name) {
  OrtValue* value = nullptr;
  const auto type = static_cast<ONNXTensorElementDataType>(weight.element_type);
  // Copied into memory of ONNX Runtime: file contents lack the alignment that it requires.
  check(api, api.CreateTensorAsOrtValue(allocator, weight.dims.data(), weight.dims.size(), type, &value),
        ErrorCode::invalid_argument, fmt::format("the input '{}'", name));
  Owned<OrtValue> owned(value, api.ReleaseValue);
  void* data = nullptr;
  check(api, api.GetTensorMutableData(value, &data));
  if (!weight.bytes.empty()) std::memcpy(data, weight.bytes.data(), weight.bytes.size());
  return owned;
}

ir::Weight weight(const OrtApi& api, Owned<OrtValue> value, std::string_view name) {
  int is_tensor = 0;
  check(api, api.IsTensor(value.get(), &is_tensor));
  if (is_tensor == 0) {
    throw Error(ErrorCode::unsupported, fmt::format("the output '{}' is not a tensor", name));
  }
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api, api.GetTensorTypeAndShape(value.get(), &info));
  const Owned<OrtTensorTypeAndShapeInfo> owned_info(info, api.ReleaseTensorTypeAndShapeInfo);
  ONNXTensorElementDataType type{};
  size_t rank = 0;
  check(api, api.GetTensorElementType(info, &type));
  check(api, api.GetDimensionsCount(info, &rank));

  ir::Weight result;
  result.element_type = static_cast<ElementType>(type);
  if (bits_of(result.element_type) == 0) {
    throw Error(ErrorCode::unsupported, fmt::format("the output '{}' does not hold numbers", name));
  }
  result.dims.resize(rank);
  check(api, api.GetDimensions(info, result.dims.data(), rank));
  void* data = nullptr;
  check(api, api.GetTensorMutableData(value.get(), &data));
  const uint64_t size = storage_bytes(result.element_type, static_cast<uint64_t>(result.element_count()));
  result.bytes = {static_cast<const std::byte*>(data), size};
  result.owner = std::shared_ptr<OrtValue>(std::move(value));
  return result;
}

}  // namespace

OnnxRuntime::OnnxRuntime(const std::filesystem::path& library) {
  const std::filesystem::path path = library.empty() ? find_onnx_runtime() : library;
  support::check_path(path);
  // Never closed: ONNX Runtime's threads and thread-local state outlive the objects made here.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("cannot open ONNX Runtime: {}; install the Python package onnxruntime, or name its "
                    "library (libonnxruntime.so) with --runtime or in OPBRIDGE_ONNXRUNTIME",
                    dlerror()));
  }
  const auto get_base = reinterpret_cast<const OrtApiBase*(ORT_API_CALL*)()>(dlsym(handle, "OrtGetApiBase"));
  const OrtApiBase* const base = get_base == nullptr ? nullptr : get_base();
  if (base != nullptr) version_ = base->GetVersionString();
  if (base != nullptr) api_ = base->GetApi(api_version);
  if (api_ == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                base == nullptr ? fmt::format("{} is not ONNX Runtime's library", path.string())
                                : fmt::format("{} is ONNX Runtime {}; 1.{} or later is needed", path.string(),
                                              version_, api_version));
  }
  check(*api_, api_->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "opbridge", &environment_));
}

OnnxRuntime::~OnnxRuntime() { api_->ReleaseEnv(environment_); }

Session::Session(const OnnxRuntime& runtime, const std::filesystem::path& model,
                 std::span<const std::filesystem::path> operator_libraries)
    : runtime_(runtime), session_(nullptr, runtime.api_->ReleaseSession) {
  support::check_path(model);
  const OrtApi& api = *runtime.api_;
  const Owned<OrtSessionOptions> options = session_options(api, operator_libraries);
  OrtSession* session = nullptr;
  check(api, api.CreateSession(runtime.environment_, model.c_str(), options.get(), &session),
        ErrorCode::invalid_file,
        fmt::format("ONNX Runtime {} refuses {}", runtime.version(), model.string()));
  session_.reset(session);

  OrtAllocator* allocator = nullptr;
  check(api, api.GetAllocatorWithDefaultOptions(&allocator));
  size_t inputs = 0, outputs = 0;
  check(api, api.SessionGetInputCount(session, &inputs));
  check(api, api.SessionGetOutputCount(session, &outputs));
  const auto read_name = [&](auto get, size_t index) {
    char* name = nullptr;
    check(api, get(session, index, allocator, &name));
    std::string copy = name;
    check(api, api.AllocatorFree(allocator, name));
    return copy;
  };
  for (size_t i = 0; i < inputs; ++i) input_names_.push_back(read_name(api.SessionGetInputName, i));
  for (size_t i = 0; i < outputs; ++i) output_names_.push_back(read_name(api.SessionGetOutputName, i));
}

std::vector<ir::Weight> Session::run(std::span<const ir::Weight> inputs) const {
  const OrtApi& api = *runtime_.api_;
  OrtAllocator* allocator = nullptr;
  check(api, api.GetAllocatorWithDefaultOptions(&allocator));

  std::vector<Owned<OrtValue>> owned_inputs;
  std::vector<const OrtValue*> values;
  std::vector<const char*> names, output_names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    owned_inputs.push_back(tensor(api, inputs[i], allocator, input_names_[i]));
    values.push_back(owned_inputs.back().get());
    names.push_back(input_names_[i].c_str());
  }
  for (const std::string& name : output_names_) output_names.push_back(name.c_str());

  std::vector<OrtValue*> made(output_names.size(), nullptr);
  OrtStatus* const status = api.Run(session_.get(), nullptr, names.data(), values.data(), values.size(),
                                    output_names.data(), output_names.size(), made.data());
  std::vector<Owned<OrtValue>> owned_outputs;
  for (OrtValue* value : made) owned_outputs.emplace_back(value, api.ReleaseValue);
  check(api, status, ErrorCode::invalid_argument,
        fmt::format("ONNX Runtime {} cannot run the model", runtime_.version()));

  std::vector<ir::Weight> outputs;
  for (size_t i = 0; i < made.size(); ++i) {
    outputs.push_back(weight(api, std::move(owned_outputs[i]), output_names_[i]));
  }
  return outputs;
}

}  // namespace opbridge::runtime
