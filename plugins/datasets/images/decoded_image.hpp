#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace images {

/// Says what is wrong with the bytes of an image.
class DecodingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Pixels of three bytes, row by row.
struct DecodedImage {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> rgb;
};

/// Decodes a PNG or a JPEG. Gray becomes RGB, and what is transparent becomes black. \throws DecodingError if the bytes
/// are neither, or damaged.
[[nodiscard]] DecodedImage decode(std::span<const std::uint8_t> bytes);

/// Writes the largest part in the middle of the image that has the proportions of height x width as [3 height width],
/// resampled with a triangle filter. An image of that size is written as it is.
void resample(const DecodedImage& image, std::int64_t height, std::int64_t width, std::uint8_t* destination);

}  // namespace images
