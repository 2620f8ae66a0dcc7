// The Python module: translates types and exceptions, releases the GIL around whatever computes, decides nothing.

#include <cstring>

#include <ggml.h>
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "engine.h"
#include "errors.h"

namespace py = pybind11;
using namespace pybind11::literals;

namespace {

using stenod::BadArgument;
using stenod::Clip;
using stenod::Context;
using stenod::Model;
using stenod::Segment;
using stenod::StepResult;
using stenod::Stream;
using stenod::StreamOptions;
using stenod::TimedToken;
using stenod::TranscribeOptions;
using stenod::Transcription;
using stenod::Worker;

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using ModelPointer = std::shared_ptr<const Model>;

Clip clip_of(const Floats& samples) {
    if (samples.ndim() != 1) throw BadArgument("samples: expected one dimension");
    return {samples.data(), static_cast<size_t>(samples.size())};
}

int mel_frames(const Model& model, const Floats& mel) {
    if (mel.ndim() != 2 || mel.shape(0) != model.mel_bands || mel.shape(1) < 1) {
        throw BadArgument("mel: expected [" + std::to_string(model.mel_bands) + ", frames]");
    }
    return static_cast<int>(mel.shape(1));
}

py::array_t<float> matrix(const std::vector<float>& values, py::ssize_t columns) {
    return py::array_t<float>({static_cast<py::ssize_t>(values.size()) / columns, columns}, values.data());
}

bool is_translate(const std::string& task) {
    if (task == "translate") return true;
    if (task == "transcribe") return false;
    throw BadArgument("task: '" + task + "' is neither transcribe nor translate");
}

/// Options as keyword arguments: each known field is taken out, what is left over is an error.
class Fields {
public:
    explicit Fields(const py::kwargs& fields) : left_(py::reinterpret_steal<py::dict>(PyDict_Copy(fields.ptr()))) {}

    template <typename T>
    void take(const char* name, T& value) {
        if (!left_.contains(name)) return;
        const py::object given = left_.attr("pop")(name);
        try {
            value = given.cast<T>();
        } catch (const py::cast_error&) {
            throw BadArgument(std::string(name) + ": " + py::repr(given).cast<std::string>() + " has the wrong type");
        }
    }
    void take_language(std::string& language) {
        std::optional<std::string> value;
        take("language", value);
        language = value.value_or("");
    }
    void take_task(bool& translate) {
        std::string task = "transcribe";
        take("task", task);
        translate = is_translate(task);
    }
    void take_context(Context& context) {
        std::optional<std::pair<py::bytes, std::vector<int>>> value;
        take("context", value);
        if (!value) return;
        const std::string_view samples = value->first;
        context.samples.resize(samples.size() / sizeof(int16_t));
        std::memcpy(context.samples.data(), samples.data(), context.samples.size() * sizeof(int16_t));
        context.tokens = std::move(value->second);
    }
    void done() const {
        for (const auto& field : left_) throw BadArgument(py::str(field.first).cast<std::string>() + ": no such option");
    }

private:
    py::dict left_;
};

TranscribeOptions transcribe_options(const py::kwargs& kwargs) {
    TranscribeOptions options;
    Fields fields(kwargs);
    fields.take_language(options.language);
    fields.take_task(options.translate);
    fields.take("prompt", options.prompt);
    fields.take("phrases", options.phrases);
    fields.take("beam_size", options.beam_size);
    fields.take("timestamps", options.timestamps);
    fields.take("best_of", options.best_of);
    fields.take("temperatures", options.temperatures);
    fields.take("condition_on_previous_text", options.condition_on_previous_text);
    fields.take("compression_ratio_threshold", options.compression_ratio_threshold);
    fields.take("logprob_threshold", options.logprob_threshold);
    fields.take("no_speech_threshold", options.no_speech_threshold);
    fields.take("full_window", options.full_window);
    fields.take("speech_evidence", options.speech_evidence);
    fields.take("seed", options.seed);
    fields.done();
    return options;
}

StreamOptions stream_options(const py::kwargs& kwargs) {
    StreamOptions options;
    Fields fields(kwargs);
    fields.take_language(options.language);
    fields.take("language_guessed", options.language_guessed);
    fields.take_task(options.translate);
    fields.take("prompt", options.prompt);
    fields.take("step_s", options.step_s);
    fields.take("first_step_s", options.first_step_s);
    fields.take("attention_distance_s", options.attention_distance_s);
    fields.take("sure_p", options.sure_p);
    fields.take("unsure_distance_s", options.unsure_distance_s);
    fields.take("trim_after_s", options.trim_after_s);
    fields.take("keep_s", options.keep_s);
    fields.take_context(options.context);
    fields.take("context_s", options.context_s);
    fields.take("least_avg_logprob", options.least_avg_logprob);
    fields.take("phrases", options.phrases);
    fields.take("beam_size", options.beam_size);
    fields.take("lookahead_ms", options.lookahead_ms);
    fields.take("left_s", options.left_s);
    fields.take("chunk_s", options.chunk_s);
    fields.take("lookahead_s", options.lookahead_s);
    fields.done();
    return options;
}

py::list tokens_of(const Model& model, const std::vector<TimedToken>& tokens) {
    py::list list;
    for (const TimedToken& token : tokens) {
        list.append(py::dict("id"_a = token.id, "text"_a = py::bytes(model.token_bytes(token.id)),
                             "start"_a = token.start, "end"_a = token.end, "p"_a = token.p));
    }
    return list;
}

py::object context_of(const Stream& stream) {
    const Context context = stream.context();
    if (context.tokens.empty()) return py::none();
    const auto* samples = reinterpret_cast<const char*>(context.samples.data());
    return py::make_tuple(py::bytes(samples, context.samples.size() * sizeof(int16_t)), context.tokens);
}

py::object or_none(const std::string& text) { return text.empty() ? py::object(py::none()) : py::str(text); }

py::dict transcription_of(const Model& model, const Transcription& transcription) {
    py::list segments;
    for (const Segment& segment : transcription.segments) {
        segments.append(py::dict("start"_a = segment.start, "end"_a = segment.end,
                                 "tokens"_a = tokens_of(model, segment.tokens),
                                 "avg_logprob"_a = segment.avg_logprob, "no_speech_prob"_a = segment.no_speech_prob,
                                 "compression_ratio"_a = segment.compression_ratio,
                                 "temperature"_a = segment.temperature));
    }
    return py::dict("language"_a = or_none(transcription.language), "duration"_a = transcription.duration,
                    "segments"_a = segments, "no_speech"_a = transcription.no_speech);
}

py::dict step_of(const Model& model, const StepResult& step) {
    return py::dict("committed"_a = tokens_of(model, step.committed), "tentative"_a = tokens_of(model, step.tentative),
                    "audio_s"_a = step.audio_s, "final"_a = step.final, "no_speech"_a = step.no_speech,
                    "looping"_a = step.looping, "end_of_turn"_a = step.end_of_turn, "language"_a = or_none(step.language),
                    "language_prob"_a = step.language_prob, "avg_logprob"_a = step.avg_logprob,
                    "no_speech_prob"_a = step.no_speech_prob);
}

py::list transcribe(Worker& worker, const std::vector<Floats>& samples, const TranscribeOptions& options,
                    const std::optional<py::function>& progress) {
    std::vector<Clip> clips;
    for (const Floats& clip : samples) clips.push_back(clip_of(clip));
    std::vector<Transcription> results;
    {
        const py::gil_scoped_release release;
        results = worker.transcribe(clips, options, [&](double seconds) {
            if (!progress) return;
            const py::gil_scoped_acquire acquire;
            (*progress)(seconds);
        });
    }
    py::list list;
    for (const Transcription& result : results) list.append(transcription_of(worker.model(), result));
    return list;
}

/// The Python exception of a stream that failed, as a value.
py::object exception_of(const std::exception_ptr& failure) {
    const py::module_ module = py::module_::import("stenod._native");
    try {
        std::rethrow_exception(failure);
    } catch (const stenod::Aborted& error) {
        return module.attr("Aborted")(error.what());
    } catch (const BadArgument& error) {
        return module.attr("BadArgument")(error.what());
    } catch (const stenod::OutOfMemory& error) {
        return module.attr("OutOfMemory")(error.what());
    } catch (const stenod::Error& error) {
        return module.attr("BackendError")(error.what());
    }
}

py::list step(Worker& worker, const std::vector<Stream*>& streams) {
    std::vector<Worker::Outcome> outcomes;
    {
        const py::gil_scoped_release release;
        outcomes = worker.step(streams);
    }
    py::list list;
    for (const Worker::Outcome& outcome : outcomes) {
        if (const auto* result = std::get_if<StepResult>(&outcome)) {
            list.append(step_of(worker.model(), *result));
        } else {
            list.append(exception_of(std::get<std::exception_ptr>(outcome)));
        }
    }
    return list;
}

py::dict info_of(const Model& model) {
    py::dict info = py::dict(py::cast(model.info()));
    info["name"] = model.name;
    info["family"] = model.family();
    info["parameters"] = model.parameters;
    info["bytes"] = model.weight_bytes;
    info["mel_bands"] = model.mel_bands;
    return info;
}

void register_exceptions(py::module_& module) {
    const auto error = py::register_exception<stenod::Error>(module, "NativeError");
    const auto also = [&](PyObject* second) { return py::make_tuple(error, py::handle(second)); };
    py::register_exception<BadArgument>(module, "BadArgument", also(PyExc_ValueError));
    py::register_exception<stenod::BadModel>(module, "BadModel", error);
    py::register_exception<stenod::OutOfMemory>(module, "OutOfMemory", also(PyExc_MemoryError));
    py::register_exception<stenod::Aborted>(module, "Aborted", error);
    py::register_exception<stenod::BackendError>(module, "BackendError", error);
}

void bind_model(py::module_& module) {
    py::class_<Model, std::shared_ptr<Model>>(module, "Model")
        .def(py::init([](const std::string& path) {
                 const py::gil_scoped_release release;
                 return std::const_pointer_cast<Model>(stenod::load_model(path));
             }),
             "path"_a)
        .def_property_readonly("family", &Model::family)
        .def_property_readonly("name", [](const Model& model) { return model.name; })
        .def_property_readonly("sample_rate", [](const Model&) { return Model::kSampleRate; })
        .def_property_readonly("languages", &Model::language_codes)
        .def_property_readonly("tells_end_of_turn", &Model::tells_end_of_turn)
        .def_property_readonly("info", info_of)
        .def("tokenize", &Model::tokenize, "text"_a)
        .def("detokenize",
             [](const Model& model, const std::vector<int>& ids) {
                 std::string bytes;
                 for (int id : ids) bytes += model.token_bytes(id);
                 return py::bytes(bytes);
             },
             "ids"_a)
        .def("log_mel",
             [](const Model& model, const Floats& samples, std::optional<int> frames) {
                 const Clip clip = clip_of(samples);
                 if (frames && *frames < 1) throw BadArgument("frames: must be positive");
                 std::vector<float> out;
                 {
                     const py::gil_scoped_release release;
                     out = model.log_mel(clip, frames.value_or(0));
                 }
                 return py::array_t<float>({model.mel_bands, static_cast<int>(out.size()) / model.mel_bands}, out.data());
             },
             "samples"_a, "frames"_a = py::none());
}

void bind_stream(py::module_& module) {
    py::class_<StreamOptions>(module, "StreamOptions").def(py::init(&stream_options));
    py::class_<Stream>(module, "Stream")
        .def(py::init([](const ModelPointer& model, const StreamOptions& options) {
                 return model->make_stream(options);
             }),
             "model"_a, "options"_a, py::keep_alive<1, 2>())
        .def("push",
             [](Stream& stream, const Floats& samples) {
                 const Clip clip = clip_of(samples);
                 const py::gil_scoped_release release;
                 stream.push(clip.samples, clip.count);
             },
             "samples"_a)
        .def("finish", &Stream::finish, "samples"_a = py::none(), py::call_guard<py::gil_scoped_release>())
        .def("reset", &Stream::reset, "options"_a = py::none(), py::call_guard<py::gil_scoped_release>())
        .def("due", &Stream::due, py::call_guard<py::gil_scoped_release>())
        .def("abort", &Stream::abort)
        .def("coarsen", &Stream::coarsen, "factor"_a, py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("audio_s", &Stream::audio_s)
        .def_property_readonly("context", context_of)
        .def_property_readonly("step_s", &Stream::step_s);
}

void bind_worker(py::module_& module) {
    py::class_<TranscribeOptions>(module, "TranscribeOptions").def(py::init(&transcribe_options));
    py::class_<Worker>(module, "Worker")
        .def(py::init([](const ModelPointer& model, int threads) { return model->make_worker(threads); }),
             "model"_a, "threads"_a = 0, py::call_guard<py::gil_scoped_release>())
        .def("transcribe",
             [](Worker& worker, const Floats& samples, const TranscribeOptions& options,
                const std::optional<py::function>& progress) -> py::object {
                 return transcribe(worker, {samples}, options, progress)[0];
             },
             "samples"_a, "options"_a, "progress"_a = py::none())
        .def("transcribe_batch",
             [](Worker& worker, const std::vector<Floats>& clips, const TranscribeOptions& options) {
                 return transcribe(worker, clips, options, std::nullopt);
             },
             "clips"_a, "options"_a)
        .def("step", &step, "streams"_a)
        .def("abort", &Worker::abort)
        .def_property_readonly("threads", &Worker::threads)
        .def_property_readonly("timings",
                               [](const Worker& worker) {
                                   const stenod::Timings timings = worker.timings();
                                   return py::dict("encode"_a = timings.encode, "decode"_a = timings.decode,
                                                   "other"_a = timings.other);
                               })
        .def("detect_language",
             [](Worker& worker, const Floats& samples) {
                 const Clip clip = clip_of(samples);
                 std::vector<float> probabilities;
                 {
                     const py::gil_scoped_release release;
                     probabilities = worker.detect_language(clip);
                 }
                 py::dict result;
                 const std::vector<std::string> languages = worker.model().language_codes();
                 for (size_t i = 0; i < probabilities.size(); ++i) {
                     result[py::str(languages[i])] = probabilities[i];
                 }
                 return result;
             },
             "samples"_a)
        .def("encode",
             [](Worker& worker, const Floats& mel, std::optional<int> lookahead_ms) {
                 const int frames = mel_frames(worker.model(), mel);
                 std::vector<float> output;
                 {
                     const py::gil_scoped_release release;
                     output = worker.encode(mel.data(), frames, lookahead_ms);
                 }
                 return matrix(output, worker.model().width());
             },
             "mel"_a, "lookahead_ms"_a = py::none())
        .def("decode",
             [](Worker& worker, const Floats& mel, const std::vector<int>& tokens) {
                 const int frames = mel_frames(worker.model(), mel);
                 std::vector<float> logits;
                 {
                     const py::gil_scoped_release release;
                     logits = worker.decode(mel.data(), frames, tokens);
                 }
                 return matrix(logits, static_cast<py::ssize_t>(logits.size() / tokens.size()));
             },
             "mel"_a, "tokens"_a);
}

}  // namespace

PYBIND11_MODULE(_native, module) {
    module.doc() = "Whisper and Parakeet on ggml, streaming.";
    module.attr("GGML_VERSION") = ggml_version();
    register_exceptions(module);
    bind_model(module);
    bind_stream(module);
    bind_worker(module);
}
