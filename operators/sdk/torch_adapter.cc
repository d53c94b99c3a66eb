// Registers the operators of a library with PyTorch's dispatcher through LibTorch's stable ABI: kernels for
// CPU and CUDA, and one for Meta if all sizes are numbers. opbridge.load_operators adds symbolic sizes and
// autograd, which the stable ABI lacks.
#include <dlfcn.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "library.h"

namespace opbridge::op::detail {
namespace {

using torch::stable::Tensor;
using torch::stable::detail::StableLibrary;
using torch::stable::detail::to;

struct ElementTypeOfTorch {
  std::int32_t torch;
  ElementType onnx;
};

const std::array<ElementTypeOfTorch, 15>& element_type_table() {
  static const std::array<ElementTypeOfTorch, 15> table{{
      {aoti_torch_dtype_float32(), ElementType::float32},
      {aoti_torch_dtype_float64(), ElementType::float64},
      {aoti_torch_dtype_float16(), ElementType::float16},
      {aoti_torch_dtype_bfloat16(), ElementType::bfloat16},
      {aoti_torch_dtype_int64(), ElementType::int64},
      {aoti_torch_dtype_int32(), ElementType::int32},
      {aoti_torch_dtype_int16(), ElementType::int16},
      {aoti_torch_dtype_int8(), ElementType::int8},
      {aoti_torch_dtype_uint8(), ElementType::uint8},
      {aoti_torch_dtype_uint16(), ElementType::uint16},
      {aoti_torch_dtype_uint32(), ElementType::uint32},
      {aoti_torch_dtype_uint64(), ElementType::uint64},
      {aoti_torch_dtype_bool(), ElementType::boolean},
      {aoti_torch_dtype_complex64(), ElementType::complex64},
      {aoti_torch_dtype_complex128(), ElementType::complex128},
  }};
  return table;
}

ElementType element_type_of(const Tensor& tensor) {
  std::int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  for (const auto& row : element_type_table()) {
    if (row.torch == dtype) return row.onnx;
  }
  throw Error(ErrorCode::unsupported, "a tensor has an element type that operators do not support");
}

std::int32_t torch_dtype(ElementType type) {
  for (const auto& row : element_type_table()) {
    if (row.onnx == type) return row.torch;
  }
  throw Error(ErrorCode::unsupported, "PyTorch has no element type " + std::string(opbridge::name(type)));
}

struct TorchDevice {
  std::int32_t type = 0;
  std::int32_t index = 0;
  bool operator==(const TorchDevice&) const = default;
};

TorchDevice device_of(const Tensor& tensor) {
  TorchDevice device;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &device.type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor.get(), &device.index));
  return device;
}

Tensor empty(std::span<const std::int64_t> dims, ElementType type, TorchDevice device) {
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(dims[i], 1), &stride)) {
      throw Error(ErrorCode::invalid_argument, "an output has more elements than memory can hold");
    }
  }
  AtenTensorHandle handle = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<std::int64_t>(dims.size()), dims.data(),
                                                         strides.data(), torch_dtype(type), device.type,
                                                         device.index, &handle));
  return Tensor(handle);
}

TensorRef reference(const Tensor& tensor, ElementType type, bool has_data) {
  const auto sizes = tensor.sizes();
  return {type, has_data ? tensor.mutable_data_ptr() : nullptr, {sizes.data(), sizes.size()}};
}

TensorRef allocate(Tensor& output, ElementType type, std::span<const std::int64_t> dims, TorchDevice device) {
  output = empty(dims, type, device);
  return reference(output, type, true);
}

class TorchContext final : public Context {
 public:
  TorchContext(TorchDevice device, std::vector<Tensor>& outputs) : device_(device), outputs_(outputs) {}

  TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) override {
    return allocate(outputs_[static_cast<std::size_t>(output)], type, dims, device_);
  }

 private:
  void run_parts(std::int64_t count, std::int64_t grain, Part part, void* user) override {
    struct Call {
      Part part;
      void* user;
    } call{part, user};
    STABLE_TORCH_ERROR_CODE_CHECK(torch_parallel_for(
        0, count, grain,
        [](std::int64_t begin, std::int64_t end, void* c) {
          static_cast<Call*>(c)->part(static_cast<Call*>(c)->user, begin, end);
        },
        &call));
  }

  void* scratch_bytes(std::size_t bytes) override {
    const auto size = static_cast<std::int64_t>(bytes);
    Tensor memory = empty({&size, 1}, ElementType::uint8, device_);
    void* data = memory.mutable_data_ptr();
    const std::lock_guard lock(mutex_);
    scratch_.push_back(std::move(memory));
    return data;
  }

  TorchDevice device_;
  std::vector<Tensor>& outputs_;
  std::mutex mutex_;
  std::vector<Tensor> scratch_;
};

// PyTorch's current stream of a GPU. libtorch_cuda is not linked, so that this library loads without it; if
// there is a tensor on a GPU, the process has loaded it.
CudaStream current_stream(std::int32_t device) {
  using Function = AOTITorchError (*)(std::int32_t, void**);
  static const auto function = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    void* symbol = library == nullptr ? nullptr : dlsym(library, "aoti_torch_get_current_cuda_stream");
    if (symbol == nullptr) throw Error(ErrorCode::unsupported, "this build of PyTorch has no CUDA");
    return reinterpret_cast<Function>(symbol);
  }();
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(function(device, &stream));
  return static_cast<CudaStream>(stream);
}

class TorchCudaHost final : public CudaHost {
 public:
  TorchCudaHost(TorchDevice device, std::vector<Tensor>& outputs)
      : CudaHost(current_stream(device.index)), device_(device), outputs_(outputs), guard_(device.index) {}

  TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) override {
    return allocate(outputs_[static_cast<std::size_t>(output)], type, dims, device_);
  }

 private:
  TorchDevice device_;
  std::vector<Tensor>& outputs_;
  torch::stable::accelerator::DeviceGuard guard_;
};

// The arguments of a call, taken from the dispatcher's stack, and the tensors that own their memory.
class Call {
 public:
  Call(const LibraryOperator& op, StableIValue* stack, bool has_data) : op_(op), has_data_(has_data) {
    // Takes everything off the stack before anything can throw: what stays there is never freed.
    std::vector<Taken> taken;
    for (std::size_t i = 0; i < op.schema.argument_count; ++i) {
      taken.push_back(take(op.schema.arguments[i].type, stack[i]));
    }
    for (std::size_t i = 0; i < taken.size(); ++i) values_.push_back(value(op.schema.arguments[i], taken[i]));
  }

  void run(StableIValue* stack) {
    const Device device = device_.type == aoti_torch_device_type_cuda() ? Device::cuda : Device::cpu;
    const std::vector<ElementType> types = element_types(op_, values_);
    const LibraryKernel& kernel =
        has_data_ ? select_kernel(op_.kernels, types, device) : select_kernel(op_.kernels, types);
    const std::vector<std::vector<Shape>> shapes = infer_shapes(op_, with_shapes(values_));

    std::vector<Tensor> outputs;
    std::vector<Result> results(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      for (const Shape& shape : shapes[i]) {
        if (kernel.data_sized[i] && has_data_) {
          outputs.emplace_back();
        } else {
          outputs.push_back(empty(numbers(shape), kernel.outputs[i], device_));
          results[i].push_back(reference(outputs.back(), kernel.outputs[i], has_data_));
        }
      }
    }
    if (has_data_ && device == Device::cuda) {
      TorchCudaHost host(device_, outputs);
      detail::run(kernel, host, shapes, values_, results);
    } else if (has_data_) {
      TorchContext context(device_, outputs);
      detail::run(kernel, context, shapes, values_, results);
    }
    give(stack, outputs);
  }

 private:
  using Taken = std::variant<std::monostate, Tensor, std::vector<Tensor>, Value>;

  template <class T>
  static Taken take_as(StableIValue slot, bool optional) {
    if (!optional) return convert(to<T>(slot));
    std::optional<T> some = to<std::optional<T>>(slot);
    return some ? convert(std::move(*some)) : Taken(std::monostate{});
  }
  static Taken convert(Tensor t) { return t; }
  static Taken convert(std::vector<Tensor> t) { return t; }
  static Taken convert(std::int64_t v) { return Value(Dim(v)); }
  static Taken convert(bool v) { return Value(Dim(v ? 1 : 0)); }
  static Taken convert(std::vector<std::int64_t> v) { return Value(Shape(v.begin(), v.end())); }
  static Taken convert(const std::vector<bool>& v) {
    Shape flags;
    for (const bool flag : v) flags.emplace_back(flag ? 1 : 0);
    return Value(std::move(flags));
  }
  static Taken convert(double v) { return Value(v); }
  static Taken convert(std::vector<double> v) { return Value(std::move(v)); }
  static Taken convert(std::string v) { return Value(std::move(v)); }
  static Taken convert(std::vector<std::string> v) { return Value(std::move(v)); }

  static Taken take(SchemaType type, StableIValue slot) {
    const bool optional = type.optional;
    switch (type.kind) {
      case Kind::tensor:
        return type.list ? take_as<std::vector<Tensor>>(slot, optional) : take_as<Tensor>(slot, optional);
      case Kind::integer:
      case Kind::sym_int:
        return type.list ? take_as<std::vector<std::int64_t>>(slot, optional)
                         : take_as<std::int64_t>(slot, optional);
      case Kind::boolean:
        return type.list ? take_as<std::vector<bool>>(slot, optional) : take_as<bool>(slot, optional);
      case Kind::floating:
        return type.list ? take_as<std::vector<double>>(slot, optional) : take_as<double>(slot, optional);
      case Kind::string:
        return type.list ? take_as<std::vector<std::string>>(slot, optional)
                         : take_as<std::string>(slot, optional);
    }
    return std::monostate{};
  }

  Value value(const SchemaArgument& argument, Taken& taken) {
    if (auto* value = std::get_if<Value>(&taken)) return std::move(*value);
    if (auto* tensor = std::get_if<Tensor>(&taken)) {
      if (tensor->defined()) return keep(argument, std::move(*tensor));
      if (!argument.type.optional) {
        throw Error(ErrorCode::invalid_argument,
                    "the tensor " + std::string(argument.name) + " is undefined");
      }
    } else if (auto* list = std::get_if<std::vector<Tensor>>(&taken)) {
      std::vector<TensorRef> references;
      for (Tensor& each : *list) references.push_back(keep(argument, std::move(each)));
      return references;
    }
    return std::monostate{};
  }

  TensorRef keep(const SchemaArgument& argument, Tensor tensor) {
    const TorchDevice device = device_of(tensor);
    if (tensors_.empty()) device_ = device;
    if (device != device_) {
      throw Error(ErrorCode::invalid_argument,
                  "all tensors must be on one device; " + std::string(argument.name) + " is on another");
    }
    if (has_data_ && !tensor.is_contiguous()) tensor = torch::stable::contiguous(tensor);
    tensors_.push_back(std::move(tensor));
    return reference(tensors_.back(), element_type_of(tensors_.back()), has_data_);
  }

  void give(StableIValue* stack, std::vector<Tensor>& outputs) const {
    if (op_.schema.returns[0].list) {
      stack[0] = torch::stable::detail::from(outputs);
      return;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) stack[i] = torch::stable::detail::from(outputs[i]);
  }

  const LibraryOperator& op_;
  bool has_data_;
  TorchDevice device_{aoti_torch_device_type_cpu(), 0};
  std::deque<Tensor> tensors_;
  std::vector<Value> values_;
};

void run(std::size_t index, bool has_data, StableIValue* stack) {
  const LibraryOperator& op = operators()[index];
  try {
    Call(op, stack, has_data).run(stack);
  } catch (...) {
    throw caught_error(op);
  }
}

// The dispatcher does not tell a function for which operator it is called, so each operator needs its own
// function.
constexpr std::size_t kMaxOperators = 512;
using Boxed = void (*)(StableIValue*, std::uint64_t, std::uint64_t);

template <bool has_data, std::size_t... i>
constexpr std::array<Boxed, kMaxOperators> boxed_functions(std::index_sequence<i...>) {
  return {[](StableIValue* stack, std::uint64_t, std::uint64_t) { run(i, has_data, stack); }...};
}
template <bool has_data>
constexpr std::array<Boxed, kMaxOperators> kBoxed =
    boxed_functions<has_data>(std::make_index_sequence<kMaxOperators>{});

// A registration ends with the object that made it; these objects live as long as the process.
void implement(const std::string& domain, const std::string& name, const char* key, Boxed function) {
  auto* library = new StableLibrary(StableLibrary::Kind::IMPL, domain.c_str(), key, __FILE__, __LINE__);
  library->impl(name.c_str(), function);
}

}  // namespace

void register_with_host(std::size_t index) {
  if (index >= kMaxOperators) {
    throw Error(ErrorCode::unsupported,
                "a library holds at most " + std::to_string(kMaxOperators) + " operators");
  }
  const LibraryOperator& op = operators()[index];
  const std::string domain(op.schema.domain), name(op.schema.name);
  const std::string line(op.schema.line.substr(domain.size() + 2));
  auto* library =
      new StableLibrary(StableLibrary::Kind::FRAGMENT, domain.c_str(), nullptr, __FILE__, __LINE__);
  library->def(line.c_str());
  const auto runs_on = [&](Device device) {
    return std::any_of(op.kernels.begin(), op.kernels.end(),
                       [&](const Kernel& k) { return k.device == device; });
  };
  if (runs_on(Device::cpu)) implement(domain, name, "CPU", kBoxed<true>[index]);
  if (runs_on(Device::cuda)) implement(domain, name, "CUDA", kBoxed<true>[index]);
  implement(domain, name, "Meta", kBoxed<false>[index]);
}

}  // namespace opbridge::op::detail
