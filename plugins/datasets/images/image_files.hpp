#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "image_source.hpp"
#include "strata/data_file.hpp"

namespace images {

/// Images that lie one after another in a file, and their labels of one byte.
struct ImageFile final : ImageSource {
  std::shared_ptr<const strata::DataFile> pixels;
  std::shared_ptr<const strata::DataFile> labels;
  std::int64_t images = 0;
  ImageSize image_size;
  /// First byte of image 0 and of its label, and bytes from one to the next.
  std::int64_t first_pixel = 0;
  std::int64_t pixel_stride = 0;
  std::int64_t first_label = 0;
  std::int64_t label_stride = 0;

  [[nodiscard]] std::string path() const override { return pixels->path().string(); }
  [[nodiscard]] std::int64_t count() const override { return images; }
  [[nodiscard]] ImageSize size() const override { return image_size; }
  void read_pixels(std::int64_t index, std::uint8_t* destination) const override;
  [[nodiscard]] std::int32_t read_label(std::int64_t index, std::int64_t classes) const override;
  [[nodiscard]] std::string fingerprint() const override;
};

/// Opens a binary file of CIFAR-10: for each image a byte with its label and 3 · 32 · 32 bytes. \throws
/// ConfigurationError that names the file if it is damaged.
[[nodiscard]] ImageFile open_cifar10(const std::string& path);

/// Opens two files in MNIST's format IDX, with big-endian headers: images (magic 0x803, then count, height and width)
/// and labels (magic 0x801, then count). \throws ConfigurationError that names the file if it is damaged.
[[nodiscard]] ImageFile open_mnist(const std::string& images, const std::string& labels);

}  // namespace images
