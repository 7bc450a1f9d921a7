#pragma once

#include <memory>
#include <string>

#include "image_source.hpp"

namespace images {

/// Opens a folder with a folder of PNG and JPEG files for each class. Classes have numbers in the order of the folders'
/// names. Images are read as `size`, in RGB: the largest part in the middle that has its proportions, resampled with a
/// triangle filter. \throws strata::ConfigurationError that names the place if the folder has other contents, or not
/// `classes` folders.
[[nodiscard]] std::shared_ptr<const ImageSource> open_folder(const std::string& path, const ImageSize& size,
                                                             std::int64_t classes);

}  // namespace images
