// Derives kernels for float16 and bfloat16 from those for float32.
#include <algorithm>

#include "library.h"

namespace opbridge::op::detail {
namespace {

// The positions at which two lists of types, for float32 (`narrow`) and float64 (`wide`), differ.
std::vector<bool> positions_of_type(std::span<const ElementType> narrow, std::span<const ElementType> wide) {
  std::vector<bool> positions;
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    if (narrow[i] != wide[i] && (narrow[i] != ElementType::float32 || wide[i] != ElementType::float64))
      return {};
    positions.push_back(narrow[i] != wide[i]);
  }
  return positions;
}

std::vector<ElementType> replaced(std::vector<ElementType> types, const std::vector<bool>& positions,
                                  ElementType type) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (positions[i]) types[i] = type;
  }
  return types;
}

template <class To, class From>
void convert(Context& context, const From* from, std::int64_t count, To* to) {
  context.parallel_for(count, 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
}

// Calls f with the C++ type.
template <class F>
void with_type(ElementType half, F f) {
  if (half == ElementType::float16) {
    f(Half());
  } else {
    f(BFloat16());
  }
}

// Calls a float32 kernel with tensors of a half type.
class WideContext final : public Context {
 public:
  WideContext(Context& host, const LibraryKernel& kernel) : host_(host), kernel_(kernel) {}

  TensorRef allocate_output(int output, ElementType, std::span<const std::int64_t> dims) override {
    return written(
        host_.allocate_data_sized(output, kernel_.outputs[static_cast<std::size_t>(output)], dims));
  }

  void run(std::span<const Value> arguments, std::span<const Result> results) {
    std::vector<Value> wide(arguments.begin(), arguments.end());
    for (Value& argument : wide) {
      if (auto* tensor = std::get_if<TensorRef>(&argument)) *tensor = read(*tensor);
      if (auto* list = std::get_if<std::vector<TensorRef>>(&argument)) {
        for (TensorRef& tensor : *list) tensor = read(tensor);
      }
    }
    std::vector<Result> wide_results(results.begin(), results.end());
    for (Result& result : wide_results) {
      for (TensorRef& tensor : result) tensor = written(tensor);
    }
    kernel_.run(*this, wide, wide_results);
    for (const auto& [from, to] : rounded_) {
      with_type(kernel_.half, [&]<class T>(T) {
        convert(host_, from.data(), static_cast<std::int64_t>(from.size()), static_cast<T*>(to.data));
      });
    }
  }

 private:
  std::span<float> room_for(const TensorRef& tensor) {
    return host_.scratch<float>(TensorView<char>(nullptr, tensor.dims).size());
  }

  // The float32 tensor that replaces `tensor`: a copy to read, or a buffer to write.
  TensorRef read(const TensorRef& tensor) {
    if (tensor.type != kernel_.half) return tensor;
    const std::span<float> wide = room_for(tensor);
    with_type(kernel_.half, [&]<class T>(T) {
      convert(host_, static_cast<const T*>(tensor.data), static_cast<std::int64_t>(wide.size()), wide.data());
    });
    return {ElementType::float32, wide.data(), tensor.dims};
  }
  TensorRef written(const TensorRef& tensor) {
    if (tensor.type != kernel_.half) return tensor;
    const std::span<float> wide = rounded_.emplace_back(room_for(tensor), tensor).first;
    return {ElementType::float32, wide.data(), tensor.dims};
  }

  void run_parts(std::int64_t count, std::int64_t grain, Part part, void* user) override {
    host_.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) { part(user, begin, end); });
  }
  void* scratch_bytes(std::size_t bytes) override {
    return host_.scratch<std::byte>(static_cast<std::int64_t>(bytes)).data();
  }

  Context& host_;
  const LibraryKernel& kernel_;
  // Each buffer is rounded to its tensor after the kernel has run.
  std::vector<std::pair<std::span<float>, TensorRef>> rounded_;
};

}  // namespace

std::vector<LibraryKernel> with_half_types(const std::vector<Kernel>& given) {
  std::vector<LibraryKernel> kernels;
  for (const Kernel& kernel : given) kernels.push_back({kernel});
  for (const Kernel& kernel : given) {
    for (const Kernel& twin : given) {
      if (kernel.device != Device::cpu || twin.device != Device::cpu) continue;
      const std::vector<bool> inputs = positions_of_type(kernel.inputs, twin.inputs);
      const std::vector<bool> outputs = positions_of_type(kernel.outputs, twin.outputs);
      if (std::ranges::find(inputs, true) == inputs.end() || outputs.size() != kernel.outputs.size())
        continue;
      for (const ElementType half : {ElementType::float16, ElementType::bfloat16}) {
        LibraryKernel made{kernel, half};
        made.inputs = replaced(kernel.inputs, inputs, half);
        made.outputs = replaced(kernel.outputs, outputs, half);
        const bool is_given = std::ranges::any_of(kernels, [&](const LibraryKernel& other) {
          return other.device == Device::cpu && other.inputs == made.inputs;
        });
        if (!is_given) kernels.push_back(std::move(made));
      }
    }
  }
  return kernels;
}

void run(const LibraryKernel& kernel, Host& host, std::span<const std::vector<Shape>> shapes,
         std::span<const Value> arguments, std::span<const Result> results) {
  DataSizedOutputs outputs(kernel, shapes);
  host.expect(&outputs);
  if (kernel.half == ElementType::undefined) {
    kernel.run(host, arguments, results);
  } else {
    WideContext(static_cast<Context&>(host), kernel).run(arguments, results);
  }
  outputs.require_all();
}

}  // namespace opbridge::op::detail
