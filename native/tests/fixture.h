#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf_file.h"

namespace stenod::tests {

/// What the reference implementations gave for the same input: data/golden.gguf, written by make_fixtures.py.
GgufFile& golden();

/// A float tensor of the golden file.
std::vector<float> golden_tensor(std::string_view name);

/// Runs of numbers, stored as one array and their lengths under `name` + ".lengths".
std::vector<std::vector<int32_t>> golden_lists(const std::string& name);

/// The greatest difference between two arrays of one length; infinity if the lengths differ.
double greatest_difference(const std::vector<float>& a, const std::vector<float>& b);

/// A file with these bytes, gone at the end of the scope.
class TemporaryFile {
public:
    explicit TemporaryFile(std::string_view bytes);
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile&) = delete;

    std::string path() const { return path_.string(); }
    void write(std::string_view bytes) const;

private:
    std::filesystem::path path_;
};

}  // namespace stenod::tests
