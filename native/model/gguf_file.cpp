#include "gguf_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "../errors.h"

namespace stenod {
namespace {

constexpr uint32_t oldest_version = 2;
constexpr uint32_t newest_version = 3;
constexpr uint32_t default_alignment = 32;
constexpr size_t greatest_key_length = 65535;

/// The types of values, by their number in the file.
enum ValueType : uint32_t {
    type_u8, type_i8, type_u16, type_i16, type_u32, type_i32, type_f32, type_bool, type_string, type_array,
    type_u64, type_i64, type_f64, type_count
};

struct ValueTypeTraits {
    const char* name;
    uint64_t size;  ///< in bytes; 0: not fixed
};
constexpr ValueTypeTraits value_types[type_count] = {
    {"u8", 1}, {"i8", 1}, {"u16", 2}, {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 0},
    {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

constexpr uint64_t string_length_size = sizeof(uint64_t);
constexpr uint64_t least_key_value_size = string_length_size + sizeof(uint32_t) + 1;
constexpr uint64_t least_tensor_info_size = string_length_size + 2 * sizeof(uint32_t) + sizeof(uint64_t);

bool begins_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

/// What a file that is not GGUF looks like, from its first bytes; empty: like nothing we know.
std::string describe_foreign(std::string_view head) {
    using namespace std::string_view_literals;
    const auto first_text = head.find_first_not_of(" \t\r\n");
    const std::string_view text = first_text == head.npos ? ""sv : head.substr(first_text);
    if (head.empty()) return "an empty file";
    if (begins_with(head, "lmgg"sv)) return "a whisper.cpp ggml .bin model";
    if (begins_with(head, "tjgg"sv) || begins_with(head, "fmgg"sv)) return "an old ggml model";
    if (begins_with(head, "PK\x03\x04"sv)) return "a zip archive or PyTorch checkpoint";
    if (begins_with(head, "\x80\x02"sv)) return "an old PyTorch checkpoint (pickle)";
    if (begins_with(head, "\x1f\x8b"sv)) return "a gzip archive";
    if (begins_with(head, "version https://git-lfs"sv)) return "a Git LFS pointer, not the model itself";
    if (head.size() > 8 && head[8] == '{') return "a safetensors file";
    if (head.find("WhisperSpec"sv) != head.npos) return "a CTranslate2 model.bin";
    if (begins_with(text, "<"sv)) return "a web page (an error page of a download?)";
    if (begins_with(text, "{"sv)) return "a JSON file";
    return "";
}

uint64_t align(uint64_t offset, uint64_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

}  // namespace

GgufFile::GgufFile(const std::string& path) : path_(path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) fail("no such file");
    if (!std::filesystem::is_regular_file(path, error)) fail("not a file");
    file_size_ = std::filesystem::file_size(path, error);
    stream_.open(path, std::ios::binary);
    if (error || !stream_) fail("cannot be opened for reading: check its permissions");

    char magic[4] = {};
    if (file_size_ >= sizeof magic) read_bytes(magic, sizeof magic);
    if (std::memcmp(magic, "GGUF", sizeof magic) != 0) fail_foreign();
    const auto version = read_number<uint32_t>();
    if (version != 0 && (version & 0xffff) == 0) fail("a big-endian GGUF file: convert it again on this machine");
    if (version < oldest_version || version > newest_version)
        fail("GGUF version " + std::to_string(version) + " is not supported: convert it again");
    const auto tensor_count = read_number<uint64_t>();
    const auto value_count = read_number<uint64_t>();
    read_key_values(value_count);
    read_tensor_directory(tensor_count);
}

void GgufFile::fail(const std::string& fault) const { throw BadModel(path_ + ": " + fault); }

void GgufFile::fail_foreign() {
    char head[64];
    stream_.clear();
    stream_.seekg(0);
    stream_.read(head, sizeof head);
    const std::string looks = describe_foreign({head, static_cast<size_t>(stream_.gcount())});
    fail(looks.empty() ? "not a GGUF file" : "not a GGUF file but " + looks + "; see `stenod models convert`");
}

void GgufFile::check_remaining(uint64_t count, uint64_t size_of_each, const std::string& what) const {
    if (count > (file_size_ - position_) / size_of_each)
        fail("truncated or corrupt: " + what + " goes beyond the end of the file");
}

void GgufFile::read_bytes(void* destination, uint64_t size) {
    check_remaining(size, 1, "the header");
    stream_.read(static_cast<char*>(destination), static_cast<std::streamsize>(size));
    if (!stream_) fail("cannot be read to its end");
    position_ += size;
}

void GgufFile::skip(uint64_t size) {
    stream_.seekg(static_cast<std::streamoff>(size), std::ios::cur);
    position_ += size;
}

template <typename T>
T GgufFile::read_number() {
    T value;
    read_bytes(&value, sizeof value);
    return value;
}

std::string GgufFile::read_string(const std::string& what) {
    const auto length = read_number<uint64_t>();
    check_remaining(length, 1, what);
    std::string text(length, '\0');
    read_bytes(text.data(), length);
    return text;
}

/// A key's or tensor's name: it will stand in messages.
std::string GgufFile::read_name(const char* what, size_t greatest_length) {
    std::string name = read_string(std::string("the name of a ") + what);
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (!printable || name.empty() || name.size() > greatest_length)
        fail(std::string("corrupt: the name of a ") + what + " is empty, too long or not printable");
    return name;
}

void GgufFile::read_key_values(uint64_t count) {
    check_remaining(count, least_key_value_size, "the list of " + std::to_string(count) + " keys");
    for (uint64_t i = 0; i < count; ++i) {
        std::string key = read_name("key", greatest_key_length);
        Value value = read_value(key);
        const auto [place, is_new] = values_.emplace(std::move(key), std::move(value));
        if (!is_new) fail("corrupt: key " + place->first + " occurs twice");
    }
}

GgufFile::Value GgufFile::read_value(const std::string& key) {
    const auto type = read_number<uint32_t>();
    if (type >= type_count) fail("corrupt: key " + key + " has unknown type " + std::to_string(type));
    Value value{value_types[type].name, Other{}};
    if (type == type_u32) {
        value.data = read_number<uint32_t>();
    } else if (type == type_i32) {
        value.data = read_number<int32_t>();
    } else if (type == type_f32) {
        value.data = read_number<float>();
    } else if (type == type_bool) {
        value.data = read_number<uint8_t>() != 0;
    } else if (type == type_string) {
        value.data = read_string("key " + key);
    } else if (type == type_array) {
        read_array(key, value);
    } else {
        check_remaining(1, value_types[type].size, "key " + key);
        skip(value_types[type].size);
    }
    return value;
}

void GgufFile::read_array(const std::string& key, Value& value) {
    const auto type = read_number<uint32_t>();
    const auto count = read_number<uint64_t>();
    if (type >= type_count || type == type_array)
        fail("corrupt: key " + key + " is an array of unknown type " + std::to_string(type));
    value.type_name = std::string("array of ") + value_types[type].name;
    check_remaining(count, type == type_string ? string_length_size : value_types[type].size, "key " + key);
    if (type == type_string) {
        std::vector<std::string> strings;
        for (uint64_t i = 0; i < count; ++i) strings.push_back(read_string("key " + key));
        value.data = std::move(strings);
    } else if (type == type_i32 || type == type_u32) {
        std::vector<int32_t> numbers = read_numbers<int32_t>(count);
        const bool fits = type == type_i32 || std::all_of(numbers.begin(), numbers.end(), [](int32_t n) { return n >= 0; });
        if (fits) value.data = std::move(numbers);
    } else if (type == type_f32) {
        value.data = read_numbers<float>(count);
    } else {
        skip(count * value_types[type].size);
    }
}

template <typename T>
std::vector<T> GgufFile::read_numbers(uint64_t count) {
    std::vector<T> numbers(count);
    read_bytes(numbers.data(), count * sizeof(T));
    return numbers;
}

void GgufFile::read_tensor_directory(uint64_t count) {
    check_remaining(count, least_tensor_info_size, "the list of " + std::to_string(count) + " tensors");
    for (uint64_t i = 0; i < count; ++i) {
        tensors_.push_back(read_tensor_info());
        if (!tensor_index_.emplace(tensors_.back().name, i).second)
            fail("corrupt: tensor " + tensors_.back().name + " occurs twice");
    }
    place_tensors();
}

TensorInfo GgufFile::read_tensor_info() {
    TensorInfo info{read_name("tensor", GGML_MAX_NAME - 1), GGML_TYPE_F32, 0, {1, 1, 1, 1}, 0, 0};
    const auto corrupt = [&](const std::string& fault) { fail("corrupt: tensor " + info.name + " has " + fault); };

    const auto n_dims = read_number<uint32_t>();
    if (n_dims > info.shape.size()) corrupt(std::to_string(n_dims) + " dimensions");
    info.n_dims = static_cast<int>(n_dims);
    int64_t elements = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
        info.shape[i] = read_number<int64_t>();
        if (info.shape[i] <= 0 || info.shape[i] > std::numeric_limits<int64_t>::max() / elements)
            corrupt("an impossible shape");
        elements *= info.shape[i];
    }

    const auto type = read_number<uint32_t>();
    const bool known = type < GGML_TYPE_COUNT && ggml_type_size(static_cast<ggml_type>(type)) > 0;
    if (!known) corrupt("unknown type " + std::to_string(type));
    info.type = static_cast<ggml_type>(type);
    const int64_t block = ggml_blck_size(info.type);
    const size_t block_size = ggml_type_size(info.type);
    if (info.shape[0] % block != 0) corrupt("rows that are not whole blocks of its type");
    const auto blocks = static_cast<uint64_t>(elements / block);
    if (blocks > file_size_ / block_size)
        fail("truncated or corrupt: tensor " + info.name + " is larger than the file");
    info.bytes = blocks * block_size;
    info.offset = read_number<uint64_t>();
    return info;
}

/// Makes offsets absolute, and checks that every tensor lies within the file.
void GgufFile::place_tensors() {
    const uint32_t alignment = u32("general.alignment", default_alignment);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) fail("corrupt: general.alignment is not a power of two");
    const uint64_t data = align(position_, alignment);
    for (TensorInfo& info : tensors_) {
        if (info.offset % alignment != 0) fail("corrupt: tensor " + info.name + " is not aligned");
        if (data > file_size_ || info.offset > file_size_ - data || info.bytes > file_size_ - data - info.offset)
            fail("truncated: tensor " + info.name + " goes beyond the end of the file");
        info.offset += data;
    }
}

bool GgufFile::has(std::string_view key) const { return values_.find(key) != values_.end(); }

template <typename T>
const T& GgufFile::get(std::string_view key, const char* type_name) const {
    const auto place = values_.find(key);
    if (place == values_.end()) fail("key " + std::string(key) + " is missing");
    const T* data = std::get_if<T>(&place->second.data);
    if (!data) fail("key " + std::string(key) + " must be " + type_name + ", not " + place->second.type_name);
    return *data;
}

uint32_t GgufFile::u32(std::string_view key) const { return get<uint32_t>(key, "u32"); }

const std::string& GgufFile::string(std::string_view key) const { return get<std::string>(key, "string"); }

const std::vector<int32_t>& GgufFile::i32_array(std::string_view key) const {
    return get<std::vector<int32_t>>(key, "array of i32");
}

const std::vector<float>& GgufFile::f32_array(std::string_view key) const {
    return get<std::vector<float>>(key, "array of f32");
}

const std::vector<std::string>& GgufFile::string_array(std::string_view key) const {
    return get<std::vector<std::string>>(key, "array of string");
}

uint32_t GgufFile::u32(std::string_view key, uint32_t fallback) const { return has(key) ? u32(key) : fallback; }

int32_t GgufFile::i32(std::string_view key, int32_t fallback) const {
    return has(key) ? get<int32_t>(key, "i32") : fallback;
}

float GgufFile::f32(std::string_view key, float fallback) const { return has(key) ? get<float>(key, "f32") : fallback; }

bool GgufFile::boolean(std::string_view key, bool fallback) const {
    return has(key) ? get<bool>(key, "bool") : fallback;
}

std::string GgufFile::string(std::string_view key, const std::string& fallback) const {
    return has(key) ? string(key) : fallback;
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
    const auto place = tensor_index_.find(name);
    return place == tensor_index_.end() ? nullptr : &tensors_[place->second];
}

const TensorInfo& GgufFile::tensor(std::string_view name) const {
    const TensorInfo* info = find_tensor(name);
    if (!info) fail("tensor " + std::string(name) + " is missing");
    return *info;
}

void GgufFile::read_tensor(std::string_view name, void* destination, size_t size) {
    const TensorInfo& info = tensor(name);
    if (size != info.bytes)
        fail("tensor " + info.name + " has " + std::to_string(info.bytes) + " bytes, expected " + std::to_string(size));
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(info.offset));
    stream_.read(static_cast<char*>(destination), static_cast<std::streamsize>(size));
    if (!stream_) fail("tensor " + info.name + " cannot be read: the file was changed or the disk failed");
}

}  // namespace stenod
