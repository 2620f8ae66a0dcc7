#include "graph/matmul.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/executor.h"
#include "random_values.h"

using namespace stenod;

namespace {

/// A matrix of a type, packed, and the numbers that it stands for.
struct Weight {
    Weight(ggml_type type, int64_t in, int64_t out) : context(make_context(1)) {
        tensor = ggml_new_tensor_2d(context.get(), type, in, out);
        buffer = allocate_tensors(context.get());
        const std::vector<float> exact = random_values(static_cast<size_t>(in * out), 1);
        std::vector<char> rows(ggml_nbytes(tensor));
        ggml_quantize_chunk(type, exact.data(), rows.data(), 0, out, in, nullptr);
        values = exact;
        if (type != GGML_TYPE_F32) ggml_get_type_traits(type)->to_float(rows.data(), values.data(), in * out);
        pack(tensor, rows.data());
    }

    ContextPtr context;
    BufferPtr buffer;
    ggml_tensor* tensor;
    std::vector<float> values;
};

std::vector<float> product(const Weight& weight, const std::vector<float>& x, int64_t columns, int threads) {
    Executor executor(threads);
    Graph graph(8);
    ggml_tensor* input = graph.input(GGML_TYPE_F32, weight.tensor->ne[0], columns);
    ggml_tensor* result = multiply(graph.context(), weight.tensor, input);
    graph.output(result);
    executor.prepare(graph);
    ggml_backend_tensor_set(input, x.data(), 0, ggml_nbytes(input));
    executor.compute(graph);
    std::vector<float> out(static_cast<size_t>(ggml_nelements(result)));
    ggml_backend_tensor_get(result, out.data(), 0, ggml_nbytes(result));
    return out;
}

}  // namespace

TEST_CASE("a packed matrix times columns is what their numbers make") {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        for (const int64_t in : {32, 288, 1056}) {
            CAPTURE(std::string(ggml_type_name(type)));
            CAPTURE(in);
            constexpr int64_t out = 96, columns = 141;
            const Weight weight(type, in, out);
            const std::vector<float> x = random_values(static_cast<size_t>(in * columns), 2);
            const std::vector<float> found = product(weight, x, columns, 1);
            double worst = 0;
            for (int64_t column = 0; column < columns; ++column) {
                for (int64_t row = 0; row < out; ++row) {
                    double sum = 0;
                    for (int64_t i = 0; i < in; ++i) {
                        sum += double(weight.values[row * in + i]) * double(x[column * in + i]);
                    }
                    worst = std::max(worst, std::abs(sum - double(found[column * out + row])));
                }
            }
            CHECK(worst < 1e-5 * static_cast<double>(in));
        }
    }
}

TEST_CASE("a column's product depends neither on its company nor on threads, to the bit") {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0}) {
        CAPTURE(std::string(ggml_type_name(type)));
        constexpr int64_t in = 544, out = 160, columns = 37;
        const Weight weight(type, in, out);
        const std::vector<float> x = random_values(in * columns, 3), together = product(weight, x, columns, 1);
        CHECK(product(weight, x, columns, 3) == together);
        for (int64_t column = 0; column < columns; ++column) {
            const std::vector<float> alone = product(weight, {x.begin() + column * in, x.begin() + (column + 1) * in}, 1, 2);
            CHECK(std::equal(alone.begin(), alone.end(), together.begin() + column * out));
        }
    }
}

TEST_CASE("what cannot be packed is multiplied by ggml") {
    const Weight narrow(GGML_TYPE_F32, 32, 24), small(GGML_TYPE_Q4_0, 32, 64);
    for (const Weight* weight : {&narrow, &small}) {
        const std::vector<float> x = random_values(32 * 2, 4), found = product(*weight, x, 2, 1);
        double sum = 0;
        for (int i = 0; i < 32; ++i) sum += double(weight->values[i]) * double(x[i]);
        CHECK(found[0] == doctest::Approx(sum).epsilon(0.02));
    }
}
