#include "graph/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "graph/executor.h"
#include "random_values.h"

using namespace stenod;

namespace {

constexpr int64_t kHead = 64, kHeads = 2, kWidth = kHead * kHeads;

std::vector<ggml_fp16_t> halves(const std::vector<float>& values) {
    std::vector<ggml_fp16_t> converted(values.size());
    ggml_fp32_to_fp16_row(values.data(), converted.data(), static_cast<int64_t>(values.size()));
    return converted;
}

struct Inputs {
    Inputs(int64_t rows, int64_t cells)
        : rows(rows),
          cells(cells),
          query(random_values(static_cast<size_t>(rows * kWidth), 1)),
          keys(halves(random_values(static_cast<size_t>(cells * kWidth), 2))),
          values(halves(random_values(static_cast<size_t>(cells * kWidth), 3))) {}

    int64_t rows, cells;
    std::vector<float> query;
    std::vector<ggml_fp16_t> keys, values;
    std::vector<ggml_fp16_t> mask;  ///< [rows][cells], or empty
};

/// [rows][kWidth]; empty where this processor cannot do it.
std::vector<float> attended(const Inputs& inputs, int threads) {
    Executor executor(threads);
    Graph graph(16);
    ggml_context* context = graph.context();
    const auto heads_of = [&](ggml_tensor* x) {
        return ggml_view_3d(context, x, kHead, x->ne[1], kHeads, x->nb[1], kHead * ggml_element_size(x), 0);
    };
    ggml_tensor* query = graph.input(GGML_TYPE_F32, kWidth, inputs.rows);
    ggml_tensor* keys = graph.input(GGML_TYPE_F16, kWidth, inputs.cells);
    ggml_tensor* values = graph.input(GGML_TYPE_F16, kWidth, inputs.cells);
    ggml_tensor* mask = inputs.mask.empty() ? nullptr : graph.input(GGML_TYPE_F16, inputs.cells, inputs.rows);
    ggml_tensor* result = attend_to_cache(context, heads_of(query), heads_of(keys), heads_of(values), mask);
    if (!result) return {};
    graph.output(result);
    executor.prepare(graph);
    ggml_backend_tensor_set(query, inputs.query.data(), 0, ggml_nbytes(query));
    ggml_backend_tensor_set(keys, inputs.keys.data(), 0, ggml_nbytes(keys));
    ggml_backend_tensor_set(values, inputs.values.data(), 0, ggml_nbytes(values));
    if (mask) ggml_backend_tensor_set(mask, inputs.mask.data(), 0, ggml_nbytes(mask));
    executor.compute(graph);
    std::vector<float> out(static_cast<size_t>(ggml_nelements(result)));
    ggml_backend_tensor_get(result, out.data(), 0, ggml_nbytes(result));
    return out;
}

/// As the formula says.
std::vector<double> expected(const Inputs& inputs, int64_t row, int64_t head) {
    std::vector<double> sums(kHead);
    double total = 0;
    for (int64_t cell = 0; cell < inputs.cells; ++cell) {
        if (!inputs.mask.empty() && inputs.mask[static_cast<size_t>(row * inputs.cells + cell)] != 0) continue;
        const auto at = static_cast<size_t>(cell * kWidth + head * kHead);
        double score = 0;
        for (size_t i = 0; i < kHead; ++i) {
            score += double(inputs.query[static_cast<size_t>(row * kWidth + head * kHead) + i]) *
                     double(ggml_fp16_to_fp32(inputs.keys[at + i]));
        }
        const double weight = std::exp(score / std::sqrt(double(kHead)));
        total += weight;
        for (size_t i = 0; i < kHead; ++i) sums[i] += weight * double(ggml_fp16_to_fp32(inputs.values[at + i]));
    }
    for (double& sum : sums) sum /= total;
    return sums;
}

/// Of `rows` that end with the last cell, each sees the cells up to its own.
std::vector<ggml_fp16_t> causal(int64_t rows, int64_t cells) {
    std::vector<ggml_fp16_t> mask;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t cell = 0; cell < cells; ++cell) {
            mask.push_back(ggml_fp32_to_fp16(cell <= cells - rows + row ? 0.0f : -INFINITY));
        }
    }
    return mask;
}

}  // namespace

TEST_CASE("attention to a cache is what the formula says") {
    for (const bool masked : {false, true}) {
        for (const int64_t cells : {7, 37, 300}) {
            CAPTURE(masked);
            CAPTURE(cells);
            Inputs inputs(5, cells);
            if (masked) inputs.mask = causal(5, cells);
            const std::vector<float> found = attended(inputs, 2);
            if (found.empty()) return;
            for (int64_t row = 0; row < inputs.rows; ++row) {
                for (int64_t head = 0; head < kHeads; ++head) {
                    const std::vector<double> sums = expected(inputs, row, head);
                    for (size_t i = 0; i < kHead; ++i) {
                        const float value = found[static_cast<size_t>(row * kWidth + head * kHead) + i];
                        CHECK(std::abs(double(value) - sums[i]) < 1e-5);
                    }
                }
            }
        }
    }
}

TEST_CASE("a row's attention to a cache depends neither on its company nor on threads, to the bit") {
    const Inputs together(6, 211);
    const std::vector<float> all = attended(together, 1);
    if (all.empty()) return;
    CHECK(attended(together, 3) == all);
    for (int64_t row = 0; row < together.rows; ++row) {
        Inputs alone = together;
        alone.rows = 1;
        alone.query.assign(together.query.begin() + row * kWidth, together.query.begin() + (row + 1) * kWidth);
        const std::vector<float> found = attended(alone, 2);
        CHECK(std::equal(found.begin(), found.end(), all.begin() + row * kWidth));
    }
}
