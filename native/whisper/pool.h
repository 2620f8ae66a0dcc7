#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace stenod::whisper {

/// Large reusable objects: what is taken returns by itself. Outlives whatever was taken. Used by one thread.
template <typename T>
class Pool {
public:
    struct Return {
        Pool* pool = nullptr;
        void operator()(T* object) const { pool->free_.emplace_back(object); }
    };
    using Pointer = std::unique_ptr<T, Return>;

    template <typename... Arguments>
    Pointer take(const Arguments&... arguments) {
        if (free_.empty()) free_.push_back(std::make_unique<T>(arguments...));
        Pointer taken(free_.back().release(), Return{this});
        free_.pop_back();
        return taken;
    }

private:
    std::vector<std::unique_ptr<T>> free_;
};

}  // namespace stenod::whisper
