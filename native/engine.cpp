#include "engine.h"

#include "model/gguf_file.h"
#include "parakeet/model.h"
#include "whisper/model.h"

namespace stenod {

namespace {

template <typename Family>
std::shared_ptr<const Model> load(GgufFile& file) {
    return std::make_shared<const Family>(file);
}

/// By the name of the architecture in the file.
const std::map<std::string, std::shared_ptr<const Model> (*)(GgufFile&)> kFamilies = {
    {"parakeet", load<parakeet::Model>},
    {"whisper", load<whisper::Model>},
};

}  // namespace

std::shared_ptr<const Model> load_model(const std::string& path) {
    GgufFile file(path);
    const std::string architecture = file.string("general.architecture");
    const auto family = kFamilies.find(architecture);
    if (family == kFamilies.end()) {
        std::string known;
        for (const auto& [name, load] : kFamilies) known += (known.empty() ? "" : " or ") + name;
        file.fail("its architecture is '" + architecture + "', expected " + known);
    }
    return family->second(file);
}

}  // namespace stenod
