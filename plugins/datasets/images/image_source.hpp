#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace images {

/// Sizes of the images of a file.
struct ImageSize {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  [[nodiscard]] std::int64_t pixels() const { return channels * height * width; }
  bool operator==(const ImageSize&) const = default;
};

/// Images of one byte a value, each row-major over [channels height width], and their labels. Thread-safe.
class ImageSource {
 public:
  ImageSource() = default;
  virtual ~ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;

  /// The file or folder, for messages.
  [[nodiscard]] virtual std::string path() const = 0;
  [[nodiscard]] virtual std::int64_t count() const = 0;
  [[nodiscard]] virtual ImageSize size() const = 0;
  /// \throws RuntimeError that names the file if it is damaged.
  virtual void read_pixels(std::int64_t index, std::uint8_t* destination) const = 0;
  /// \throws RuntimeError with the place if the label is not below `classes`.
  [[nodiscard]] virtual std::int32_t read_label(std::int64_t index, std::int64_t classes) const = 0;
  /// Text that changes if the content changes.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
};

using Source = std::shared_ptr<const ImageSource>;

// These throw ConfigurationError that names the file or folder if it is damaged or has other contents.

/// Opens a binary file of CIFAR-10: for each image a byte with its label and 3 · 32 · 32 bytes.
[[nodiscard]] Source open_cifar10(const std::string& path);

/// Opens two files in MNIST's format IDX, with big-endian headers: images (magic 0x803, then count, height and width)
/// and labels (magic 0x801, then count).
[[nodiscard]] Source open_mnist(const std::string& images, const std::string& labels);

/// Opens a folder with a folder of PNG and JPEG files for each of `classes`. Classes have numbers in the order of the
/// folders' names. Images are read as `size`, in RGB: the largest part in the middle that has its proportions,
/// resampled with a triangle filter.
[[nodiscard]] Source open_folder(const std::string& path, const ImageSize& size, std::int64_t classes);

}  // namespace images
