// Exports RegisterCustomOps, which an ONNX Runtime session calls to register the operators of a library
// (SessionOptions.register_custom_ops_library). Requests version 17 of the C API, the first one with a
// parallel_for, whichever header it was compiled with. One binary therefore serves every runtime from 1.17
// on.
//
// Each kernel is a separate OrtCustomOp, because ONNX Runtime infers the element types of outputs from the
// operators that share a name. A session ignores operators of a provider that it lacks. Shapes are computed
// at run time only: ONNX Runtime's shape inference passes an unknown shape as that of a scalar, and fails on
// absent optional inputs.
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <sstream>

#include "library.h"
#include "ort_attributes.h"
#include "ort_context.h"
#include "ort_status.h"

namespace opbridge::op::detail {
namespace {

constexpr std::uint32_t kApiVersion = 17;

// Runs f; turns an exception into a status.
template <class F>
OrtStatus* guarded(const OrtApi& api, const LibraryOperator& op, F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (...) {
    return api.CreateStatus(ORT_INVALID_ARGUMENT, caught_error(op).what());
  }
}

// A node of a session. Its attributes are read once, its inputs at each run.
class Node {
 public:
  Node(const OrtApi& api, const OrtKernelInfo* info, const LibraryOperator& op, const LibraryKernel& kernel)
      : api_(api), op_(op), kernel_(kernel) {
    for (const SchemaArgument& argument : op.schema) {
      template_.push_back(argument.type.is_tensor() ? Value() : Attributes(api, info).read(argument));
    }
  }

  const OrtApi& api() const { return api_; }
  const LibraryOperator& op() const { return op_; }

  void run(OrtKernelContext* raw) const {
    if (kernel_.device == Device::cuda) {
      OrtCudaHost host(api_, raw);
      run(raw, host);
    } else {
      OrtContext context(api_, raw);
      run(raw, context);
    }
  }

 private:
  void run(OrtKernelContext* raw, Host& host) const {
    std::deque<std::vector<std::int64_t>> dims;
    std::vector<Value> arguments = template_;
    read_inputs(raw, arguments, dims);
    const std::vector<std::vector<Shape>> shapes = infer_shapes(op_, with_shapes(arguments));

    std::vector<Result> results(shapes.size());
    int output = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      for (const Shape& shape : shapes[i]) {
        if (!kernel_.data_sized[i]) {
          results[i].push_back(host.allocate_output(output, kernel_.outputs[i], numbers(shape)));
        }
        ++output;
      }
    }
    detail::run(kernel_, host, shapes, arguments, results);
  }

  void read_inputs(OrtKernelContext* context, std::vector<Value>& arguments,
                   std::deque<std::vector<std::int64_t>>& dims) const {
    std::size_t count = 0, input = 0;
    check(api_, api_.KernelContext_GetInputCount(context, &count));
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const SchemaArgument& argument = op_.schema.arguments[i];
      if (!argument.type.is_tensor()) continue;
      if (argument.type.list) {
        std::vector<TensorRef> list;
        while (input < count) {
          if (auto tensor = read_input(context, input++, dims)) list.push_back(*tensor);
        }
        arguments[i] = std::move(list);
        continue;
      }
      const auto tensor = input < count ? read_input(context, input, dims) : std::nullopt;
      ++input;
      if (tensor) {
        arguments[i] = *tensor;
      } else if (!argument.type.optional) {
        throw Error(ErrorCode::invalid_argument, "the input " + std::string(argument.name) + " is missing");
      }
    }
  }

  std::optional<TensorRef> read_input(OrtKernelContext* context, std::size_t index,
                                      std::deque<std::vector<std::int64_t>>& all_dims) const {
    const OrtValue* value = nullptr;
    check(api_, api_.KernelContext_GetInput(context, index, &value));
    if (value == nullptr) return std::nullopt;
    OrtTensorTypeAndShapeInfo* raw = nullptr;
    check(api_, api_.GetTensorTypeAndShape(value, &raw));
    const auto release = [this](OrtTensorTypeAndShapeInfo* i) { api_.ReleaseTensorTypeAndShapeInfo(i); };
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(release)> info(raw, release);
    ONNXTensorElementDataType type{};
    check(api_, api_.GetTensorElementType(info.get(), &type));
    std::size_t rank = 0;
    check(api_, api_.GetDimensionsCount(info.get(), &rank));
    std::vector<std::int64_t>& dims = all_dims.emplace_back(rank);
    check(api_, api_.GetDimensions(info.get(), dims.data(), rank));
    void* data = nullptr;
    check(api_, api_.GetTensorMutableData(const_cast<OrtValue*>(value), &data));
    return TensorRef{static_cast<ElementType>(type), data, dims};
  }

  const OrtApi& api_;
  const LibraryOperator& op_;
  const LibraryKernel& kernel_;
  std::vector<Value> template_;  // all arguments, with the attributes filled in
};

struct CustomOp : OrtCustomOp {
  CustomOp(const LibraryOperator& library_operator, const LibraryKernel& its_kernel);

  static const CustomOp& of(const OrtCustomOp* op) { return *static_cast<const CustomOp*>(op); }

  const LibraryOperator& op;
  const LibraryKernel& kernel;
  std::string name;
  std::vector<SchemaType> inputs;
};

OrtCustomOpInputOutputCharacteristic characteristic(SchemaType type) {
  if (type.list) return INPUT_OUTPUT_VARIADIC;
  return type.optional ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
}

CustomOp::CustomOp(const LibraryOperator& library_operator, const LibraryKernel& its_kernel)
    : OrtCustomOp{}, op(library_operator), kernel(its_kernel), name(library_operator.schema.name) {
  for (const SchemaArgument& argument : op.schema) {
    if (argument.type.is_tensor()) inputs.push_back(argument.type);
  }
  OrtCustomOp::version = kApiVersion;
  GetName = [](const OrtCustomOp* self) { return of(self).name.c_str(); };
  GetExecutionProviderType = [](const OrtCustomOp* self) -> const char* {
    return of(self).kernel.device == Device::cuda ? "CUDAExecutionProvider"
                                                  : nullptr;  // the CPU provider otherwise
  };
  GetInputTypeCount = [](const OrtCustomOp* self) { return of(self).inputs.size(); };
  GetInputType = [](const OrtCustomOp* self, std::size_t i) {
    return static_cast<ONNXTensorElementDataType>(of(self).kernel.inputs[i]);
  };
  GetInputCharacteristic = [](const OrtCustomOp* self, std::size_t i) {
    return characteristic(of(self).inputs[i]);
  };
  GetInputMemoryType = [](const OrtCustomOp*, std::size_t) { return OrtMemTypeDefault; };
  GetVariadicInputMinArity = [](const OrtCustomOp*) { return 0; };
  GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 1; };
  GetOutputTypeCount = [](const OrtCustomOp* self) { return of(self).kernel.outputs.size(); };
  GetOutputType = [](const OrtCustomOp* self, std::size_t i) {
    return static_cast<ONNXTensorElementDataType>(of(self).kernel.outputs[i]);
  };
  GetOutputCharacteristic = [](const OrtCustomOp* self, std::size_t i) {
    return characteristic(of(self).op.schema.returns[i]);
  };
  GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
  GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return 1; };
  GetStartVersion = [](const OrtCustomOp* self) { return of(self).op.version; };
  GetEndVersion = [](const OrtCustomOp*) { return std::numeric_limits<int>::max(); };
  CreateKernelV2 = [](const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info,
                      void** kernel) -> OrtStatus* {
    const CustomOp& custom = of(self);
    return guarded(*api, custom.op, [&] { *kernel = new Node(*api, info, custom.op, custom.kernel); });
  };
  KernelComputeV2 = [](void* kernel, OrtKernelContext* context) -> OrtStatus* {
    const Node& node = *static_cast<const Node*>(kernel);
    return guarded(node.api(), node.op(), [&] { node.run(context); });
  };
  KernelDestroy = [](void* kernel) { delete static_cast<Node*>(kernel); };
}

// ONNX Runtime has no complex tensors.
bool takes_complex(const LibraryKernel& kernel) {
  const auto is_one = [](ElementType type) { return is_complex(type); };
  return std::ranges::any_of(kernel.inputs, is_one) || std::ranges::any_of(kernel.outputs, is_one);
}

// The kernels of this library. Sessions keep pointers to them, so they live as long as the process.
const std::deque<CustomOp>& custom_ops() {
  static const auto* all = [] {
    auto* made = new std::deque<CustomOp>;
    for (const LibraryOperator& op : operators()) {
      for (const LibraryKernel& kernel : op.kernels) {
        if (!takes_complex(kernel)) made->emplace_back(op, kernel);
      }
    }
    return made;
  }();
  return *all;
}

// Entries of the session's configuration. They tell this library and similar ones what is registered already.
class SessionEntries {
 public:
  SessionEntries(const OrtApi& api, OrtSessionOptions* options) : api_(api), options_(options) {}

  void* get(const std::string& key) const {
    int present = 0;
    check(api_, api_.HasSessionConfigEntry(options_, key.c_str(), &present));
    if (present == 0) return nullptr;
    std::size_t size = 0;
    check(api_, api_.GetSessionConfigEntry(options_, key.c_str(), nullptr, &size));
    std::string text(size, '\0');
    check(api_, api_.GetSessionConfigEntry(options_, key.c_str(), text.data(), &size));
    return reinterpret_cast<void*>(std::stoull(text, nullptr, 16));
  }

  void set(const std::string& key, const void* value) {
    std::ostringstream text;
    text << std::hex << reinterpret_cast<std::uintptr_t>(value);
    check(api_, api_.AddSessionConfigEntry(options_, key.c_str(), text.str().c_str()));
  }

 private:
  const OrtApi& api_;
  OrtSessionOptions* options_;
};

// A session refuses two domains of the same name, but two libraries may have operators in the same domain.
// The first one creates the domain and stores it in the session's configuration. ONNX Runtime does not report
// the end of a session, so domains, which are small, live as long as the process.
OrtCustomOpDomain* find_or_add_domain(const OrtApi& api, OrtSessionOptions* options,
                                      const std::string& name) {
  SessionEntries entries(api, options);
  const std::string key = "opbridge.domain." + name;
  if (void* known = entries.get(key)) return static_cast<OrtCustomOpDomain*>(known);
  OrtCustomOpDomain* domain = nullptr;
  check(api, api.CreateCustomOpDomain(name.c_str(), &domain));
  check(api, api.AddCustomOpDomain(options, domain));
  entries.set(key, domain);
  return domain;
}

void register_all(const OrtApi& api, OrtSessionOptions* options) {
  SessionEntries entries(api, options);
  std::ostringstream library;
  library << "opbridge.library." << &custom_ops();
  if (entries.get(library.str()) != nullptr) return;
  for (const CustomOp& op : custom_ops()) {
    const std::string domain(op.op.schema.domain);
    check(api, api.CustomOpDomain_Add(find_or_add_domain(api, options, domain), &op));
  }
  entries.set(library.str(), &custom_ops());
}

}  // namespace

void register_with_host(std::size_t) {}

}  // namespace opbridge::op::detail

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                                               const OrtApiBase* base) {
  using namespace opbridge::op::detail;
  const OrtApi* api = base->GetApi(kApiVersion);
  if (api == nullptr) {
    // An older runtime: version 1 of the API can report that.
    const OrtApi* oldest = base->GetApi(1);
    return oldest->CreateStatus(ORT_NOT_IMPLEMENTED,
                                "operators made with opbridge need ONNX Runtime 1.17 or newer");
  }
  try {
    register_all(*api, options);
    return nullptr;
  } catch (const std::exception& e) {
    return api->CreateStatus(ORT_FAIL, e.what());
  }
}
