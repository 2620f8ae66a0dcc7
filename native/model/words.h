#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer.h"

namespace stenod {

/// A run of tokens that is one word, with its punctuation.
struct Word {
    std::string text;         ///< bytes of its tokens, leading space included
    size_t first_token = 0;   ///< index into the tokens that were split
    size_t token_count = 0;
};

/// Splits tokens into words as OpenAI's word timing does: at spaces and punctuation, or, in languages written
/// without spaces (`language` zh, ja, th, lo, my, yue), at every whole character; then quotes, brackets and
/// punctuation marks are joined to the word that they belong to. Special tokens belong to no word and end the one
/// before. Throws BadArgument if an id is not in the vocabulary.
std::vector<Word> split_words(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, std::string_view language);

/// Whether a text holds nothing but marks that close a word or a sentence (and spaces).
bool is_closing_punctuation(std::string_view text);

}  // namespace stenod
