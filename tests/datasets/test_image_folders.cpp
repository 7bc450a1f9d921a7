#include <gmock/gmock.h>
#include <png.h>
// libjpeg's header needs FILE.
//
#include <jpeglib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "open_dataset.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;
using Given = std::map<std::string, OptionValue>;
using Bytes = std::vector<std::uint8_t>;

/// Rows of RGB that differ everywhere.
Bytes pattern(int height, int width) {
  Bytes rgb;
  for (int i = 0; i < height * width * 3; ++i) rgb.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  return rgb;
}

std::string png(int height, int width, const Bytes& rgb) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, rgb.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&image, bytes.data(), &size, 0, rgb.data(), 0, nullptr);
  bytes.resize(size);
  return bytes;
}

std::string jpeg(int height, int width, Bytes rgb) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = rgb.data() + std::size_t{info.next_scanline} * static_cast<std::size_t>(width) * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  std::free(data);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg allocated it
  return bytes;
}

class ImageFoldersTest : public ::testing::Test {
 protected:
  /// A file in the folder of a class. \return its path.
  std::string file(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    return folder_.file(name, bytes).string();
  }

  [[nodiscard]] Given given(std::int64_t height, std::int64_t width) const {
    return {{"format", std::string("folder")},
            {"paths", std::vector<std::string>{(folder_.path() / "train").string()}},
            {"classes", std::int64_t{2}},
            {"height", height},
            {"width", width}};
  }

  /// The bytes of an image, [channels height width].
  [[nodiscard]] std::vector<int> read(const Dataset& data, std::int64_t index) const {
    const DimSizes sizes = data.sizes();
    std::vector<float> values(static_cast<std::size_t>(3 * sizes.at("height") * sizes.at("width")));
    data.read({DataSplit::training, 0, 0, index}, std::vector<void*>{values.data(), nullptr});
    std::vector<int> bytes;
    for (const float value : values) bytes.push_back(static_cast<int>(std::lround(value * 255)));
    return bytes;
  }

  [[nodiscard]] std::string failure(const Dataset& data) const {
    return host::test::message_of<RuntimeError>([&] { static_cast<void>(read(data, 0)); });
  }

  host::test::TemporaryFolder folder_;
  DatasetPlugin plugin_{"images"};
};

TEST_F(ImageFoldersTest, ClassesAreFolders) {
  const Bytes rgb = pattern(3, 4);
  file("train/cat/b.PNG", png(3, 4, rgb));
  file("train/cat/.hidden", "");
  file("train/ant/a.jpg", jpeg(3, 4, Bytes(36, 90)));
  const auto data = plugin_.open(given(3, 4), {});
  EXPECT_EQ(data->sizes(), (DimSizes{{"channels", 3}, {"height", 3}, {"width", 4}, {"classes", 2}}));
  ASSERT_EQ(data->samples(DataSplit::training), 2);
  for (const std::int32_t index : {0, 1}) {
    std::int32_t label = -7;
    data->read({DataSplit::training, 0, 0, index}, std::vector<void*>{nullptr, &label});
    EXPECT_EQ(label, index);
  }
  for (const int value : read(*data, 0)) EXPECT_NEAR(value, 90, 2) << "a JPEG is nearly what was written";
  const std::vector<int> found = read(*data, 1);
  for (std::size_t i = 0; i < 12; ++i) {
    for (std::size_t colour = 0; colour < 3; ++colour) EXPECT_EQ(found[colour * 12 + i], rgb[i * 3 + colour]);
  }
}

TEST_F(ImageFoldersTest, TheMiddleIsScaled) {
  // Columns of gray: 0 0 | 40 80 | 120 160 | 200 200, of which a square shows the middle four.
  Bytes rgb;
  for (int row = 0; row < 4; ++row) {
    for (const std::uint8_t gray : {0, 0, 40, 80, 120, 160, 200, 200}) rgb.insert(rgb.end(), 3, gray);
  }
  file("train/a/1.png", png(4, 8, rgb));
  file("train/b/1.png", png(1, 1, {7, 8, 9}));
  const auto halved = plugin_.open(given(2, 2), {});
  // Taps of ½ pixel, 1½, 1½ and ½ around the middle of two pixels have the weights 1, 3, 3, 1, of eight.
  const std::vector<int> small = read(*halved, 0);
  EXPECT_EQ(small[0], (0 * 1 + 40 * 3 + 80 * 3 + 120 * 1) / 8);
  EXPECT_EQ(small[1], (80 * 1 + 120 * 3 + 160 * 3 + 200 * 1) / 8);
  EXPECT_EQ(read(*halved, 1), (std::vector<int>{7, 7, 7, 7, 8, 8, 8, 8, 9, 9, 9, 9}));
}

TEST_F(ImageFoldersTest, DamagedImagesAreNamed) {
  file("train/b/1.png", png(1, 1, {7, 8, 9}));
  struct Row {
    std::string name, bytes, message;
  };
  const std::string whole_png = png(30, 40, pattern(30, 40));
  const std::string whole_jpeg = jpeg(30, 40, pattern(30, 40));
  std::string damaged = whole_png;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  for (const Row& row : {Row{"cut.png", whole_png.substr(0, 300), "no intact PNG"}, Row{"changed.png", damaged, "PNG"},
                         Row{"cut.jpg", whole_jpeg.substr(0, whole_jpeg.size() / 2), "no intact JPEG"},
                         Row{"text.jpeg", "no image", "found neither a PNG nor a JPEG"}}) {
    const std::string path = file("train/a/" + row.name, row.bytes);
    const auto data = plugin_.open(given(30, 40), {});
    const std::string message = failure(*data);
    EXPECT_THAT(message, HasSubstr("'" + path + "': "));
    EXPECT_THAT(message, HasSubstr(row.message));
    std::filesystem::remove(path);
  }
}

TEST_F(ImageFoldersTest, FoldersThatAreNoClassesAreRefused) {
  const auto refusal = [&] { return plugin_.refusal(given(2, 2), {}); };
  EXPECT_THAT(refusal(), HasSubstr("accepted: a folder with a folder of images for each class"));
  file("train/a/1.png", png(1, 1, {7, 8, 9}));
  EXPECT_THAT(refusal(), HasSubstr("found 1 folders; accepted: 2, one for each of `classes`"));
  std::filesystem::create_directories(folder_.path() / "train/b");
  EXPECT_THAT(refusal(), HasSubstr("/train/b': found no file; accepted: at least one image"));
  const std::string list = file("train/labels.txt", "a b");
  EXPECT_THAT(refusal(), HasSubstr("'" + list + "': found no folder; accepted: folders of images alone"));
  std::filesystem::remove(list);
  const auto link = folder_.path() / "train/b/1.png";
  std::filesystem::create_symlink("missing.png", link);
  EXPECT_THAT(refusal(), HasSubstr("'" + link.string() + "': found no file that can be read; accepted: an image"));
  std::filesystem::remove(link);
  const std::string other = file("train/b/1.gif", "GIF89a");
  EXPECT_THAT(refusal(), HasSubstr("'" + other + "': found '.gif'; accepted: .png, .jpg, .jpeg"));
}

}  // namespace
}  // namespace strata::testing
