#include "model/weight_reader.h"

#include <algorithm>
#include <utility>

#include "graph/matmul.h"

namespace stenod {

namespace {

bool can_multiply(ggml_type type) {
    constexpr ggml_type known[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_Q8_0, GGML_TYPE_Q5_0,
                                   GGML_TYPE_Q5_1, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1};
    return std::find(std::begin(known), std::end(known), type) != std::end(known);
}

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
    shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());
    return shape;
}

}  // namespace

const TensorInfo& WeightReader::checked(const std::string& name, const std::vector<int64_t>& shape) {
    const TensorInfo& info = file_.tensor(name);
    if (without_ones({info.shape.begin(), info.shape.end()}) != without_ones(shape)) {
        std::string expected;
        for (int64_t length : shape) expected += (expected.empty() ? "" : " x ") + std::to_string(length);
        file_.fail("tensor " + name + " has an unexpected shape: the header's sizes make it " + expected);
    }
    if (!can_multiply(info.type)) {
        file_.fail("tensor " + name + " is of type " + ggml_type_name(info.type) +
                   ", which is not supported: convert to f32, f16, q8_0, q5_0 or q4_0");
    }
    parameters_ += static_cast<size_t>(info.shape[0] * info.shape[1] * info.shape[2] * info.shape[3]);
    return info;
}

ggml_tensor* WeightReader::matrix(const std::string& name, int64_t in, int64_t out, int64_t rows) {
    return declare_matrix({&checked(name, {in, out})}, in, rows, packed_);
}

ggml_tensor* WeightReader::table(const std::string& name, int64_t in, int64_t rows) {
    return declare_matrix({&checked(name, {in, rows})}, in, rows, false);
}

ggml_tensor* WeightReader::stacked(const std::vector<std::string>& names, int64_t in, int64_t out) {
    std::vector<const TensorInfo*> parts;
    for (const std::string& name : names) {
        parts.push_back(&checked(name, {in, out}));
        if (parts.back()->type != parts.front()->type) {
            file_.fail("tensors " + names.front() + " and " + name + " are not of one type");
        }
    }
    return declare_matrix(parts, in, out * static_cast<int64_t>(names.size()), packed_);
}

/// Of parts of one type, one below the other; what rows there are beyond stays zero.
ggml_tensor* WeightReader::declare_matrix(std::vector<const TensorInfo*> parts, int64_t in, int64_t rows, bool packed) {
    for (const TensorInfo* part : parts) {
        // Where dimensions of 1 come first, the rows are not those that the file was checked for.
        if (in % ggml_blck_size(part->type) != 0) file_.fail("tensor " + part->name + " has rows that are not whole blocks");
    }
    ggml_tensor* tensor = ggml_new_tensor_2d(context_, parts.front()->type, in, rows);
    declared_.emplace_back(tensor, [this, parts = std::move(parts), packed](ggml_tensor* to) {
        std::vector<char> unpacked(packed ? ggml_nbytes(to) : 0);
        char* data = packed ? unpacked.data() : static_cast<char*>(to->data);
        for (const TensorInfo* part : parts) {
            file_.read_tensor(part->name, data, part->bytes);
            data += part->bytes;
        }
        if (packed) pack(to, unpacked.data());
    });
    return tensor;
}

ggml_tensor* WeightReader::vector(const std::string& name, int64_t n, int64_t length) {
    return computed({length}, floats(name, {n}));
}

ggml_tensor* WeightReader::computed(std::vector<int64_t> shape, std::function<std::vector<float>()> values) {
    ggml_tensor* tensor =
        ggml_new_tensor(context_, GGML_TYPE_F32, static_cast<int>(shape.size()), shape.data());
    declared_.emplace_back(tensor, [values = std::move(values)](ggml_tensor* to) {
        const std::vector<float> from = values();
        std::copy(from.begin(), from.end(), static_cast<float*>(to->data));  // what is beyond stays zero
    });
    return tensor;
}

std::function<std::vector<float>()> WeightReader::floats(const std::string& name, std::vector<int64_t> shape) {
    const TensorInfo& info = checked(name, shape);
    int64_t count = 1;
    for (int64_t length : shape) count *= length;
    return [this, &info, count] {
        std::vector<float> values(static_cast<size_t>(count));
        if (info.type == GGML_TYPE_F32) {
            file_.read_tensor(info.name, values.data(), info.bytes);
        } else {
            std::vector<char> bytes(info.bytes);
            file_.read_tensor(info.name, bytes.data(), bytes.size());
            ggml_get_type_traits(info.type)->to_float(bytes.data(), values.data(), count);
        }
        return values;
    };
}

void WeightReader::fill() {
    for (auto& [tensor, fill] : declared_) fill(tensor);
}

}  // namespace stenod
