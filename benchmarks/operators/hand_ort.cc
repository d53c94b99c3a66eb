// A hand-written kernel for 2a + b in ONNX Runtime: the baseline for operators/my_add.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <vector>

namespace {

struct Kernel {
  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context(raw);
    const Ort::ConstValue a = context.GetInput(0), b = context.GetInput(1);
    const std::vector<int64_t> shape = a.GetTensorTypeAndShapeInfo().GetShape();
    if (shape != b.GetTensorTypeAndShapeInfo().GetShape()) throw std::runtime_error("shapes differ");
    struct Work {
      const float *p, *q;
      float* r;
      int64_t size, part;
    } work{a.GetTensorData<float>(), b.GetTensorData<float>(), nullptr, 0, 16384};
    Ort::UnownedValue out = Ort::KernelContext(raw).GetOutput(0, shape);
    work.r = out.GetTensorMutableData<float>();
    work.size = static_cast<int64_t>(a.GetTensorTypeAndShapeInfo().GetElementCount());
    const auto parts = static_cast<size_t>((work.size + work.part - 1) / work.part);
    context.ParallelFor(
        [](void* user, size_t i) {
          const Work& w = *static_cast<Work*>(user);
          const int64_t begin = static_cast<int64_t>(i) * w.part, end = std::min(w.size, begin + w.part);
          for (int64_t k = begin; k < end; ++k) w.r[k] = 2 * w.p[k] + w.q[k];
        },
        parts, 0, &work);
  }
};

struct Op : Ort::CustomOpBase<Op, Kernel> {
  void* CreateKernel(const OrtApi&, const OrtKernelInfo*) const { return new Kernel; }
  const char* GetName() const { return "my_add"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};

}  // namespace

extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  static const Op op;
  static Ort::CustomOpDomain domain("byhand");
  domain.Add(&op);
  Ort::UnownedSessionOptions(options).Add(domain);
  return nullptr;
}
