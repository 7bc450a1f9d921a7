#pragma once

#include <cstdint>
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
  ImageSource(const ImageSource&) = default;
  ImageSource(ImageSource&&) = default;
  ImageSource& operator=(const ImageSource&) = default;
  ImageSource& operator=(ImageSource&&) = default;

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

}  // namespace images
