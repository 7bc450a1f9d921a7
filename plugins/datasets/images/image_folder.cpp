#include <cstdio>
// jpeglib.h needs its types.
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "image_source.hpp"
#include "strata/data_file.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace images {
namespace {

using namespace strata;
namespace fs = std::filesystem;

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

constexpr std::int64_t kColours = 3;
/// Limit of what a damaged header can make the process allocate.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

void require_size(std::int64_t height, std::int64_t width) {
  if (height >= 1 && width >= 1 && height <= kMostPixels / width) return;
  throw DecodingError("found " + std::to_string(height) + " x " + std::to_string(width) +
                      " pixels; accepted: at most " + std::to_string(kMostPixels));
}

DecodedImage decode_png(std::span<const std::uint8_t> bytes) {
  struct Png : png_image {
    Png() : png_image{} { version = PNG_IMAGE_VERSION; }
    ~Png() { png_image_free(this); }
    Png(const Png&) = delete;
    Png& operator=(const Png&) = delete;
  } png;
  const auto check = [&](int succeeded) {
    // A warning says that something was repaired or is missing.
    if (succeeded == 0 || PNG_IMAGE_FAILED(png)) throw DecodingError("no intact PNG: " + std::string(png.message));
  };
  check(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()));
  require_size(png.height, png.width);
  DecodedImage image{png.height, png.width, {}};
  png.format = PNG_FORMAT_RGB;
  image.rgb.resize(static_cast<std::size_t>(image.height * image.width * kColours));
  const png_color black{};
  check(png_image_finish_read(&png, &black, image.rgb.data(), 0, nullptr));
  return image;
}

/// libjpeg reports errors by a function that must not return.
struct JpegErrors : jpeg_error_mgr {
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

void fail(j_common_ptr info) {
  auto* errors = static_cast<JpegErrors*>(info->err);
  errors->format_message(info, errors->message.data());
  std::longjmp(errors->jump, 1);  // NOLINT(cert-err52-cpp)
}

/// Warnings, which have negative levels, are about damaged data.
void fail_at_warnings(j_common_ptr info, int level) {
  if (level < 0) fail(info);
}

class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = fail;
    errors_.emit_message = fail_at_warnings;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  DecodedImage run(std::span<const std::uint8_t> bytes) {
    DecodedImage image;
    if (!begin(bytes)) throw_error();
    require_size(info_.image_height, info_.image_width);
    image.height = info_.image_height;
    image.width = info_.image_width;
    image.rgb.resize(static_cast<std::size_t>(image.height * image.width * kColours));
    if (!read_rows(image.rgb.data(), static_cast<std::size_t>(image.width * kColours))) throw_error();
    return image;
  }

 private:
  // After a jump, these functions return to their callers, and no object with a destructor is in their scope.

  bool begin(std::span<const std::uint8_t> bytes) {
    if (setjmp(errors_.jump) != 0) return false;  // NOLINT(cert-err52-cpp)
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, bytes.data(), bytes.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool read_rows(std::uint8_t* rgb, std::size_t row_bytes) {
    if (setjmp(errors_.jump) != 0) return false;  // NOLINT(cert-err52-cpp)
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = rgb + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  [[noreturn]] void throw_error() const {
    throw DecodingError("no intact JPEG: " + std::string(errors_.message.data()));
  }

  jpeg_decompress_struct info_{};
  JpegErrors errors_{};
};

/// The pixels that make one of the result, from `first` on, with their weights.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

/// The taps of all pixels of one side: `count` pixels of the result show `length` pixels from `begin` on, of `pixels`.
std::vector<Taps> triangle_taps(std::int64_t count, double begin, double length, std::int64_t pixels) {
  const double step = length / static_cast<double>(count);
  const double support = std::max(step, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Taps& taps = all[static_cast<std::size_t>(i)];
    const double centre = begin + (static_cast<double>(i) + 0.5) * step;
    // Pixels whose centres are nearer than `support`.
    taps.first = std::max(static_cast<std::int64_t>(std::floor(centre - support + 0.5)), std::int64_t{0});
    const auto end = std::min(static_cast<std::int64_t>(std::ceil(centre + support - 0.5)), pixels);
    float sum = 0;
    for (std::int64_t at = taps.first; at < end; ++at) {
      const double distance = std::abs(static_cast<double>(at) + 0.5 - centre);
      taps.weights.push_back(static_cast<float>(std::max(0.0, 1 - distance / support)));
      sum += taps.weights.back();
    }
    for (float& weight : taps.weights) weight /= sum;
  }
  return all;
}

/// Decodes a PNG or a JPEG. Gray becomes RGB, and what is transparent becomes black. \throws DecodingError if the bytes
/// are neither, or damaged.
DecodedImage decode(std::span<const std::uint8_t> bytes) {
  constexpr std::array<std::uint8_t, 4> kPng{0x89, 'P', 'N', 'G'};
  constexpr std::array<std::uint8_t, 2> kJpeg{0xFF, 0xD8};
  const auto begins_with = [&](const auto& magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  if (begins_with(kPng)) return decode_png(bytes);
  if (begins_with(kJpeg)) return JpegDecoder().run(bytes);
  throw DecodingError("found neither a PNG nor a JPEG");
}

/// Writes the largest part in the middle of the image that has the proportions of height x width as [3 height width],
/// resampled with a triangle filter. An image of that size is written as it is.
void resample(const DecodedImage& image, std::int64_t height, std::int64_t width, std::uint8_t* destination) {
  const auto full_height = static_cast<double>(image.height);
  const auto full_width = static_cast<double>(image.width);
  const double step = std::min(full_height / static_cast<double>(height), full_width / static_cast<double>(width));
  const double shown_height = step * static_cast<double>(height);
  const double shown_width = step * static_cast<double>(width);
  const auto rows = triangle_taps(height, (full_height - shown_height) / 2, shown_height, image.height);
  const auto columns = triangle_taps(width, (full_width - shown_width) / 2, shown_width, image.width);
  // The rows of the result with all columns of the image. This pass over whole rows takes most of the operations.
  const auto image_row = static_cast<std::size_t>(image.width * kColours);
  std::vector<float> low(rows.size() * image_row);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    float* const sums = low.data() + row * image_row;
    const std::uint8_t* pixels = image.rgb.data() + static_cast<std::size_t>(rows[row].first) * image_row;
    for (const float weight : rows[row].weights) {
      for (std::size_t i = 0; i < image_row; ++i) sums[i] += weight * static_cast<float>(pixels[i]);
      pixels += image_row;
    }
  }
  for (std::int64_t colour = 0; colour < kColours; ++colour) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (const Taps& taps : columns) {
        const float* from = low.data() + row * image_row + static_cast<std::size_t>(taps.first * kColours + colour);
        float sum = 0;
        for (const float weight : taps.weights) {
          sum += weight * *from;
          from += kColours;
        }
        *destination++ = static_cast<std::uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F));
      }
    }
  }
}

[[noreturn]] void refuse(const fs::path& place, const std::string& found, const std::string& accepted) {
  throw ConfigurationError("'" + place.string() + "': found " + found + "; accepted: " + accepted);
}

/// The entries of a folder, sorted by name. Names that begin with a dot are left out.
std::vector<fs::path> contents(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(".")) found.push_back(entry.path());
  }
  if (error) refuse(folder, error.message(), "a folder with a folder of images for each class");
  std::sort(found.begin(), found.end());
  return found;
}

bool is_image(const fs::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char letter) { return static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

class ImageFolder final : public ImageSource {
 public:
  struct Image {
    std::string path;
    std::int32_t label;
  };

  ImageFolder(std::string path, const ImageSize& size, std::vector<Image> images, std::string fingerprint)
      : path_(std::move(path)), size_(size), images_(std::move(images)), fingerprint_(std::move(fingerprint)) {}

  [[nodiscard]] std::string path() const override { return path_; }
  [[nodiscard]] std::int64_t count() const override { return std::ssize(images_); }
  [[nodiscard]] ImageSize size() const override { return size_; }
  [[nodiscard]] std::string fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::int32_t read_label(std::int64_t index, std::int64_t /*classes*/) const override {
    return images_[static_cast<std::size_t>(index)].label;
  }

  void read_pixels(std::int64_t index, std::uint8_t* destination) const override {
    const std::string& path = images_[static_cast<std::size_t>(index)].path;
    try {
      const DataFile file(path);
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.bytes()));
      file.read(0, file.bytes(), bytes.data());
      resample(decode(bytes), size_.height, size_.width, destination);
    } catch (const ConfigurationError& error) {
      throw RuntimeError(error.what());
    } catch (const DecodingError& error) {
      throw RuntimeError("'" + path + "': " + error.what());
    }
  }

 private:
  std::string path_;
  ImageSize size_;
  std::vector<Image> images_;
  std::string fingerprint_;
};

}  // namespace

Source open_folder(const std::string& path, const ImageSize& size, std::int64_t classes) {
  const std::vector<fs::path> folders = contents(path);
  for (const fs::path& each : folders) {
    std::error_code error;
    if (!fs::is_directory(each, error)) refuse(each, "no folder", "folders of images alone, one for each class");
  }
  if (std::ssize(folders) != classes) {
    refuse(path, std::to_string(folders.size()) + " folders", std::to_string(classes) + ", one for each of `classes`");
  }
  std::vector<ImageFolder::Image> images;
  std::uint64_t digest = 0;
  for (const fs::path& folder : folders) {
    const std::vector<fs::path> files = contents(folder);
    if (files.empty()) refuse(folder, "no file", "at least one image");
    const auto label = static_cast<std::int32_t>(&folder - folders.data());
    for (const fs::path& file : files) {
      if (!is_image(file)) refuse(file, "'" + file.extension().string() + "'", ".png, .jpg, .jpeg");
      std::error_code error;
      if (!fs::is_regular_file(file, error)) refuse(file, "no file that can be read", "an image");
      // To read all of a large folder would take longer than to train a step on it.
      digest = random::stream_key(digest, fs::relative(file, path).string(), fs::file_size(file));
      images.push_back({file.string(), label});
    }
  }
  return std::make_shared<const ImageFolder>(path, size, std::move(images),
                                             std::to_string(digest) + " of names and sizes");
}

}  // namespace images
