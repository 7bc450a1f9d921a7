#include <array>
#include <limits>

#include "image_source.hpp"
#include "strata/data_file.hpp"
#include "strata/error.hpp"

namespace images {
namespace {

using namespace strata;

constexpr ImageSize kCifar10{3, 32, 32};
constexpr std::uint32_t kImages = 0x803;
constexpr std::uint32_t kLabels = 0x801;
/// Limit of an image's height and width, so that their product cannot overflow.
constexpr std::int64_t kLargestSide = 1 << 16;

[[noreturn]] void refuse(const DataFile& file, const std::string& found, const std::string& accepted) {
  throw ConfigurationError("'" + file.path().string() + "': found " + found + "; accepted: " + accepted);
}

/// The big-endian numbers at the beginning of a file.
template <std::size_t N>
std::array<std::int64_t, N> read_header(const DataFile& file, std::uint32_t magic, const std::string& kind) {
  if (file.bytes() < std::int64_t{4 * N}) {
    refuse(file, std::to_string(file.bytes()) + " bytes",
           "an IDX file of " + kind + ", whose header has " + std::to_string(4 * N) + " bytes");
  }
  std::array<std::uint8_t, 4 * N> bytes{};
  file.read(0, std::ssize(bytes), bytes.data());
  std::array<std::int64_t, N> numbers{};
  for (std::size_t i = 0; i < bytes.size(); ++i) numbers[i / 4] = numbers[i / 4] << 8 | bytes[i];
  if (numbers[0] != magic) {
    refuse(file, "magic " + std::to_string(numbers[0]),
           std::to_string(magic) + ", an IDX file of " + kind + " of one byte a value, not compressed");
  }
  return numbers;
}

void require_bytes(const DataFile& file, std::int64_t bytes, const std::string& announced) {
  if (file.bytes() == bytes) return;
  refuse(file, std::to_string(file.bytes()) + " bytes",
         std::to_string(bytes) + ", since its header announces " + announced);
}

/// Images that lie one after another in a file, and their labels of one byte.
struct ImageFile final : ImageSource {
  std::shared_ptr<const DataFile> pixels;
  std::shared_ptr<const DataFile> labels;
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
  void read_pixels(std::int64_t index, std::uint8_t* destination) const override {
    pixels->read(first_pixel + index * pixel_stride, image_size.pixels(), destination);
  }

  [[nodiscard]] std::int32_t read_label(std::int64_t index, std::int64_t classes) const override {
    std::uint8_t label = 0;
    const std::int64_t offset = first_label + index * label_stride;
    labels->read(offset, 1, &label);
    if (label < classes) return label;
    throw RuntimeError("'" + labels->path().string() + "': found label " + std::to_string(label) + " of image " +
                       std::to_string(index) + " at byte " + std::to_string(offset) + "; expected: labels from 0 to " +
                       std::to_string(classes - 1));
  }

  [[nodiscard]] std::string fingerprint() const override {
    std::string text = strata::fingerprint({pixels.get(), 1});
    if (labels != pixels) text += " " + strata::fingerprint({labels.get(), 1});
    return text;
  }
};

}  // namespace

Source open_cifar10(const std::string& path) {
  const auto made = std::make_shared<ImageFile>();
  ImageFile& file = *made;
  file.pixels = std::make_shared<const DataFile>(path);
  file.labels = file.pixels;
  file.image_size = kCifar10;
  const std::int64_t record = 1 + kCifar10.pixels();
  if (file.pixels->bytes() % record != 0) {
    refuse(*file.pixels, std::to_string(file.pixels->bytes()) + " bytes",
           "a multiple of " + std::to_string(record) + ", which is a label and an image of CIFAR-10");
  }
  file.images = file.pixels->bytes() / record;
  file.first_pixel = 1;
  file.pixel_stride = record;
  file.label_stride = record;
  return made;
}

Source open_mnist(const std::string& images, const std::string& labels) {
  const auto made = std::make_shared<ImageFile>();
  ImageFile& file = *made;
  file.pixels = std::make_shared<const DataFile>(images);
  file.labels = std::make_shared<const DataFile>(labels);
  const auto header = read_header<4>(*file.pixels, kImages, "images");
  file.images = header[1];
  file.image_size = {1, header[2], header[3]};
  if (file.images < 1 || header[2] < 1 || header[2] > kLargestSide || header[3] < 1 || header[3] > kLargestSide) {
    refuse(*file.pixels,
           std::to_string(file.images) + " images of " + std::to_string(header[2]) + " x " + std::to_string(header[3]),
           "at least 1 image of 1 to " + std::to_string(kLargestSide) + " pixels a side");
  }
  file.first_pixel = 16;
  file.pixel_stride = file.image_size.pixels();
  constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max() - 16;
  if (file.images > kMostBytes / file.pixel_stride) {
    refuse(*file.pixels, std::to_string(file.pixels->bytes()) + " bytes",
           std::to_string(file.images) + " images of " + std::to_string(file.pixel_stride) +
               " bytes, which its header announces");
  }
  require_bytes(*file.pixels, 16 + file.images * file.pixel_stride, std::to_string(file.images) + " images");
  const auto label_header = read_header<2>(*file.labels, kLabels, "labels");
  if (label_header[1] != file.images) {
    refuse(*file.labels, std::to_string(label_header[1]) + " labels",
           std::to_string(file.images) + ", as many as '" + images + "' has images");
  }
  file.first_label = 8;
  file.label_stride = 1;
  require_bytes(*file.labels, 8 + file.images, std::to_string(file.images) + " labels");
  return made;
}

}  // namespace images
