#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::testing {

/// A number of four bytes, big-endian.
inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes += static_cast<char>(number >> shift & 0xFFU);
  return bytes;
}

/// Value of a pixel of image `image`: a pattern of its class, and noise.
inline std::uint8_t pixel(int image, int label, int channel, int y, int x) {
  const int pattern = (label * 37 + channel * 11 + (y / 4) * (label + 1) * 5 + (x / 4) * 3 * label) % 160;
  const int noise = (image * 7919 + channel * 104729 + y * 1299709 + x * 15485863) % 60;
  return static_cast<std::uint8_t>(20 + pattern + noise);
}

/// A file in the format of CIFAR-10, with ten classes in turn that a model can tell apart.
inline std::string cifar10_file(int first, int count) {
  std::string bytes;
  for (int image = first; image < first + count; ++image) {
    const int label = image % 10;
    bytes += static_cast<char>(label);
    for (int channel = 0; channel < 3; ++channel) {
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) bytes += static_cast<char>(pixel(image, label, channel, y, x));
      }
    }
  }
  return bytes;
}

/// Two files in the format of MNIST.
struct MnistFiles {
  std::string images;
  std::string labels;
};

inline MnistFiles mnist_files(int count, int height, int width) {
  const auto size = [](int number) { return big_endian(static_cast<std::uint32_t>(number)); };
  MnistFiles files{big_endian(0x803) + size(count) + size(height) + size(width), big_endian(0x801) + size(count)};
  for (int image = 0; image < count; ++image) {
    files.labels += static_cast<char>(image % 10);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) files.images += static_cast<char>(pixel(image, image % 10, 0, y, x));
    }
  }
  return files;
}

}  // namespace strata::testing
