#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/executor.h"
#include "graph/layers.h"
#include "model/gguf_file.h"

namespace stenod {

/// Declares a model's tensors in a ggml context, each checked against the file's directory, and fills them once they have
/// memory. Shapes are compared without dimensions of 1. Every method throws BadModel naming the tensor.
class WeightReader {
public:
    /// `packed`: matrices are made for `multiply` (graph/matmul.h).
    WeightReader(GgufFile& file, ggml_context* context, bool packed = false)
        : file_(file), context_(context), packed_(packed) {}

    bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

    /// [in, out], of the type in the file: f32, f16, q8_0, q5_0, q5_1, q4_0 or q4_1.
    ggml_tensor* matrix(const std::string& name, int64_t in, int64_t out) { return matrix(name, in, out, out); }
    /// The same with rows up to a multiple of kRowTile.
    ggml_tensor* padded_matrix(const std::string& name, int64_t in, int64_t out) {
        return matrix(name, in, out, padded(out));
    }

    /// The same, never packed: its rows are looked up.
    ggml_tensor* table(const std::string& name, int64_t in, int64_t rows);

    /// Several matrices [in, out] of one type as one, [in, names * out].
    ggml_tensor* stacked(const std::vector<std::string>& names, int64_t in, int64_t out);

    /// [n], as f32.
    ggml_tensor* vector(const std::string& name, int64_t n) { return vector(name, n, n); }
    ggml_tensor* padded_vector(const std::string& name, int64_t n) { return vector(name, n, padded(n)); }

    /// An f32 tensor whose values come from `values` when it is filled. What that needs of the file is to be checked before.
    ggml_tensor* computed(std::vector<int64_t> shape, std::function<std::vector<float>()> values);

    /// Checks now, and reads when called, a tensor of any type as f32.
    std::function<std::vector<float>()> floats(const std::string& name, std::vector<int64_t> shape);

    /// Fills all that was declared.
    void fill();

    /// Values in the file's tensors that were asked for.
    size_t parameters() const { return parameters_; }

private:
    static int64_t padded(int64_t rows) { return (rows + kRowTile - 1) / kRowTile * kRowTile; }

    const TensorInfo& checked(const std::string& name, const std::vector<int64_t>& shape);
    ggml_tensor* matrix(const std::string& name, int64_t in, int64_t out, int64_t rows);
    ggml_tensor* declare_matrix(std::vector<const TensorInfo*> parts, int64_t in, int64_t rows, bool packed);
    ggml_tensor* vector(const std::string& name, int64_t n, int64_t length);

    GgufFile& file_;
    ggml_context* context_;
    bool packed_;
    std::vector<std::pair<ggml_tensor*, std::function<void(ggml_tensor*)>>> declared_;
    size_t parameters_ = 0;
};

}  // namespace stenod
