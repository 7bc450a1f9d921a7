#include "image_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "decoded_image.hpp"
#include "strata/data_file.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace images {
namespace {

using namespace strata;
namespace fs = std::filesystem;

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

std::shared_ptr<const ImageSource> open_folder(const std::string& path, const ImageSize& size, std::int64_t classes) {
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
