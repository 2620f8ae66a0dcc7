#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stenod {

using TokenId = int32_t;

/// Byte-pair encoding with GPT-2's byte alphabet and splitting pattern; a token's id is its merge rank
/// (as in tiktoken). Immutable, may be used from many threads.
class Tokenizer {
public:
    /// `tokens`: spelled in the byte alphabet; ids from `first_special` on are special: they have no text and are
    /// never made by `encode`. Throws BadModel if a spelling is not of that alphabet or a byte has no token.
    Tokenizer(const std::vector<std::string>& tokens, TokenId first_special);

    Tokenizer(Tokenizer&&) = default;
    Tokenizer(const Tokenizer&) = delete;  // ids_ looks into bytes_

    /// Number of tokens, special ones included.
    size_t size() const { return bytes_.size(); }

    bool is_special(TokenId id) const { return id >= first_special_; }

    /// The token's bytes: perhaps part of a UTF-8 sequence; empty for special tokens. Throws BadArgument if `id` is
    /// not in the vocabulary.
    const std::string& bytes(TokenId id) const;

    /// The bytes of all tokens, joined.
    std::string decode(const std::vector<TokenId>& ids) const;

    /// Text (UTF-8; malformed bytes are kept as they are) to tokens. Names of special tokens are ordinary text.
    std::vector<TokenId> encode(std::string_view text) const;

    /// Whether the token's text begins with a space: in languages with spaces, a new word.
    bool is_word_start(TokenId id) const;

private:
    void merge_pairs(std::string_view piece, std::vector<TokenId>& out) const;

    std::vector<std::string> bytes_;
    std::unordered_map<std::string_view, TokenId> ids_;  ///< views into bytes_
    TokenId first_special_;
};

}  // namespace stenod
