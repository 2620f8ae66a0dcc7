#include "model/gguf_file.h"

#include <cstring>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "errors.h"
#include "fixture.h"

using namespace stenod;
using namespace stenod::tests;
using namespace std::string_literals;

namespace {

/// Writes GGUF, right or wrong, piece by piece.
class Writer {
public:
    template <typename T>
    Writer& number(T value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Writer& text(const std::string& text) {
        number<uint64_t>(text.size());
        bytes_ += text;
        return *this;
    }
    Writer& header(uint64_t tensors, uint64_t values, uint32_t version = 3) {
        bytes_ += "GGUF";
        return number(version).number(tensors).number(values);
    }
    Writer& tensor(const std::string& name, std::initializer_list<int64_t> shape, uint32_t type, uint64_t offset) {
        text(name).number(static_cast<uint32_t>(shape.size()));
        for (const int64_t length : shape) number(length);
        return number(type).number(offset);
    }
    Writer& data(size_t size) {
        bytes_.resize((bytes_.size() + 31) / 32 * 32);
        for (size_t i = 0; i < size; ++i) bytes_.push_back(static_cast<char>(i));
        return *this;
    }
    const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

constexpr uint32_t u32_type = 4, i32_type = 5, f32_type = 6, bool_type = 7, string_type = 8, array_type = 9, f64_type = 12;

/// A file with a value of every kind, and two tensors.
std::string valid_file(uint32_t version = 3) {
    Writer writer;
    writer.header(2, 10, version);
    writer.text("general.architecture").number(string_type).text("whisper");
    writer.text("size").number(u32_type).number<uint32_t>(7);
    writer.text("ratio").number(f64_type).number(0.5);
    writer.text("numbers").number(array_type).number(i32_type).number<uint64_t>(3).number(-1).number(2).number(3);
    writer.text("names").number(array_type).number(string_type).number<uint64_t>(2).text("a").text("");
    writer.text("reals").number(array_type).number(f32_type).number<uint64_t>(2).number(1.0f).number(2.0f);
    writer.text("left").number(i32_type).number(-1);
    writer.text("scale").number(f32_type).number(0.25f);
    writer.text("causal").number(bool_type).number<uint8_t>(1);
    writer.text("counts").number(array_type).number(u32_type).number<uint64_t>(2).number(4u).number(5u);
    writer.tensor("weights", {4, 3}, GGML_TYPE_F32, 0).tensor("blocks", {32, 2}, GGML_TYPE_Q8_0, 64);
    return writer.data(64 + 2 * 34).bytes();
}

std::string fault_of(const std::string& bytes) {
    const TemporaryFile file(bytes);
    try {
        GgufFile opened(file.path());
        return "";
    } catch (const BadModel& error) {
        CHECK(std::string(error.what()).find(file.path()) == 0);
        return error.what();
    }
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string file_of_tensor(std::initializer_list<int64_t> shape, uint32_t type, uint64_t offset) {
    return Writer().header(1, 0).tensor("weights", shape, type, offset).data(64).bytes();
}

}  // namespace

TEST_CASE("values and tensors of a valid file are read") {
    for (const uint32_t version : {2, 3}) {
        const TemporaryFile file(valid_file(version));
        GgufFile gguf(file.path());
        CHECK(gguf.string("general.architecture") == "whisper");
        CHECK(gguf.u32("size") == 7);
        CHECK(gguf.i32_array("numbers") == std::vector<int32_t>{-1, 2, 3});
        CHECK(gguf.string_array("names") == std::vector<std::string>{"a", ""});
        CHECK(gguf.i32_array("counts") == std::vector<int32_t>{4, 5});
        CHECK(gguf.f32_array("reals") == std::vector<float>{1.0f, 2.0f});
        CHECK(gguf.i32("left", 0) == -1);
        CHECK(gguf.i32("none", -2) == -2);
        CHECK(gguf.f32("scale", 0) == 0.25f);
        CHECK(gguf.boolean("causal", false));
        CHECK_FALSE(gguf.boolean("none", false));
        CHECK(gguf.has("ratio"));
        CHECK_FALSE(gguf.has("rati"));
        CHECK(gguf.u32("none", 9) == 9);
        CHECK(gguf.u32("size", 9) == 7);
        CHECK(gguf.string("none", "x") == "x");

        CHECK(gguf.tensors().size() == 2);
        CHECK(gguf.find_tensor("none") == nullptr);
        const TensorInfo& blocks = gguf.tensor("blocks");
        CHECK(blocks.type == GGML_TYPE_Q8_0);
        CHECK(blocks.n_dims == 2);
        CHECK(blocks.shape == std::array<int64_t, 4>{32, 2, 1, 1});
        CHECK(blocks.bytes == 68);
        std::string data(48, '\0');
        gguf.read_tensor("weights", data.data(), data.size());
        CHECK(data[47] == 47);
        CHECK_THROWS_AS(gguf.read_tensor("weights", data.data(), 47), BadModel);
    }
}

TEST_CASE("a key that is missing or of another type is named") {
    const TemporaryFile file(valid_file());
    const GgufFile gguf(file.path());
    CHECK_THROWS_WITH_AS(gguf.u32("absent"), (file.path() + ": key absent is missing").c_str(), BadModel);
    CHECK_THROWS_WITH_AS(gguf.u32("ratio"), (file.path() + ": key ratio must be u32, not f64").c_str(), BadModel);
    CHECK_THROWS_AS(gguf.u32("ratio", 1), BadModel);
    CHECK_THROWS_AS(gguf.string_array("numbers"), BadModel);
    CHECK_THROWS_AS(gguf.i32_array("reals"), BadModel);
    CHECK_THROWS_AS(gguf.f32_array("numbers"), BadModel);
    CHECK_THROWS_AS(gguf.i32("size", 0), BadModel);
    CHECK_THROWS_AS(gguf.boolean("size", false), BadModel);
    CHECK_THROWS_AS(gguf.f32("ratio", 0), BadModel);
    CHECK_THROWS_AS(gguf.tensor("absent"), BadModel);
}

TEST_CASE("what is not GGUF is told by what it looks like") {
    CHECK(mentions(fault_of(""), "an empty file"));
    CHECK(mentions(fault_of("lmgg\x01\x02\x03\x04"), "whisper.cpp"));
    CHECK(mentions(fault_of("PK\x03\x04....."), "PyTorch"));
    CHECK(mentions(fault_of("\x80\x02\x8a\x0al\xfc"), "pickle"));
    CHECK(mentions(fault_of("\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":{}}"s), "safetensors"));
    CHECK(mentions(fault_of("\x06\x00\x00\x00\x0c\x00WhisperSpec\x00\x03"s), "CTranslate2"));
    CHECK(mentions(fault_of("\n<!DOCTYPE html><html>"), "web page"));
    CHECK(mentions(fault_of("version https://git-lfs.github.com/spec/v1\n"), "Git LFS"));
    CHECK(mentions(fault_of("{\"error\": 404}"), "JSON"));
    CHECK(mentions(fault_of("\x1f\x8b\x08"), "gzip"));
    CHECK(mentions(fault_of("RIFF...."), "not a GGUF file"));
}

TEST_CASE("files that cannot be opened are told") {
    CHECK_THROWS_WITH_AS(GgufFile("/nonexistent/model.gguf"), "/nonexistent/model.gguf: no such file", BadModel);
    CHECK_THROWS_AS(GgufFile(std::filesystem::temp_directory_path().string()), BadModel);
}

TEST_CASE("versions that we do not read are told") {
    CHECK(mentions(fault_of(valid_file(1)), "version 1"));
    CHECK(mentions(fault_of(valid_file(4)), "version 4"));
    CHECK(mentions(fault_of(valid_file(0x03000000)), "big-endian"));
}

TEST_CASE("a truncated file is refused wherever it was cut") {
    const std::string whole = valid_file();
    CHECK(fault_of(whole).empty());
    for (size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(fault_of(whole.substr(0, size)).empty());
}

TEST_CASE("counts and lengths beyond the file are refused before anything is allocated") {
    for (const uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
        CHECK(mentions(fault_of(Writer().header(count, 0).bytes()), "beyond the end"));
        CHECK(mentions(fault_of(Writer().header(0, count).bytes()), "beyond the end"));
        CHECK(mentions(fault_of(Writer().header(0, 1).number(count).data(64).bytes()), "beyond the end"));
        for (const uint32_t type : {i32_type, string_type, f64_type}) {
            Writer writer;
            writer.header(0, 1).text("key").number(array_type).number(type).number(count).data(64);
            CHECK(mentions(fault_of(writer.bytes()), "beyond the end"));
        }
    }
}

TEST_CASE("tensors that cannot be are refused") {
    constexpr int64_t huge = int64_t{1} << 62;
    CHECK(fault_of(file_of_tensor({4, 4}, GGML_TYPE_F32, 0)).empty());
    CHECK(mentions(fault_of(file_of_tensor({4, 5}, GGML_TYPE_F32, 0)), "larger than the file") !=
          mentions(fault_of(file_of_tensor({4, 5}, GGML_TYPE_F32, 0)), "beyond the end"));
    CHECK(mentions(fault_of(file_of_tensor({4, 4}, GGML_TYPE_F32, 32)), "beyond the end"));
    CHECK(mentions(fault_of(file_of_tensor({4, 4}, GGML_TYPE_F32, ~uint64_t{31})), "beyond the end"));
    CHECK(mentions(fault_of(file_of_tensor({4}, GGML_TYPE_F32, 8)), "not aligned"));
    CHECK(mentions(fault_of(file_of_tensor({huge, 4}, GGML_TYPE_F32, 0)), "shape"));
    CHECK(mentions(fault_of(file_of_tensor({huge}, GGML_TYPE_F32, 0)), "larger than the file"));
    CHECK(mentions(fault_of(file_of_tensor({0}, GGML_TYPE_F32, 0)), "shape"));
    CHECK(mentions(fault_of(file_of_tensor({-4}, GGML_TYPE_F32, 0)), "shape"));
    CHECK(mentions(fault_of(file_of_tensor({1, 1, 1, 1, 1}, GGML_TYPE_F32, 0)), "dimensions"));
    CHECK(mentions(fault_of(file_of_tensor({33}, GGML_TYPE_Q8_0, 0)), "blocks"));
    for (const uint32_t type : {uint32_t{4}, uint32_t{GGML_TYPE_COUNT}, ~uint32_t{0}})
        CHECK(mentions(fault_of(file_of_tensor({1}, type, 0)), "unknown type"));
}

TEST_CASE("names that are double, empty or not printable are refused") {
    const auto twice = Writer().header(2, 0).tensor("a", {1}, 0, 0).tensor("a", {1}, 0, 0).data(64).bytes();
    CHECK(mentions(fault_of(twice), "twice"));
    for (const std::string& name : {""s, "a b"s, "\xff"s, std::string(64, 'a')})
        CHECK_FALSE(fault_of(Writer().header(1, 0).tensor(name, {1}, 0, 0).data(64).bytes()).empty());
    Writer writer;
    for (int i = 0; i < 2; ++i) {
        if (i == 0) writer.header(0, 2);
        writer.text("key").number(u32_type).number<uint32_t>(1);
    }
    CHECK(mentions(fault_of(writer.bytes()), "twice"));
}

TEST_CASE("an alignment that is no power of two is refused") {
    for (const uint32_t alignment : {0u, 3u, 33u}) {
        Writer writer;
        writer.header(0, 1).text("general.alignment").number(u32_type).number(alignment);
        CHECK(mentions(fault_of(writer.bytes()), "alignment"));
    }
}

// Whatever the bytes, the file is either refused as a bad model or can be read whole.
TEST_CASE("mutated files are refused or readable") {
    constexpr uint64_t extremes[] = {0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
    const std::string whole = valid_file();
    const TemporaryFile file(whole);
    std::mt19937 random(2024);
    int refused = 0;
    for (int round = 0; round < 1500; ++round) {
        std::string bytes = whole;
        for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
            const size_t place = random() % bytes.size();
            const uint64_t value = extremes[random() % std::size(extremes)];
            const size_t width = std::min<size_t>(size_t{1} << random() % 4, bytes.size() - place);
            switch (random() % 4) {
                case 0: bytes[place] = static_cast<char>(random()); break;
                case 1: std::memcpy(&bytes[place], &value, width); break;
                case 2: bytes.erase(place, 1 + random() % 16); break;
                default: bytes.insert(place, reinterpret_cast<const char*>(&value), width);
            }
        }
        file.write(bytes);
        try {
            GgufFile gguf(file.path());
            for (const TensorInfo& info : gguf.tensors()) {
                std::vector<char> data(info.bytes);
                gguf.read_tensor(info.name, data.data(), data.size());
            }
        } catch (const BadModel&) {
            ++refused;
        }
    }
    CHECK(refused > 300);
}
