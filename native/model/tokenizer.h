#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stenod {

using TokenId = int32_t;

/// A run of tokens that is one word, with its punctuation.
struct Word {
    std::string text;    ///< bytes of its tokens, leading space included
    size_t first_token;  ///< index into the tokens that were split
    size_t token_count;
};

/// Byte-pair encoding with GPT-2's byte alphabet and splitting pattern; a token's id is its merge rank
/// (as in tiktoken). Immutable, may be used from many threads.
class Tokenizer {
public:
    /// `tokens`: spelled in the byte alphabet; ids from `first_special` on are special: they have no text and are
    /// never made by `encode`. Throws BadModel if a spelling is not of that alphabet or a byte has no token.
    Tokenizer(const std::vector<std::string>& tokens, TokenId first_special);

    /// Number of tokens, special ones included.
    size_t size() const { return bytes_.size(); }

    bool is_special(TokenId id) const { return id >= first_special_; }

    /// The token's bytes: perhaps part of a UTF-8 sequence; empty for special tokens. Throws BadArgument if `id` is none.
    const std::string& bytes(TokenId id) const;

    /// The bytes of all tokens, joined.
    std::string decode(const std::vector<TokenId>& ids) const;

    /// Text (UTF-8; malformed bytes are kept as they are) to tokens. Names of special tokens are ordinary text.
    std::vector<TokenId> encode(std::string_view text) const;

    /// Whether the token's text begins with a space: in languages with spaces, a new word.
    bool is_word_start(TokenId id) const;

    /// Splits tokens into words as OpenAI's word timing does: at spaces and punctuation, or, in languages
    /// written without spaces (`language` zh, ja, th, lo, my, yue), at every whole character; then quotes and brackets
    /// are joined to the word that they belong to. Special tokens belong to no word and end the one before.
    std::vector<Word> split_words(const std::vector<TokenId>& ids, std::string_view language) const;

private:
    void merge_pairs(std::string_view piece, std::vector<TokenId>& out) const;

    std::vector<std::string> bytes_;
    std::unordered_map<std::string_view, TokenId> ids_;  ///< views into bytes_
    TokenId first_special_;
};

}  // namespace stenod
