#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <ggml.h>

namespace stenod {

/// Where a tensor lies in a GGUF file. Type, shape and extent have been checked against the file's size.
struct TensorInfo {
    std::string name;
    ggml_type type;
    int n_dims;                     ///< 0 to 4
    std::array<int64_t, 4> shape;   ///< ggml's order (fastest first), padded with 1
    uint64_t offset;                ///< from the file's first byte
    size_t bytes;
};

/// A GGUF file (version 2 or 3, little-endian), open for reading. Its whole header is read and checked
/// by the constructor; memory used is a small multiple of the header's real size, whatever it claims.
/// Not ggml's reader: that one compares all names pairwise and can abort the process.
/// Every method throws BadModel naming the file and the fault. Not thread-safe (one file position).
class GgufFile {
public:
    explicit GgufFile(const std::string& path);

    const std::string& path() const { return path_; }

    bool has(std::string_view key) const;

    /// Values by key, of exactly this GGUF type; missing or of another type: BadModel.
    uint32_t u32(std::string_view key) const;
    const std::string& string(std::string_view key) const;
    const std::vector<int32_t>& i32_array(std::string_view key) const;  ///< u32 too, where every value fits
    const std::vector<float>& f32_array(std::string_view key) const;
    const std::vector<std::string>& string_array(std::string_view key) const;

    /// The same, with a value for a key that is missing.
    uint32_t u32(std::string_view key, uint32_t fallback) const;
    int32_t i32(std::string_view key, int32_t fallback) const;
    float f32(std::string_view key, float fallback) const;
    bool boolean(std::string_view key, bool fallback) const;
    std::string string(std::string_view key, const std::string& fallback) const;

    /// In the file's order.
    const std::vector<TensorInfo>& tensors() const { return tensors_; }

    /// Null if there is none of that name.
    const TensorInfo* find_tensor(std::string_view name) const;

    const TensorInfo& tensor(std::string_view name) const;

    /// Copies a tensor's data, exactly `size` bytes, to `destination`.
    void read_tensor(std::string_view name, void* destination, size_t size);

    /// A BadModel that names this file: for faults that only its reader can see.
    [[noreturn]] void fail(const std::string& fault) const;

private:
    /// A value of a type that no getter returns is skipped; only its type's name is kept.
    struct Other {};
    struct Value {
        std::string type_name;
        std::variant<Other, uint32_t, int32_t, float, bool, std::string, std::vector<int32_t>, std::vector<float>,
                     std::vector<std::string>>
            data;
    };

    template <typename T> T read_number();
    std::string read_string(const std::string& what);
    std::string read_name(const char* what, size_t greatest_length);
    Value read_value(const std::string& key);
    void read_array(const std::string& key, Value& value);
    template <typename T> std::vector<T> read_numbers(uint64_t count);
    void read_key_values(uint64_t count);
    void read_tensor_directory(uint64_t count);
    TensorInfo read_tensor_info();
    void place_tensors();
    void read_bytes(void* destination, uint64_t size);
    void skip(uint64_t size);
    void check_remaining(uint64_t count, uint64_t size_of_each, const std::string& what) const;
    [[noreturn]] void fail_foreign();
    template <typename T> const T& get(std::string_view key, const char* type_name) const;

    std::string path_;
    std::ifstream stream_;
    uint64_t file_size_ = 0;
    uint64_t position_ = 0;
    std::map<std::string, Value, std::less<>> values_;
    std::vector<TensorInfo> tensors_;
    std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace stenod
