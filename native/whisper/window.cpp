#include "whisper/window.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "whisper/evidence.h"

namespace stenod::whisper {

namespace {

LogitRules make_rules(const Model& model, const WindowOptions& options) {
    LogitRules::Options rules;
    rules.vocab_size = model.vocabulary;
    rules.eot = model.token.eot;
    rules.timestamp_begin = model.token.timestamp_begin;
    rules.timestamps = options.timestamps;
    rules.suppress.assign(model.suppress_tokens.begin(), model.suppress_tokens.end());
    rules.begin_suppress.assign(model.begin_suppress_tokens.begin(), model.begin_suppress_tokens.end());
    return LogitRules(rules);
}

/// Seconds at which a row's heads, taken together, look most.
float focus_of(const std::vector<float>& attention, size_t heads, size_t positions, size_t frames) {
    std::vector<float> sum(frames, 0.0f);
    for (size_t head = 0; head < heads; ++head) {
        for (size_t i = 0; i < frames; ++i) sum[i] += attention[head * positions + i];
    }
    return static_cast<float>((argmax(sum.data(), frames) + 0.5) * Model::kSecondsPerPosition);
}

}  // namespace

Branch Branch::fork(Pool<Lane>::Pointer own_lane) const {
    Branch copy;
    copy.lane = std::move(own_lane);
    copy.tokens = tokens;
    copy.logprobs = logprobs;
    copy.sum_logprob = sum_logprob;
    copy.attention = attention;
    copy.next_logits = next_logits;
    copy.next_attention = next_attention;
    return copy;
}

WindowDecoding::WindowDecoding(const Model& model, const CrossCache& cross, int frames, Pool<Lane>& lanes,
                               WindowOptions options)
    : model_(model),
      cross_(cross),
      frames_(frames),
      lanes_(lanes),
      options_(std::move(options)),
      rules_(make_rules(model, options_)),
      random_(options_.seed) {
    start();
}

void WindowDecoding::start() {
    root_.lane = lanes_.take(model_);
    root_.lane->length = 0;
    if (!options_.previous.empty()) {
        const size_t most = model_.decoder.context / 2 - 1;
        const size_t kept = std::min(options_.previous.size(), most);
        prompt_.push_back(model_.token.sot_prev);
        prompt_.insert(prompt_.end(), options_.previous.end() - kept, options_.previous.end());
    }
    prompt_.push_back(model_.token.sot);
    options_.max_tokens = std::min(options_.max_tokens,
                                   model_.decoder.context - static_cast<int>(prompt_.size()) - 3);
    const size_t room = std::max(0, options_.max_tokens - 1);
    if (options_.forced.size() > room) options_.forced.resize(room);
    options_.draft.resize(std::min(options_.draft.size(), room - options_.forced.size()));

    if (model_.multilingual() && options_.language_token < 0) {
        stage_ = Stage::detect;
        prefill_.lane = root_.lane.get();
        prefill_.cross = &cross_;
        prefill_.tokens = prompt_;
        prefill_.first_output = static_cast<int>(prompt_.size()) - 1;
    } else {
        request_prefill();
    }
}

void WindowDecoding::request_prefill() {
    const bool sot_done = root_.lane->length > 0;
    std::vector<int> tokens = sot_done ? std::vector<int>() : prompt_;
    prefill_.first_output = sot_done ? 0 : static_cast<int>(prompt_.size()) - 1;
    if (model_.multilingual()) {
        tokens.push_back(options_.language_token);
        tokens.push_back(options_.translate ? model_.token.translate : model_.token.transcribe);
    }
    if (!options_.timestamps) tokens.push_back(model_.token.no_timestamps);
    prompt_length_ = root_.lane->length + static_cast<int>(tokens.size());
    tokens.insert(tokens.end(), options_.forced.begin(), options_.forced.end());
    tokens.insert(tokens.end(), options_.draft.begin(), options_.draft.end());
    prefill_.lane = root_.lane.get();
    prefill_.cross = &cross_;
    prefill_.tokens = std::move(tokens);
    prefill_.decoded = false;
    stage_ = Stage::prefill;
}

void WindowDecoding::requests(std::vector<DecodeRequest*>& out) {
    if (stage_ == Stage::detect || stage_ == Stage::prefill) {
        out.push_back(&prefill_);
        return;
    }
    for (Branch& branch : branches_) {
        if (branch.done()) continue;
        branch.request.lane = branch.lane.get();
        branch.request.cross = &cross_;
        branch.request.tokens = {branch.tokens.back()};
        branch.request.first_output = 0;
        out.push_back(&branch.request);
    }
}

void WindowDecoding::advance() {
    switch (stage_) {
        case Stage::detect:
            take_sot_row(prefill_.logits.data());
            request_prefill();
            break;
        case Stage::prefill:
            take_prefill();
            start_tier();
            break;
        case Stage::extend:
            for (Branch& branch : branches_) {
                if (branch.done()) continue;
                set_next(branch, branch.request, 0);
                branch.request.decoded = false;
            }
            if (beams()) {
                extend_beams();
            } else {
                extend_lanes();
            }
            break;
        case Stage::done: break;
    }
}

void WindowDecoding::take_sot_row(const float* logits) {
    const float total = logsumexp(logits, model_.vocabulary);
    no_speech_prob_ = std::exp(logits[model_.token.no_speech] - total);
    if (options_.language_token >= 0 || !model_.multilingual()) return;
    const float* languages = logits + model_.token.language(0);
    const size_t best = argmax(languages, model_.languages.size());
    language_prob_ = std::exp(languages[best] - logsumexp(languages, model_.languages.size()));
    options_.language_token = model_.token.language(static_cast<int>(best));
}

void WindowDecoding::take_prefill() {
    const bool has_sot_row = root_.lane->length == static_cast<int>(prefill_.tokens.size());
    if (has_sot_row) take_sot_row(prefill_.logits.data());
    // The row of the prompt's last token predicts the first token of text.
    const int first_row = prefill_.outputs() - 1 - static_cast<int>(options_.forced.size() + options_.draft.size());
    set_next(root_, prefill_, first_row);
    for (size_t i = 0; i < options_.forced.size(); ++i) {
        const int token = options_.forced[i];
        const float total = logsumexp(root_.next_logits.data(), model_.vocabulary);
        append(root_, token, root_.next_logits[token] - total);
        set_next(root_, prefill_, first_row + static_cast<int>(i) + 1);
    }
}

void WindowDecoding::start_tier() {
    stage_ = Stage::extend;
    branches_.clear();
    finished_.clear();
    root_.lane->length = prompt_length_ + static_cast<int>(options_.forced.size());
    const bool sampling = temperature() > 0;
    const int count = sampling ? options_.best_of : 1;
    for (int i = 0; i < count; ++i) {
        Pool<Lane>::Pointer lane = lanes_.take(model_);
        lane->copy(*root_.lane, 0);
        branches_.push_back(root_.fork(std::move(lane)));
    }
    if (beams()) {
        extend_beams();
    } else if (sampling) {
        extend_lanes();
    } else {
        verify_draft(branches_.front());
    }
}

/// The draft's keys and values lie in the root's lane already: as far as it is right, they are the branch's own.
void WindowDecoding::verify_draft(Branch& branch) {
    const int forced = static_cast<int>(options_.forced.size());
    const int drafted = static_cast<int>(options_.draft.size());
    int accepted = 0;
    choose(branch);
    while (!branch.done() && accepted < drafted && branch.tokens.back() == options_.draft[accepted]) {
        ++accepted;
        set_next(branch, prefill_, prefill_.outputs() - 1 - drafted + accepted);
        choose(branch);
    }
    root_.lane->length = prompt_length_ + forced + accepted;
    branch.lane->copy(*root_.lane, prompt_length_ + forced);
    root_.lane->length = prompt_length_ + forced;
    if (branch.done()) finish_tier();
}

void WindowDecoding::choose(Branch& branch) {
    const size_t vocabulary = model_.vocabulary;
    float* logits = branch.next_logits.data();
    rules_.apply(logits, branch.tokens.data(), branch.tokens.size());
    const size_t token = temperature() > 0 ? sample(logits, vocabulary, temperature(), random_)
                                           : argmax(logits, vocabulary);
    append(branch, static_cast<int>(token), logits[token] - logsumexp(logits, vocabulary));
}

void WindowDecoding::append(Branch& branch, int token, float logprob) {
    branch.sum_logprob += logprob;
    branch.attention.push_back(branch.next_attention);
    if (token == model_.token.eot) {
        branch.ended = true;
        return;
    }
    branch.tokens.push_back(token);
    branch.logprobs.push_back(logprob);
    branch.looping = options_.stop_at_loop && loop_start(branch) < branch.tokens.size();
    branch.stopped = branch.looping || static_cast<int>(branch.tokens.size()) >= options_.max_tokens;
}

void WindowDecoding::extend_lanes() {
    for (Branch& branch : branches_) {
        if (!branch.done()) choose(branch);
    }
    if (std::all_of(branches_.begin(), branches_.end(), [](const Branch& b) { return b.done(); })) finish_tier();
}

/// Each beam's best continuations compete; those that end the text leave the race with their score.
void WindowDecoding::extend_beams() {
    struct Candidate {
        double sum;
        size_t parent;
        int token;
        float logprob;
    };
    const size_t width = options_.beam_size, vocabulary = model_.vocabulary;
    std::vector<Candidate> candidates;
    std::vector<int> order(vocabulary);
    for (size_t i = 0; i < branches_.size(); ++i) {
        Branch& branch = branches_[i];
        float* logits = branch.next_logits.data();
        rules_.apply(logits, branch.tokens.data(), branch.tokens.size());
        const float total = logsumexp(logits, vocabulary);
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + width + 1, order.end(),
                          [&](int a, int b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
        for (size_t k = 0; k <= width; ++k) {
            const float logprob = logits[order[k]] - total;
            candidates.push_back({branch.sum_logprob + logprob, i, order[k], logprob});
        }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.sum > b.sum; });

    std::vector<Branch> next;
    for (const Candidate& candidate : candidates) {
        if (next.size() == width || finished_.size() >= width) break;
        Branch& parent = branches_[candidate.parent];
        Pool<Lane>::Pointer lane;
        if (candidate.token != model_.token.eot) {
            lane = lanes_.take(model_);
            lane->copy(*parent.lane, 0);
        }
        Branch child = parent.fork(std::move(lane));
        append(child, candidate.token, candidate.logprob);
        (child.done() ? finished_ : next).push_back(std::move(child));
    }
    branches_ = std::move(next);
    if (branches_.empty() || finished_.size() >= width) finish_tier();
}

void WindowDecoding::finish_tier() {
    for (Branch& branch : branches_) {
        if (!beams() || finished_.empty()) finished_.push_back(std::move(branch));
    }
    branches_.clear();
    best_ = std::move(*std::max_element(finished_.begin(), finished_.end(), [&](const Branch& a, const Branch& b) {
        return score(a) < score(b);
    }));
    finished_.clear();
    if (plausible(best_) || !worth_another_tier() || tier_ + 1 == options_.temperatures.size()) {
        stage_ = Stage::done;
        root_.lane.reset();
        best_.lane.reset();
    } else {
        ++tier_;
        start_tier();
    }
}

bool WindowDecoding::plausible(const Branch& branch) const {
    const bool silent = no_speech_prob_ > options_.no_speech_threshold &&
                        average(branch) < options_.logprob_threshold;
    return silent || (!branch.looping && compression_ratio(text(branch)) <= options_.compression_ratio_threshold &&
                      average(branch) >= options_.logprob_threshold);
}

bool WindowDecoding::evident(const Branch& branch) const {
    const auto given = static_cast<std::ptrdiff_t>(std::min(options_.given, branch.tokens.size()));
    const std::vector<int> tokens(branch.tokens.begin() + given, branch.tokens.end());
    const std::vector<float> logprobs(branch.logprobs.begin() + given, branch.logprobs.end());
    const double sum = std::accumulate(branch.logprobs.begin(), branch.logprobs.begin() + given, branch.sum_logprob,
                                       std::minus<>());
    const auto mean = static_cast<float>(sum / static_cast<double>(tokens.size() + 1));
    return speech_evident(model_, tokens, logprobs, mean, no_speech_prob_);
}

/// The first token that repeats what was told; tokens.size() if none does. Timestamps, which never repeat, are
/// left out of account.
size_t WindowDecoding::loop_start(const Branch& branch) const {
    const std::vector<int> text = text_tokens(branch);
    size_t left = whisper::loop_start(text);
    if (left == text.size()) return branch.tokens.size();
    size_t index = 0;
    while (branch.tokens[index] >= model_.token.eot || left-- > 0) ++index;
    return index;
}

/// Sampling makes something up where nobody spoke.
bool WindowDecoding::worth_another_tier() const {
    return !options_.speech_evidence || tier_ > 0 || best_.looping || evident(best_) ||
           compression_ratio(text(best_)) > options_.compression_ratio_threshold;
}

double WindowDecoding::score(const Branch& branch) const {
    return branch.sum_logprob / std::max<size_t>(1, branch.tokens.size());
}

float WindowDecoding::average(const Branch& branch) const {
    return static_cast<float>(branch.sum_logprob / static_cast<double>(branch.tokens.size() + 1));
}

void WindowDecoding::set_next(Branch& branch, const DecodeRequest& request, int output) const {
    const size_t vocabulary = model_.vocabulary, heads = model_.alignment_heads.size();
    const size_t positions = cross_.positions, outputs = request.outputs();
    const float* logits = request.logits.data() + output * vocabulary;
    branch.next_logits.assign(logits, logits + vocabulary);
    std::vector<float> attention(heads * positions);
    for (size_t head = 0; head < heads; ++head) {
        std::copy_n(request.attention.data() + (head * outputs + output) * positions, positions,
                    attention.data() + head * positions);
    }
    branch.next_attention = std::make_shared<const std::vector<float>>(std::move(attention));
}

/// Without timestamps.
std::vector<int> WindowDecoding::text_tokens(const Branch& branch) const {
    std::vector<int> text;
    std::copy_if(branch.tokens.begin(), branch.tokens.end(), std::back_inserter(text),
                 [this](int token) { return token < model_.token.eot; });
    return text;
}

std::string WindowDecoding::text(const Branch& branch) const {
    const std::vector<int> tokens = text_tokens(branch);
    return model_.tokenizer.decode({tokens.begin(), tokens.end()});
}

WindowResult WindowDecoding::result() const {
    WindowResult result;
    result.tokens = best_.tokens;
    result.logprobs = best_.logprobs;
    result.avg_logprob = average(best_);
    result.no_speech_prob = no_speech_prob_;
    result.compression_ratio = static_cast<float>(compression_ratio(text(best_)));
    result.temperature = temperature();
    result.language_token = options_.language_token;
    result.language_prob = language_prob_;
    result.ended = best_.ended;
    result.loop_start = loop_start(best_);
    result.looping = best_.looping;
    result.speech_evident = evident(best_);

    const size_t heads = model_.alignment_heads.size(), rows = best_.attention.size(), positions = cross_.positions;
    const size_t frames = std::min<size_t>(frames_, positions);
    std::vector<float> weights(heads * rows * positions);
    for (size_t row = 0; row < rows; ++row) {
        for (size_t head = 0; head < heads; ++head) {
            std::copy_n(best_.attention[row]->data() + head * positions, positions,
                        weights.data() + (head * rows + row) * positions);
        }
        if (row < best_.tokens.size()) {
            result.focus.push_back(focus_of(*best_.attention[row], heads, positions, std::max<size_t>(1, frames)));
        }
    }
    result.times = token_times({weights.data(), heads, rows, frames, positions});
    result.times.resize(best_.tokens.size());
    return result;
}

void decode_windows(Decoder& decoder, const std::vector<WindowDecoding*>& windows) {
    std::vector<DecodeRequest*> requests;
    std::vector<WindowDecoding*> active;
    while (true) {
        requests.clear();
        active.clear();
        for (WindowDecoding* window : windows) {
            if (window->done()) continue;
            window->requests(requests);
            active.push_back(window);
        }
        if (active.empty()) return;
        decoder.decode(requests);
        for (WindowDecoding* window : active) window->advance();
    }
}

}  // namespace stenod::whisper
