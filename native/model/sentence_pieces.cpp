#include "sentence_pieces.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "../errors.h"
#include "unicode.h"

namespace stenod {
namespace {

constexpr std::string_view space_mark = "\u2581";

std::string with_spaces(const std::string& spelling) {
    std::string text;
    for (size_t i = 0; i < spelling.size();) {
        if (spelling.compare(i, space_mark.size(), space_mark) == 0) {
            text += ' ';
            i += space_mark.size();
        } else {
            text += spelling[i++];
        }
    }
    return text;
}

/// The byte of a piece such as "<0xE2>", or -1.
int byte_of(const std::string& spelling) {
    if (spelling.size() != 6 || spelling.rfind("<0x", 0) != 0 || spelling.back() != '>') return -1;
    char* end = nullptr;
    const long byte = std::strtol(spelling.c_str() + 3, &end, 16);
    return end == spelling.c_str() + 5 ? static_cast<int>(byte) : -1;
}

bool is_control(const std::string& spelling) {
    return spelling.size() > 2 && spelling.front() == '<' && spelling.back() == '>';
}

bool is_mark(char32_t character) {
    if (character < 0x80) return std::string_view("!\"'(),-.:;?[]{}").find(static_cast<char>(character)) != std::string_view::npos;
    return (character >= 0x2010 && character <= 0x2027) || (character >= 0x3001 && character <= 0x3011) ||
           std::u32string_view(U"¡«·»¿。！，．：；？՞؟،؛।॥").find(character) != std::u32string_view::npos;
}

}  // namespace

SentencePieces::SentencePieces(const std::vector<std::string>& pieces, std::vector<float> scores, int blank) {
    if (!scores.empty() && scores.size() != pieces.size()) {
        throw BadModel("tokenizer: " + std::to_string(pieces.size()) + " pieces, but " + std::to_string(scores.size()) +
                       " scores");
    }
    if (blank < 0 || static_cast<size_t>(blank) >= pieces.size()) {
        throw BadModel("tokenizer: blank is " + std::to_string(blank) + ", which is not in the vocabulary");
    }
    // Of a model trained by merging pairs the scores are minus the merges' ranks; log-probabilities are no whole numbers.
    byte_pairs_ = std::any_of(scores.begin(), scores.end(), [](float score) { return score != 0; }) &&
                  std::all_of(scores.begin(), scores.end(), [](float score) { return score == std::floor(score); });
    for (size_t id = 0; id < pieces.size(); ++id) {
        const std::string& spelling = pieces[id];
        Piece piece{"", Kind::control, scores.empty() ? -1.0f : scores[id]};
        if (const int byte = byte_of(spelling); byte >= 0) {
            piece.text = static_cast<char>(byte);
            piece.kind = Kind::word_part;
        } else if (spelling == "<EOU>" || spelling == "<EOB>") {
            piece.kind = Kind::end_of_utterance;
        } else if (static_cast<int>(id) != blank && !is_control(spelling) && !spelling.empty()) {
            piece.text = with_spaces(spelling);
            const std::u32string characters = decode_utf8(piece.text);
            piece.kind = characters.front() == ' '                                             ? Kind::word_start
                         : std::all_of(characters.begin(), characters.end(), is_mark) ? Kind::punctuation
                                                                                               : Kind::word_part;
            ids_.emplace(piece.text, static_cast<int>(id));
            longest_ = std::max(longest_, piece.text.size());
        }
        pieces_.push_back(std::move(piece));
    }
}

const SentencePieces::Piece& SentencePieces::piece(int id) const {
    if (id < 0 || static_cast<size_t>(id) >= pieces_.size()) {
        throw BadArgument("token " + std::to_string(id) + " is not in the vocabulary");
    }
    return pieces_[static_cast<size_t>(id)];
}

std::vector<int> SentencePieces::encode(std::string_view text) const {
    std::vector<int> ids;
    std::string word;
    const auto end_word = [&] {
        const bool spelled = word.empty() || (byte_pairs_ ? merge(word, ids) : segment(word, ids));
        word.clear();
        return spelled;
    };
    for (size_t offset = 0; offset < text.size();) {
        const Utf8Character character = utf8_character(text, offset);
        if (is_space(character.code_point)) {
            if (!end_word()) return {};
        } else {
            if (word.empty()) word = " ";
            word += text.substr(offset, character.bytes);
        }
        offset += character.bytes;
    }
    return end_word() ? ids : std::vector<int>();
}

/// Joins the neighbours whose union has the best score, leftmost first, until no union is a piece.
bool SentencePieces::merge(const std::string& word, std::vector<int>& out) const {
    std::vector<std::string> parts;
    for (size_t offset = 0; offset < word.size();) {
        const size_t bytes = utf8_character(word, offset).bytes;
        parts.push_back(word.substr(offset, bytes));
        offset += bytes;
    }
    while (true) {
        size_t best = parts.size();
        float best_score = 0;
        for (size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = ids_.find(parts[i] + parts[i + 1]);
            if (found == ids_.end()) continue;
            const float score = pieces_[found->second].score;
            if (best < parts.size() && score <= best_score) continue;
            best = i;
            best_score = score;
        }
        if (best == parts.size()) break;
        parts[best] += parts[best + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    for (const std::string& part : parts) {
        const auto found = ids_.find(part);
        if (found == ids_.end()) return false;
        out.push_back(found->second);
    }
    return true;
}

/// The segmentation with the greatest sum of scores (Viterbi's algorithm over the bytes).
bool SentencePieces::segment(const std::string& word, std::vector<int>& out) const {
    constexpr float never = -std::numeric_limits<float>::infinity();
    std::vector<float> best(word.size() + 1, never);
    std::vector<int> last(word.size() + 1, -1);
    best[0] = 0;
    for (size_t begin = 0; begin < word.size(); ++begin) {
        if (best[begin] == never) continue;
        for (size_t length = 1; length <= std::min(longest_, word.size() - begin); ++length) {
            const auto found = ids_.find(word.substr(begin, length));
            if (found == ids_.end()) continue;
            const float score = best[begin] + pieces_[found->second].score;
            if (score <= best[begin + length]) continue;
            best[begin + length] = score;
            last[begin + length] = found->second;
        }
    }
    if (last[word.size()] < 0) return false;
    std::vector<int> reversed;
    for (size_t end = word.size(); end > 0; end -= pieces_[reversed.back()].text.size()) reversed.push_back(last[end]);
    out.insert(out.end(), reversed.rbegin(), reversed.rend());
    return true;
}

}  // namespace stenod
