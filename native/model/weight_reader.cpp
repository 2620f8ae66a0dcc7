#include "model/weight_reader.h"

#include <algorithm>

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
    const TensorInfo& info = checked(name, {in, out});
    // Where dimensions of 1 come first, the rows are not those that the file was checked for.
    if (in % ggml_blck_size(info.type) != 0) file_.fail("tensor " + name + " has rows that are not whole blocks");
    ggml_tensor* tensor = ggml_new_tensor_2d(context_, info.type, in, rows);
    declared_.emplace_back(tensor, [this, name, &info](ggml_tensor* to) { file_.read_tensor(name, to->data, info.bytes); });
    return tensor;
}

ggml_tensor* WeightReader::stacked(const std::vector<std::string>& names, int64_t in, int64_t out) {
    std::vector<const TensorInfo*> infos;
    for (const std::string& name : names) {
        infos.push_back(&checked(name, {in, out}));
        if (infos.back()->type != infos.front()->type || in % ggml_blck_size(infos.back()->type) != 0) {
            file_.fail("tensors " + names.front() + " and " + name + " are not of one type, with rows of whole blocks");
        }
    }
    ggml_tensor* tensor =
        ggml_new_tensor_2d(context_, infos.front()->type, in, out * static_cast<int64_t>(names.size()));
    declared_.emplace_back(tensor, [this, infos](ggml_tensor* to) {
        char* data = static_cast<char*>(to->data);
        for (const TensorInfo* info : infos) {
            file_.read_tensor(info->name, data, info->bytes);
            data += info->bytes;
        }
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
