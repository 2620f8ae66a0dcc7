#include "words.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "unicode.h"

namespace stenod {
namespace {

// Membership is a substring test in OpenAI's code, so "" and ".。" are members too.
constexpr std::string_view punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view opening = "\"'“¡¿([{-";
constexpr std::string_view closing = "\"'.。,，!！?？:：”)]}、";
constexpr std::array<std::string_view, 6> unspaced_languages = {"zh", "ja", "th", "lo", "my", "yue"};

bool is_in(std::string_view text, std::string_view set) { return set.find(text) != set.npos; }

bool begins_with_space(const Word& word) { return word.text.rfind(' ', 0) == 0; }

std::string_view stripped(std::string_view text) {
    size_t begin = text.size();
    size_t end = text.size();
    for (size_t offset = 0; offset < text.size();) {
        const Utf8Character character = utf8_character(text, offset);
        if (!is_space(character.code_point)) {
            begin = std::min(begin, offset);
            end = offset + character.bytes;
        }
        offset += character.bytes;
    }
    return text.substr(begin, end - begin);
}

/// `first` takes the tokens of `second`, which follow its own.
void append(Word& first, const Word& second) {
    if (first.token_count == 0) first.first_token = second.first_token;
    first.text += second.text;
    first.token_count += second.token_count;
}

/// Quotes and brackets go to the word after or before them.
void merge_punctuation(std::vector<Word>& words) {
    for (size_t i = words.size(), following = words.size(); i-- > 0;) {
        const bool opens = begins_with_space(words[i]) && is_in(stripped(words[i].text), opening);
        if (opens && following < words.size()) {
            append(words[i], words[following]);
            std::swap(words[i], words[following]);
            words[i] = {};
        } else {
            following = i;
        }
    }
    for (size_t i = 1, before = 0; i < words.size(); ++i) {
        const bool spaced = !words[before].text.empty() && words[before].text.back() == ' ';
        if (!spaced && is_in(words[i].text, closing)) {
            append(words[before], words[i]);
            words[i] = {};
        } else {
            before = i;
        }
    }
    words.erase(std::remove_if(words.begin(), words.end(), [](const Word& word) { return word.token_count == 0; }),
                words.end());
}

/// ids[begin, end), text tokens all, in parts of as few tokens as make whole characters.
std::vector<Word> split_characters(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, size_t begin,
                                   size_t end) {
    std::string text;
    for (size_t i = begin; i < end; ++i) text += tokenizer.bytes(ids[i]);

    std::vector<Word> parts;
    Word part{"", begin, 0};
    size_t spelled = 0;
    size_t character_end = 0;
    for (size_t i = begin; i < end; ++i) {
        const std::string& bytes = tokenizer.bytes(ids[i]);
        part.text += bytes;
        ++part.token_count;
        spelled += bytes.size();
        while (character_end < spelled) character_end += utf8_character(text, character_end).bytes;
        if (character_end > spelled) continue;
        parts.push_back(std::move(part));
        part = {"", i + 1, 0};
    }
    return parts;
}

}  // namespace

std::vector<Word> split_words(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                              std::string_view language) {
    const auto& unspaced = unspaced_languages;
    const bool spaced = std::find(unspaced.begin(), unspaced.end(), language) == unspaced.end();
    std::vector<Word> all;
    for (size_t begin = 0; begin < ids.size(); ++begin) {
        size_t end = begin;
        while (end < ids.size() && !tokenizer.is_special(ids[end])) ++end;
        std::vector<Word> words;
        for (Word& part : split_characters(tokenizer, ids, begin, end)) {
            const bool starts = !spaced || words.empty() || begins_with_space(part) ||
                                is_in(stripped(part.text), punctuation);
            if (starts)
                words.push_back(std::move(part));
            else
                append(words.back(), part);
        }
        merge_punctuation(words);
        std::move(words.begin(), words.end(), std::back_inserter(all));
        begin = end;
    }
    return all;
}

bool is_closing_punctuation(std::string_view text) {
    const std::string_view marks = stripped(text);
    for (size_t offset = 0; offset < marks.size();) {
        const Utf8Character mark = utf8_character(marks, offset);
        if (mark.code_point == replacement_character || !is_in(marks.substr(offset, mark.bytes), closing)) return false;
        offset += mark.bytes;
    }
    return !marks.empty();
}

}  // namespace stenod
