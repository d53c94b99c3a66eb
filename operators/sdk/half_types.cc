#include <algorithm>
#include <deque>

#include "library.h"

namespace opbridge::op::detail {
namespace {

// What `wide` is with float64 in the place of float32: the places where they differ.
std::vector<bool> places_of_type(std::span<const ElementType> narrow, std::span<const ElementType> wide) {
  std::vector<bool> places;
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    if (narrow[i] != wide[i] && (narrow[i] != ElementType::float32 || wide[i] != ElementType::float64))
      return {};
    places.push_back(narrow[i] != wide[i]);
  }
  return places;
}

std::vector<ElementType> replaced(std::vector<ElementType> types, const std::vector<bool>& places,
                                  ElementType type) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (places[i]) types[i] = type;
  }
  return types;
}

template <class To, class From>
void convert(Context& context, const From* from, std::int64_t count, To* to) {
  context.parallel_for(count, 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
}

// The call of a kernel of float32 with tensors of a half type.
class WideContext final : public Context {
 public:
  WideContext(Context& host, const LibraryKernel& kernel) : host_(host), kernel_(kernel) {}

  TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) override {
    return result(host_.allocate_output(output, kernel_.outputs[static_cast<std::size_t>(output)], dims),
                  type);
  }

  void run(std::span<const Value> arguments, std::span<const Result> results) {
    std::vector<Value> wide(arguments.begin(), arguments.end());
    for (Value& argument : wide) {
      if (auto* tensor = std::get_if<TensorRef>(&argument)) read(*tensor);
      if (auto* list = std::get_if<std::vector<TensorRef>>(&argument))
        std::ranges::for_each(*list, [&](TensorRef& t) { read(t); });
    }
    std::vector<Result> wide_results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      Result& each = wide_results.emplace_back();
      for (const TensorRef& tensor : results[i]) each.push_back(result(tensor, kernel_.wide_outputs[i]));
    }
    kernel_.run(*this, wide, wide_results);
    for (const auto& [from, to] : rounded_) {
      if (kernel_.half == ElementType::float16) {
        convert(host_, from.data(), size(to), static_cast<Half*>(to.data));
      } else {
        convert(host_, from.data(), size(to), static_cast<BFloat16*>(to.data));
      }
    }
  }

 private:
  static std::int64_t size(const TensorRef& tensor) { return TensorView<char>(nullptr, tensor.dims).size(); }

  void read(TensorRef& tensor) {
    if (tensor.type != kernel_.half) return;
    const std::span<float> wide = host_.scratch<float>(size(tensor));
    if (kernel_.half == ElementType::float16) {
      convert(host_, static_cast<const Half*>(tensor.data), size(tensor), wide.data());
    } else {
      convert(host_, static_cast<const BFloat16*>(tensor.data), size(tensor), wide.data());
    }
    tensor = {ElementType::float32, wide.data(), tensor.dims};
  }

  // What the kernel writes to, as `type`, instead of `tensor`.
  TensorRef result(const TensorRef& tensor, ElementType type) {
    if (tensor.type == type) return tensor;
    const std::span<float> wide = host_.scratch<float>(size(tensor));
    rounded_.emplace_back(wide, tensor);
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
  std::deque<std::pair<std::span<float>, TensorRef>> rounded_;
};

}  // namespace

void add_half_types(std::vector<LibraryKernel>& kernels) {
  const std::vector<LibraryKernel> given = kernels;
  for (const LibraryKernel& kernel : given) {
    for (const LibraryKernel& twin : given) {
      if (kernel.device != Device::cpu || twin.device != Device::cpu) continue;
      const std::vector<bool> inputs = places_of_type(kernel.inputs, twin.inputs);
      const std::vector<bool> outputs = places_of_type(kernel.outputs, twin.outputs);
      if (std::ranges::find(inputs, true) == inputs.end() || outputs.size() != kernel.outputs.size())
        continue;
      for (const ElementType half : {ElementType::float16, ElementType::bfloat16}) {
        LibraryKernel made = kernel;
        made.half = half;
        made.wide_outputs = kernel.outputs;
        made.inputs = replaced(kernel.inputs, inputs, half);
        made.outputs = replaced(kernel.outputs, outputs, half);
        if (std::ranges::find(kernels, made.inputs, &LibraryKernel::inputs) == kernels.end())
          kernels.push_back(std::move(made));
      }
    }
  }
}

void run(const LibraryKernel& kernel, Host& host, std::span<const Value> arguments,
         std::span<const Result> results) {
  if (kernel.half == ElementType::undefined) {
    kernel.run(host, arguments, results);
  } else {
    WideContext(static_cast<Context&>(host), kernel).run(arguments, results);
  }
}

}  // namespace opbridge::op::detail
