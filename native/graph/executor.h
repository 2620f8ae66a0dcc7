#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include "graph/host_load.h"

namespace stenod {

struct ContextDeleter {
    void operator()(ggml_context* context) const { ggml_free(context); }
};
struct BufferDeleter {
    void operator()(ggml_backend_buffer* buffer) const { ggml_backend_buffer_free(buffer); }
};
struct BackendDeleter {
    void operator()(ggml_backend* backend) const { ggml_backend_free(backend); }
};
struct AllocatorDeleter {
    void operator()(ggml_gallocr* allocator) const { ggml_gallocr_free(allocator); }
};
using ContextPtr = std::unique_ptr<ggml_context, ContextDeleter>;
using BufferPtr = std::unique_ptr<ggml_backend_buffer, BufferDeleter>;

/// A ggml context that holds descriptions of tensors, not their data.
/// Throws OutOfMemory.
ContextPtr make_context(size_t max_tensors);

/// Allocates every tensor of `context` in one CPU buffer, zero-filled. Throws OutOfMemory.
BufferPtr allocate_tensors(ggml_context* context);

/// A computation of one shape, built once and computed many times.
///
/// Inputs and outputs are tensors of the graph, reached by the pointers that the builder kept. Tensors that live
/// elsewhere (caches) are *bound*: made with `external`, and pointed at their memory before each `compute`.
class Graph {
public:
    explicit Graph(size_t max_nodes);

    ggml_context* context() const { return context_.get(); }
    ggml_cgraph* nodes() const { return graph_; }

    /// An input, filled after `Executor::prepare`.
    ggml_tensor* input(ggml_type type, int64_t ne0, int64_t ne1 = 1, int64_t ne2 = 1);
    /// A tensor whose memory is elsewhere; see `bind`.
    ggml_tensor* external(ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2 = 1);
    /// Computes `tensor` and keeps it readable after `compute`.
    void output(ggml_tensor* tensor);
    /// Computes `tensor` at this place in the order.
    void expand(ggml_tensor* tensor);
    /// Marks the result of an operation that writes into an external tensor: it is bound too.
    void writes_external(ggml_tensor* result);

private:
    friend class Executor;
    void forget_layout();

    ContextPtr context_;
    ggml_cgraph* graph_;
    std::vector<ggml_tensor*> external_;
    bool laid_out_ = false;  ///< by some executor: not so in a new graph at the address of an old one
};

/// Points an external tensor of a graph at `data` inside `buffer`.
void bind(ggml_tensor* tensor, ggml_backend_buffer* buffer, void* data);

/// The CPU backend with a standing pool of threads and one scratch buffer, which all graphs share in turn.
/// Used by one thread at a time; only `abort` may be called from another.
class Executor {
public:
    /// `threads` 0: `usable_cores()`. Fewer are used while other programs need the cores, which changes speed but no
    /// result. Throws BackendError, OutOfMemory.
    explicit Executor(int threads);
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    /// Lays `graph` out in the scratch buffer: its inputs may be written now. What another graph held is gone.
    void prepare(Graph& graph);
    /// Computes a prepared graph. Throws Aborted when `should_stop` says so between two nodes; BackendError.
    void compute(Graph& graph);

    /// Asked between two nodes of a graph, from the computing threads.
    void set_should_stop(std::function<bool()> should_stop) { should_stop_ = std::move(should_stop); }

    int threads() const { return threads_; }
    /// Seconds spent computing since the executor was made.
    double seconds() const { return seconds_; }

private:
    static bool stop_requested(void* self);

    int threads_;
    std::unique_ptr<ggml_threadpool, void (*)(ggml_threadpool*)> pool_;  // outlives the backend that uses it
    std::unique_ptr<ggml_backend, BackendDeleter> backend_;
    std::unique_ptr<ggml_gallocr, AllocatorDeleter> scratch_;
    ggml_backend_set_n_threads_t set_threads_ = nullptr;
    HostLoad load_;
    Graph* prepared_ = nullptr;
    double seconds_ = 0;
    std::function<bool()> should_stop_;
};

}  // namespace stenod
