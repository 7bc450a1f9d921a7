#pragma once

#include <string>
#include <vector>

#include "image_files.hpp"
#include "strata/dataset.hpp"

namespace images {

/// What an ImageDataset is made of.
struct ImageData {
  std::vector<ImageFile> training;
  std::vector<ImageFile> validation;
  std::int64_t classes = 0;
  /// Mean and deviation of each channel, of values from 0 to 1.
  std::vector<double> mean;
  std::vector<double> deviation;
  /// Training mirrors half of the images, if true, and shifts them by up to `crop` pixels.
  bool flip = false;
  std::int64_t crop = 0;
  std::string fingerprint;
};

/// The inputs: "images" [batch channels height width] and "labels" [batch].
[[nodiscard]] std::vector<strata::DatasetInput> image_inputs();

/// Images and their labels, in the order of the files.
class ImageDataset final : public strata::Dataset {
 public:
  explicit ImageDataset(ImageData data) : data_(std::move(data)), size_(data_.training.front().size) {}

  [[nodiscard]] strata::DimSizes sizes() const override;
  [[nodiscard]] std::int64_t samples(strata::DataSplit split) const override;
  void read(const strata::SampleKey& key, std::span<void* const> destinations) const override;
  [[nodiscard]] std::string fingerprint() const override { return data_.fingerprint; }
  [[nodiscard]] std::string description() const override;

 private:
  /// How one image is augmented.
  struct View {
    bool is_mirrored = false;
    std::int64_t down = 0;
    std::int64_t right = 0;
  };

  [[nodiscard]] View view_of(const strata::SampleKey& key) const;
  void write(const std::vector<std::uint8_t>& pixels, const View& view, float* destination) const;

  ImageData data_;
  ImageSize size_;
};

}  // namespace images
