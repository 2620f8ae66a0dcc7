#pragma once

namespace stenod {

enum class Instructions { any, avx2, avx512 };

/// What this processor has of what there are own products for.
inline Instructions instructions() {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return Instructions::avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
        return Instructions::avx2;
    }
#endif
    return Instructions::any;
}

}  // namespace stenod

// A function for them.
#define STENOD_AVX2 __attribute__((target("avx2,fma,f16c")))
#define STENOD_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
