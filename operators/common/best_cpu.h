// Selects code for the processor at run time; libraries are compiled for any x86-64.
#pragma once

#define OPBRIDGE_INLINE __attribute__((always_inline)) inline

namespace opbridge::op {

// A vector of `C` as wide as AVX2 vectors. Without AVX2 the compiler splits it in two.
template <class C>
struct Simd {
  static constexpr int lanes = 32 / sizeof(C);
  typedef C Vector __attribute__((vector_size(32), aligned(alignof(C)), may_alias));
};

#ifdef __x86_64__
template <class F>
__attribute__((target("avx2,fma"))) void call_with_avx2(const F& f) {
  f();
}
#endif

// Calls f(), compiled for AVX2 and FMA if the processor has both. Only code inlined into f benefits: declare
// f and the functions it calls `always_inline`.
template <class F>
void on_best_cpu(const F& f) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return call_with_avx2(f);
#endif
  f();
}

}  // namespace opbridge::op
