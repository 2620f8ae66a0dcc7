#include "fixture.h"

#include <fstream>
#include <limits>
#include <random>

namespace stenod::tests {

GgufFile& golden() {
    static GgufFile file(FIXTURE);
    return file;
}

std::vector<float> golden_tensor(std::string_view name) {
    std::vector<float> values(golden().tensor(name).bytes / sizeof(float));
    golden().read_tensor(name, values.data(), values.size() * sizeof(float));
    return values;
}

std::vector<std::vector<int32_t>> golden_lists(const std::string& name) {
    std::vector<std::vector<int32_t>> lists;
    auto next = golden().i32_array(name).begin();
    for (const int32_t length : golden().i32_array(name + ".lengths")) {
        lists.emplace_back(next, next + length);
        next += length;
    }
    return lists;
}

double greatest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
    double greatest = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        if (!(difference <= greatest)) greatest = difference;  // also takes what is not a number
    }
    return greatest;
}

TemporaryFile::TemporaryFile(std::string_view bytes) {
    const auto name = "stenod-test-" + std::to_string(std::random_device()()) + std::to_string(std::random_device()());
    path_ = std::filesystem::temp_directory_path() / name;
    write(bytes);
}

TemporaryFile::~TemporaryFile() {
    std::error_code ignored;  // a file left behind in the temporary folder is no failure
    std::filesystem::remove(path_, ignored);
}

void TemporaryFile::write(std::string_view bytes) const {
    std::ofstream stream(path_, std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace stenod::tests
