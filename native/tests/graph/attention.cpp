#include "graph/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "graph/executor.h"
#include "random_values.h"

using namespace stenod;

namespace {

struct Sizes {
    int64_t width, heads, queries, rows;
};

struct Inputs {
    explicit Inputs(const Sizes& size)
        : query(random_values(static_cast<size_t>(size.width * size.queries), 1)),
          key(random_values(static_cast<size_t>(size.width * size.rows), 2)),
          value(random_values(static_cast<size_t>(size.width * size.rows), 3)) {}

    std::vector<float> query, key, value;
};

std::vector<float> attended(const Sizes& size, const Inputs& inputs, int threads) {
    Executor executor(threads);
    Graph graph(8);
    ggml_tensor* query = graph.input(GGML_TYPE_F32, size.width, size.queries);
    ggml_tensor* key = graph.input(GGML_TYPE_F32, size.width, size.rows);
    ggml_tensor* value = graph.input(GGML_TYPE_F32, size.width, size.rows);
    ggml_tensor* result = attend_to_all(graph.context(), query, key, value, static_cast<int>(size.heads));
    graph.output(result);
    executor.prepare(graph);
    ggml_backend_tensor_set(query, inputs.query.data(), 0, ggml_nbytes(query));
    ggml_backend_tensor_set(key, inputs.key.data(), 0, ggml_nbytes(key));
    ggml_backend_tensor_set(value, inputs.value.data(), 0, ggml_nbytes(value));
    executor.compute(graph);
    std::vector<float> out(static_cast<size_t>(ggml_nelements(result)));
    ggml_backend_tensor_get(result, out.data(), 0, ggml_nbytes(result));
    return out;
}

/// As the formula says, for one query and one head.
std::vector<double> expected(const Sizes& size, const Inputs& inputs, int64_t query, int64_t head) {
    const int64_t width = size.width / size.heads;
    std::vector<double> weights, sums(static_cast<size_t>(width));
    double total = 0;
    for (int64_t k = 0; k < size.rows; ++k) {
        double score = 0;
        for (int64_t i = 0; i < width; ++i) {
            score += double(inputs.query[static_cast<size_t>(query * size.width + head * width + i)]) *
                     double(inputs.key[static_cast<size_t>(k * size.width + head * width + i)]);
        }
        weights.push_back(std::exp(score / std::sqrt(double(width))));
        total += weights.back();
    }
    for (int64_t k = 0; k < size.rows; ++k) {
        for (int64_t i = 0; i < width; ++i) {
            sums[static_cast<size_t>(i)] += weights[static_cast<size_t>(k)] / total *
                                            double(inputs.value[static_cast<size_t>(k * size.width + head * width + i)]);
        }
    }
    return sums;
}

}  // namespace

TEST_CASE("attention is what its formula says, at any size") {
    for (const Sizes size : {Sizes{128, 2, 150, 150}, Sizes{96, 4, 3, 300}, Sizes{40, 1, 65, 1}}) {
        CAPTURE(size.width);
        const Inputs inputs(size);
        const std::vector<float> found = attended(size, inputs, 1);
        double worst = 0;
        for (int64_t query = 0; query < size.queries; ++query) {
            for (int64_t head = 0; head < size.heads; ++head) {
                const std::vector<double> right = expected(size, inputs, query, head);
                for (size_t i = 0; i < right.size(); ++i) {
                    const auto at = static_cast<size_t>(query * size.width) + static_cast<size_t>(head) * right.size() + i;
                    worst = std::max(worst, std::abs(right[i] - double(found[at])));
                }
            }
        }
        CHECK(worst < 1e-5);
    }
}

TEST_CASE("a query's attention depends neither on its company nor on threads, to the bit") {
    const Sizes size{128, 2, 150, 150};
    const Inputs inputs(size);
    const std::vector<float> together = attended(size, inputs, 1);
    CHECK(attended(size, inputs, 3) == together);
    Inputs last = inputs;
    last.query.erase(last.query.begin(), last.query.end() - size.width);
    const std::vector<float> alone = attended({size.width, size.heads, 1, size.rows}, last, 2);
    CHECK(std::equal(alone.begin(), alone.end(), together.end() - size.width));
}
