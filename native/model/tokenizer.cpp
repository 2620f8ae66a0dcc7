#include "tokenizer.h"

#include <array>
#include <queue>
#include <utility>

#include "../errors.h"
#include "unicode.h"

namespace stenod {
namespace {

/// GPT-2's byte alphabet: printable bytes of Latin-1 are spelled as themselves, the others, in order, as U+0100 on.
/// Bytes by code point; -1: not of the alphabet.
std::array<int, 512> make_byte_alphabet() {
    std::array<int, 512> alphabet;
    alphabet.fill(-1);
    size_t next = 256;
    for (size_t byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        alphabet[printable ? byte : next++] = static_cast<int>(byte);
    }
    return alphabet;
}

std::string spelled_bytes(const std::string& token, size_t id) {
    static const std::array<int, 512> alphabet = make_byte_alphabet();
    std::string bytes;
    for (const char32_t character : decode_utf8(token)) {
        if (character >= alphabet.size() || alphabet[character] < 0)
            throw BadModel("tokenizer: token " + std::to_string(id) + " is not spelled in GPT-2's byte alphabet");
        bytes.push_back(static_cast<char>(alphabet[character]));
    }
    return bytes;
}

enum class CharacterClass { letter, number, space, other };

CharacterClass class_at(std::string_view text, size_t offset) {
    const char32_t character = utf8_character(text, offset).code_point;
    if (is_letter(character)) return CharacterClass::letter;
    if (is_number(character)) return CharacterClass::number;
    return is_space(character) ? CharacterClass::space : CharacterClass::other;
}

/// Where the piece of `text` that begins at `begin` ends, by GPT-2's pattern:
/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t piece_end(std::string_view text, size_t begin) {
    for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
        if (text.substr(begin, contraction.size()) == contraction) return begin + contraction.size();

    const bool leading_space = text[begin] == ' ' && begin + 1 < text.size() &&
                               class_at(text, begin + 1) != CharacterClass::space;
    size_t end = leading_space ? begin + 1 : begin;
    const CharacterClass run = class_at(text, end);
    size_t last = end;
    while (end < text.size() && class_at(text, end) == run) {
        last = end;
        end += utf8_character(text, end).bytes;
    }
    // Of spaces before a word, the last is left to the word.
    return run == CharacterClass::space && end < text.size() && last > begin ? last : end;
}

}  // namespace

Tokenizer::Tokenizer(const std::vector<std::string>& tokens, TokenId first_special) : first_special_(first_special) {
    if (first_special < 0 || static_cast<size_t>(first_special) > tokens.size())
        throw BadModel("tokenizer: first special token " + std::to_string(first_special) + " is not in the vocabulary");
    bytes_.resize(tokens.size());
    ids_.reserve(tokens.size());
    for (TokenId id = 0; id < first_special; ++id) {
        std::string& bytes = bytes_[static_cast<size_t>(id)];
        bytes = spelled_bytes(tokens[static_cast<size_t>(id)], static_cast<size_t>(id));
        if (!bytes.empty()) ids_.emplace(bytes, id);
    }
    for (int byte = 0; byte < 256; ++byte) {
        const char character = static_cast<char>(byte);
        if (ids_.count({&character, 1}) == 0)
            throw BadModel("tokenizer: the vocabulary has no token for byte " + std::to_string(byte));
    }
}

const std::string& Tokenizer::bytes(TokenId id) const {
    if (id < 0 || static_cast<size_t>(id) >= bytes_.size())
        throw BadArgument("token " + std::to_string(id) + " is not in the vocabulary");
    return bytes_[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(const std::vector<TokenId>& ids) const {
    std::string text;
    for (const TokenId id : ids) text += bytes(id);
    return text;
}

bool Tokenizer::is_word_start(TokenId id) const { return bytes(id).rfind(' ', 0) == 0; }

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
    std::vector<TokenId> ids;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = piece_end(text, begin);
        merge_pairs(text.substr(begin, end - begin), ids);
        begin = end;
    }
    return ids;
}

/// Joins the neighbours whose union has the lowest id, leftmost first, until no union is a token.
void Tokenizer::merge_pairs(std::string_view piece, std::vector<TokenId>& out) const {
    if (const auto whole = ids_.find(piece); whole != ids_.end()) {
        out.push_back(whole->second);
        return;
    }
    // A part is known by where it begins; it ends where the next begins. Merged parts have length 0.
    struct Union {
        TokenId id;
        size_t begin;
        size_t end;
        bool operator<(const Union& other) const { return std::pair(id, begin) > std::pair(other.id, other.begin); }
    };
    std::priority_queue<Union> unions;
    std::vector<size_t> length(piece.size(), 1);
    std::vector<size_t> previous(piece.size() + 1);
    const auto propose = [&](size_t begin) {
        const size_t middle = begin + length[begin];
        if (middle == piece.size()) return;
        const size_t end = middle + length[middle];
        if (const auto found = ids_.find(piece.substr(begin, end - begin)); found != ids_.end())
            unions.push({found->second, begin, end});
    };
    for (size_t i = 0; i < piece.size(); ++i) {
        previous[i + 1] = i;
        propose(i);
    }
    while (!unions.empty()) {
        const Union best = unions.top();
        unions.pop();
        const size_t middle = best.begin + length[best.begin];
        const bool outdated = length[best.begin] == 0 || middle >= best.end || middle + length[middle] != best.end;
        if (outdated) continue;
        length[middle] = 0;
        length[best.begin] = best.end - best.begin;
        previous[best.end] = best.begin;
        propose(best.begin);
        if (best.begin > 0) propose(previous[best.begin]);
    }
    for (size_t i = 0; i < piece.size(); i += length[i]) out.push_back(ids_.at(piece.substr(i, length[i])));
}

}  // namespace stenod
