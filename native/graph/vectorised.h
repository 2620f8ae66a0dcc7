#pragma once

// Compiled for several instruction sets; the dynamic loader chooses. Sanitizers run before that choice, so not there.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define STENOD_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STENOD_VECTORISED
#endif
