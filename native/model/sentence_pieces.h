#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stenod {

/// A SentencePiece vocabulary: pieces to text, and text to pieces. Immutable, may be used from many threads.
class SentencePieces {
public:
    /// `pieces` as SentencePiece spells them ("▁" for a space), `scores` for each of them or none at all, `blank` the id of
    /// the one that stands for nothing. Throws BadModel where their numbers differ.
    SentencePieces(const std::vector<std::string>& pieces, std::vector<float> scores, int blank);

    /// Number of pieces, blank included.
    size_t size() const { return pieces_.size(); }

    /// The piece's text, with spaces; of a byte piece ("<0xE2>") that byte; nothing for control pieces and blank.
    /// Throws BadArgument if `id` is not in the vocabulary.
    const std::string& bytes(int id) const { return piece(id).text; }

    /// Whether the piece's text begins with a space.
    bool is_word_start(int id) const { return piece(id).kind == Kind::word_start; }
    /// Whether the piece carries on a word before it: it begins with a letter, number or mark.
    bool continues_word(int id) const { return piece(id).kind == Kind::word_part; }
    /// Whether it is nothing but punctuation marks, without a space before them.
    bool is_punctuation(int id) const { return piece(id).kind == Kind::punctuation; }
    /// Whether it tells that the speaker has finished ("<EOU>"), or made a remark that wants no answer ("<EOB>").
    bool is_end_of_utterance(int id) const { return piece(id).kind == Kind::end_of_utterance; }

    /// Words to pieces as SentencePiece does it: by merges in the order of their scores (a byte-pair model: the scores are
    /// 0, -1, -2, ...), or by the most probable segmentation (a unigram model's scores are log-probabilities); without
    /// scores by the fewest pieces. White space separates words. Empty if a character is not in the vocabulary.
    std::vector<int> encode(std::string_view text) const;

private:
    enum class Kind { word_start, word_part, punctuation, control, end_of_utterance };
    struct Piece {
        std::string text;
        Kind kind;
        float score;
    };

    const Piece& piece(int id) const;
    bool merge(const std::string& word, std::vector<int>& out) const;
    bool segment(const std::string& word, std::vector<int>& out) const;

    std::vector<Piece> pieces_;
    std::unordered_map<std::string, int> ids_;  ///< by text, of those that have one
    size_t longest_ = 0;                        ///< bytes
    bool byte_pairs_ = false;
};

}  // namespace stenod
