// Code for the processor at hand: a library is compiled for every x86-64, and chooses when it runs.
#pragma once

#define OPBRIDGE_INLINE __attribute__((always_inline)) inline

namespace opbridge::op {

// `C` side by side as AVX2 has them; without it they become two halves.
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

// Calls f(), compiled for AVX2 and FMA where the processor has both. Only what is inlined into f profits:
// give f and the functions it calls `always_inline`.
template <class F>
void on_best_cpu(const F& f) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return call_with_avx2(f);
#endif
  f();
}

}  // namespace opbridge::op
