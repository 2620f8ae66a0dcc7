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
    /// `pieces` as SentencePiece spells them ("▁" for a space), `scores` of each or empty, `blank` the id of a last piece that
    /// stands for none. Throws BadModel where their numbers differ.
    SentencePieces(const std::vector<std::string>& pieces, std::vector<float> scores, int blank);

    SentencePieces(SentencePieces&&) = default;
    SentencePieces(const SentencePieces&) = delete;

    /// Number of pieces, blank included.
    size_t size() const { return text_.size(); }

    /// The piece's text, with spaces; of a byte piece (<0xE2>) that byte; empty for control pieces and blank.
    /// Throws BadArgument if `id` is not in the vocabulary.
    const std::string& bytes(int id) const;

    /// Whether the piece's text begins with a space.
    bool is_word_start(int id) const;
    /// Whether it consists of punctuation marks.
    bool is_punctuation(int id) const;
    /// An end-of-utterance piece of the realtime models (<EOU>, <EOB>).
    bool is_end_of_utterance(int id) const;

    /// Text as words to pieces: by SentencePiece's own merges (scores of a byte-pair model), by the most probable
    /// segmentation (a unigram model's), or by longest match where there are no scores. Empty if it cannot be spelled.
    std::vector<int> encode(std::string_view text) const;

private:
    std::vector<std::string> text_;
    std::vector<float> scores_;
    std::unordered_map<std::string, int> ids_;
};

}  // namespace stenod
