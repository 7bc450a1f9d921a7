#include "image_dataset.hpp"

#include "strata/random.hpp"

namespace images {

using namespace strata;

std::vector<DatasetInput> image_inputs() {
  return {{.name = "images", .dims = {"channels", "height", "width"}, .dtype = DType::f32},
          {.name = "labels", .dims = {}, .indexes = "classes", .is_target = true}};
}

DimSizes ImageDataset::sizes() const {
  return {{"channels", size_.channels}, {"height", size_.height}, {"width", size_.width}, {"classes", data_.classes}};
}

std::int64_t ImageDataset::samples(DataSplit split) const {
  std::int64_t samples = 0;
  for (const ImageFile& file : split == DataSplit::training ? data_.training : data_.validation) samples += file.count;
  return samples;
}

std::string ImageDataset::description() const {
  return std::to_string(samples(DataSplit::training)) + " images of '" +
         data_.training.front().pixels->path().string() + "'" +
         (data_.training.size() == 1 ? "" : " and " + std::to_string(data_.training.size() - 1) + " more file(s)");
}

void ImageDataset::read(const SampleKey& key, std::span<void* const> destinations) const {
  std::int64_t index = key.index;
  const std::vector<ImageFile>& files = key.split == DataSplit::training ? data_.training : data_.validation;
  auto file = files.begin();
  for (; index >= file->count; ++file) index -= file->count;
  if (destinations[0] != nullptr) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(size_.pixels()));
    file->read_pixels(index, pixels.data());
    write(pixels, view_of(key), static_cast<float*>(destinations[0]));
  }
  if (destinations[1] != nullptr) {
    *static_cast<std::int32_t*>(destinations[1]) = file->read_label(index, data_.classes);
  }
}

ImageDataset::View ImageDataset::view_of(const SampleKey& key) const {
  View view;
  if (key.split != DataSplit::training) return view;
  const std::uint64_t stream = random::stream_key(key.seed, "image view", key.epoch);
  const auto words = random::philox4x32(stream, static_cast<std::uint64_t>(key.index));
  const auto shifts = static_cast<std::uint32_t>(2 * data_.crop + 1);
  view.is_mirrored = data_.flip && words[0] % 2 == 1;
  view.down = static_cast<std::int64_t>(words[1] % shifts) - data_.crop;
  view.right = static_cast<std::int64_t>(words[2] % shifts) - data_.crop;
  return view;
}

void ImageDataset::write(const std::vector<std::uint8_t>& pixels, const View& view, float* destination) const {
  for (std::int64_t channel = 0; channel < size_.channels; ++channel) {
    const double mean = data_.mean[static_cast<std::size_t>(channel)];
    const double scale = 1 / data_.deviation[static_cast<std::size_t>(channel)];
    for (std::int64_t y = 0; y < size_.height; ++y) {
      for (std::int64_t x = 0; x < size_.width; ++x) {
        const std::int64_t row = y - view.down;
        const std::int64_t column = (view.is_mirrored ? size_.width - 1 - x : x) - view.right;
        const bool is_inside = row >= 0 && row < size_.height && column >= 0 && column < size_.width;
        // A shifted image has a black border.
        const auto at = static_cast<std::size_t>((channel * size_.height + row) * size_.width + column);
        const double value = is_inside ? pixels[at] / 255.0 : 0.0;
        *destination++ = static_cast<float>((value - mean) * scale);
      }
    }
  }
}

}  // namespace images
