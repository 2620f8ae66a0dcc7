#include "graph/executor.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "errors.h"

namespace stenod {

namespace {

/// The CPU device, whichever library provides it: a fixed build or one chosen at run time for this processor.
ggml_backend_dev_t cpu_device() {
    static const ggml_backend_dev_t device = [] {
        ggml_backend_dev_t found = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        if (!found) {
            ggml_backend_load_all();
            found = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        }
        return found;
    }();
    if (!device) throw BackendError("ggml has no CPU backend: reinstall libggml-python");
    return device;
}

template <typename Function>
Function backend_function(const char* name) {
    ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(cpu_device());
    void* address = ggml_backend_reg_get_proc_address(registry, name);
    if (!address) throw BackendError(std::string("ggml's CPU backend has no function ") + name);
    return reinterpret_cast<Function>(address);
}

}  // namespace

ContextPtr make_context(size_t max_tensors) {
    ggml_init_params params{max_tensors * ggml_tensor_overhead(), nullptr, true};
    ContextPtr context(ggml_init(params));
    if (!context) throw OutOfMemory("no memory for a ggml context");
    return context;
}

BufferPtr allocate_tensors(ggml_context* context) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(cpu_device());
    BufferPtr buffer(ggml_backend_alloc_ctx_tensors_from_buft(context, type));
    if (!buffer) throw OutOfMemory("no memory for tensors");
    ggml_backend_buffer_clear(buffer.get(), 0);
    return buffer;
}

Graph::Graph(size_t max_nodes) {
    // Leafs and nodes both need a tensor each.
    ggml_init_params params{2 * max_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(max_nodes, false),
                            nullptr, true};
    context_.reset(ggml_init(params));
    if (!context_) throw OutOfMemory("no memory for a graph");
    graph_ = ggml_new_graph_custom(context_.get(), max_nodes, false);
}

ggml_tensor* Graph::input(ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2) {
    ggml_tensor* tensor = ggml_new_tensor_3d(context_.get(), type, ne0, ne1, ne2);
    ggml_set_input(tensor);
    return tensor;
}

ggml_tensor* Graph::external(ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2) {
    ggml_tensor* tensor = ggml_new_tensor_3d(context_.get(), type, ne0, ne1, ne2);
    external_.push_back(tensor);
    return tensor;
}

void Graph::output(ggml_tensor* tensor) {
    ggml_set_output(tensor);
    if (tensor->view_src) ggml_set_output(tensor->view_src);  // memory belongs to the source
    expand(tensor);
}

void Graph::expand(ggml_tensor* tensor) { ggml_build_forward_expand(graph_, tensor); }

void Graph::writes_external(ggml_tensor* result) {
    external_.push_back(result);
    expand(result);
}

void Graph::forget_layout() {
    for (ggml_tensor* tensor = ggml_get_first_tensor(context_.get()); tensor;
         tensor = ggml_get_next_tensor(context_.get(), tensor)) {
        tensor->data = nullptr;
        tensor->buffer = nullptr;
    }
    // The allocator leaves alone what already has an address; the real one comes with `bind`.
    static char elsewhere;
    for (ggml_tensor* tensor : external_) tensor->data = &elsewhere;
}

void bind(ggml_tensor* tensor, ggml_backend_buffer* buffer, void* data) {
    tensor->buffer = buffer;
    tensor->data = data;
}

Executor::Executor(int threads)
    : threads_(threads > 0 ? threads : usable_cores()),
      pool_(nullptr, backend_function<void (*)(ggml_threadpool*)>("ggml_threadpool_free")),
      backend_(ggml_backend_dev_init(cpu_device(), nullptr)) {
    if (threads_ > GGML_MAX_N_THREADS) {
        throw BadArgument("threads: at most " + std::to_string(GGML_MAX_N_THREADS) + ", got " +
                          std::to_string(threads_));
    }
    if (!backend_) throw BackendError("ggml's CPU backend does not start");
    scratch_.reset(ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend_.get())));
    if (!scratch_) throw OutOfMemory("no memory for the graph allocator");

    ggml_threadpool_params params;
    ggml_threadpool_params_init(&params, threads_);
    params.poll = 0;  // between graphs the threads sleep: for other programs' sake, and not to count as load themselves
    pool_.reset(backend_function<ggml_threadpool* (*)(ggml_threadpool_params*)>("ggml_threadpool_new")(&params));
    if (!pool_) throw OutOfMemory("no threads for the engine");

    set_threads_ = backend_function<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads");
    backend_function<void (*)(ggml_backend_t, ggml_threadpool*)>("ggml_backend_cpu_set_threadpool")(backend_.get(),
                                                                                                  pool_.get());
    backend_function<ggml_backend_set_abort_callback_t>("ggml_backend_set_abort_callback")(backend_.get(),
                                                                                          stop_requested, this);
}

bool Executor::stop_requested(void* self) {
    const auto& should_stop = static_cast<Executor*>(self)->should_stop_;
    return should_stop && should_stop();
}

void Executor::prepare(Graph& graph) {
    if (prepared_ == &graph && graph.laid_out_) return;
    prepared_ = nullptr;
    graph.forget_layout();
    // Reserving first makes the allocator plan for this graph, even where the former one had as many nodes.
    if (!ggml_gallocr_reserve(scratch_.get(), graph.nodes()) || !ggml_gallocr_alloc_graph(scratch_.get(), graph.nodes())) {
        throw OutOfMemory("no memory for the engine's scratch buffer");
    }
    graph.laid_out_ = true;
    prepared_ = &graph;
}

void Executor::compute(Graph& graph) {
    if (prepared_ != &graph) throw BackendError("a graph was computed before it was prepared");
    set_threads_(backend_.get(), std::min(threads_, load_.free_cores()));
    const auto start = std::chrono::steady_clock::now();
    const ggml_status status = ggml_backend_graph_compute(backend_.get(), graph.nodes());
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (status == GGML_STATUS_ABORTED) throw Aborted("aborted");
    if (status == GGML_STATUS_ALLOC_FAILED) throw OutOfMemory("no memory for the engine's work buffer");
    if (status != GGML_STATUS_SUCCESS) throw BackendError("ggml failed to compute a graph");
}

}  // namespace stenod
