#include "alignment.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "../errors.h"

namespace stenod::whisper {
namespace {

constexpr size_t filter_width = 7;
constexpr size_t filter_reach = filter_width / 2;

/// Subtracts from each column of [rows][columns] its mean over the rows and divides by its standard deviation.
/// A column without any variation says nothing: it becomes 0.
void normalise_columns(std::vector<float>& matrix, size_t rows, size_t columns) {
    std::vector<double> mean(columns), variance(columns);
    for (size_t row = 0; row < rows; ++row)
        for (size_t column = 0; column < columns; ++column)
            mean[column] += matrix[row * columns + column] / static_cast<double>(rows);
    for (size_t row = 0; row < rows; ++row)
        for (size_t column = 0; column < columns; ++column) {
            const double difference = matrix[row * columns + column] - mean[column];
            variance[column] += difference * difference / static_cast<double>(rows);
        }
    for (size_t row = 0; row < rows; ++row)
        for (size_t column = 0; column < columns; ++column) {
            float& value = matrix[row * columns + column];
            const double deviation = std::sqrt(variance[column]);
            value = deviation > 0.0 ? static_cast<float>((value - mean[column]) / deviation) : 0.0f;
        }
}

/// The median of seven values by compare-and-exchange: no branches, so that the compiler does several at once.
inline float median(const float* values) {
    constexpr size_t exchanges[][2] = {{0, 5}, {0, 3}, {1, 6}, {2, 4}, {0, 1}, {3, 5}, {2, 6},
                                       {2, 3}, {3, 6}, {4, 5}, {1, 4}, {1, 3}, {3, 4}};
    float v[filter_width];
    std::copy(values, values + filter_width, v);
    for (const auto& [low, high] : exchanges) {
        const float least = std::min(v[low], v[high]);
        v[high] = std::max(v[low], v[high]);
        v[low] = least;
    }
    return v[filter_reach];
}

/// Adds `row`, median-filtered with its ends mirrored, to `sum`; a row no longer than the filter's reach, as it is.
void add_filtered(const float* row, size_t count, float* sum, std::vector<float>& padded) {
    if (count <= filter_reach) {
        for (size_t i = 0; i < count; ++i) sum[i] += row[i];
        return;
    }
    padded.resize(count + 2 * filter_reach);
    std::copy(row, row + count, padded.begin() + filter_reach);
    for (size_t i = 1; i <= filter_reach; ++i) {
        padded[filter_reach - i] = row[i];
        padded[filter_reach + count - 1 + i] = row[count - 1 - i];
    }
    for (size_t i = 0; i < count; ++i) sum[i] += median(&padded[i]);
}

/// [rows][frames]: how much each row looks at each frame, averaged over the heads.
std::vector<float> mean_attention(const AttentionView& attention) {
    std::vector<float> sum(attention.rows * attention.frames);
    std::vector<float> head(attention.rows * attention.frames);
    std::vector<float> padded;
    for (size_t index = 0; index < attention.heads; ++index) {
        for (size_t row = 0; row < attention.rows; ++row) {
            const float* source = attention.weights + (index * attention.rows + row) * attention.row_stride;
            std::copy(source, source + attention.frames, &head[row * attention.frames]);
        }
        normalise_columns(head, attention.rows, attention.frames);
        for (size_t row = 0; row < attention.rows; ++row)
            add_filtered(&head[row * attention.frames], attention.frames, &sum[row * attention.frames], padded);
    }
    for (float& value : sum) value /= static_cast<float>(attention.heads);
    return sum;
}

enum Step : uint8_t { diagonal, next_row, next_frame };

/// The first frame of each row on the path of greatest sum from the first row and frame to the last ones.
std::vector<size_t> first_frames(const std::vector<float>& matrix, size_t rows, size_t frames) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::vector<Step> steps(rows * frames);
    std::vector<float> above(frames + 1, infinity), costs(frames + 1);  // with a column before the first frame
    above[0] = 0.0f;
    for (size_t row = 0; row < rows; ++row) {
        costs[0] = infinity;
        for (size_t frame = 0; frame < frames; ++frame) {
            const float from_diagonal = above[frame];
            const float from_row = above[frame + 1];
            const float from_frame = costs[frame];
            Step step = next_frame;
            float cost = from_frame;
            if (from_diagonal < from_row && from_diagonal < from_frame) {
                step = diagonal;
                cost = from_diagonal;
            } else if (from_row < from_diagonal && from_row < from_frame) {
                step = next_row;
                cost = from_row;
            }
            costs[frame + 1] = cost - matrix[row * frames + frame];
            steps[row * frames + frame] = step;
        }
        above.swap(costs);
    }

    std::vector<size_t> first(rows);
    for (size_t row = rows - 1, frame = frames - 1;;) {
        first[row] = frame;
        if (row == 0 && frame == 0) return first;
        const Step step = row == 0 ? next_frame : frame == 0 ? next_row : steps[row * frames + frame];
        if (step != next_row) --frame;
        if (step != next_frame) --row;
    }
}

}  // namespace

std::vector<TokenTime> token_times(const AttentionView& attention) {
    if (attention.heads == 0 || attention.row_stride < attention.frames)
        throw BadArgument("alignment: " + std::to_string(attention.heads) + " heads, rows of " +
                          std::to_string(attention.row_stride) + " weights for " + std::to_string(attention.frames) +
                          " frames");
    if (attention.rows == 0 || attention.frames == 0) return std::vector<TokenTime>(attention.rows, {0.0f, 0.0f});
    const std::vector<size_t> first = first_frames(mean_attention(attention), attention.rows, attention.frames);
    const auto seconds = [](size_t frame) { return static_cast<float>(static_cast<double>(frame) * frame_seconds); };
    std::vector<TokenTime> times;
    for (size_t row = 0; row < first.size(); ++row)
        times.push_back({seconds(first[row]), seconds(row + 1 < first.size() ? first[row + 1] : attention.frames)});
    return times;
}

}  // namespace stenod::whisper
