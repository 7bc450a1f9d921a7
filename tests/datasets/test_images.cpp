#include <gmock/gmock.h>
#include <sys/stat.h>

#include <set>

#include "image_files.hpp"
#include "open_dataset.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;
using Given = std::map<std::string, OptionValue>;

struct Sample {
  std::vector<float> image;
  std::int32_t label = -7;
};

class ImagesTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& name, const std::string& bytes) const {
    return folder_.file(name, bytes).string();
  }
  static Given cifar10(const std::vector<std::string>& paths, const Given& more = {}) {
    Given given{{"paths", paths}};
    given.insert(more.begin(), more.end());
    return given;
  }
  static Given mnist(const std::vector<std::string>& paths) {
    return {{"format", std::string("mnist")}, {"paths", paths}};
  }
  static Sample read(const Dataset& data, const SampleKey& key) {
    const DimSizes sizes = data.sizes();
    Sample sample;
    sample.image.resize(static_cast<std::size_t>(sizes.at("channels") * sizes.at("height") * sizes.at("width")));
    data.read(key, std::vector<void*>{sample.image.data(), &sample.label});
    return sample;
  }
  [[nodiscard]] std::string refusal(const Given& given, bool validates = false) const {
    return plugin_.refusal(given, {{}, validates});
  }

  host::test::TemporaryFolder folder_;
  DatasetPlugin plugin_{"images"};
};

TEST_F(ImagesTest, FilesOfCifar10) {
  const auto data = plugin_.open(cifar10({file("one", cifar10_file(0, 12)), file("two", cifar10_file(12, 5))}), {});
  EXPECT_EQ(data->sizes(), (DimSizes{{"channels", 3}, {"height", 32}, {"width", 32}, {"classes", 10}}));
  EXPECT_EQ(data->samples(DataSplit::training), 17);
  EXPECT_EQ(data->samples(DataSplit::validation), 0);
  for (const int image : {0, 11, 12, 16}) {
    const Sample sample = read(*data, {DataSplit::training, 0, 0, image});
    EXPECT_EQ(sample.label, image % 10);
    for (const int at : {0, 33, 1024, 3071}) {
      const int value = pixel(image, image % 10, at / 1024, at % 1024 / 32, at % 32);
      EXPECT_FLOAT_EQ(sample.image[static_cast<std::size_t>(at)], static_cast<float>(value) / 255)
          << image << " " << at;
    }
  }
}

TEST_F(ImagesTest, FilesOfMnist) {
  const MnistFiles files = mnist_files(15, 28, 20);
  const auto data = plugin_.open(mnist({file("images", files.images), file("labels", files.labels)}), {});
  EXPECT_EQ(data->sizes(), (DimSizes{{"channels", 1}, {"height", 28}, {"width", 20}, {"classes", 10}}));
  const Sample sample = read(*data, {DataSplit::training, 4, 0, 13});
  EXPECT_EQ(sample.label, 3);
  EXPECT_FLOAT_EQ(sample.image[20 * 5 + 7], static_cast<float>(pixel(13, 3, 0, 5, 7)) / 255);
}

TEST_F(ImagesTest, ChannelsAreNormalised) {
  const auto data =
      plugin_.open(cifar10({file("one", cifar10_file(0, 3))},
                           {{"mean", std::vector<double>{0.5, 0.4, 0.3}}, {"std", std::vector<double>{0.1, 0.2, 0.5}}}),
                   {});
  const Sample sample = read(*data, {DataSplit::training, 0, 0, 2});
  EXPECT_NEAR(sample.image[5], (pixel(2, 2, 0, 0, 5) / 255.0 - 0.5) / 0.1, 1e-6);
  EXPECT_NEAR(sample.image[2 * 1024], (pixel(2, 2, 2, 0, 0) / 255.0 - 0.3) / 0.5, 1e-6);
}

TEST_F(ImagesTest, AugmentationDependsOnSeedEpochAndIndexOnly) {
  const std::string path = file("one", cifar10_file(0, 4));
  const Given given = cifar10(
      {path}, {{"flip", true}, {"crop", std::int64_t{2}}, {"validation_paths", std::vector<std::string>{path}}});
  const auto data = plugin_.open(given, {{}, true});
  const auto plain = plugin_.open(cifar10({path}), {});
  const Sample original = read(*plain, {DataSplit::training, 0, 0, 1});
  EXPECT_EQ(read(*data, {DataSplit::validation, 0, 9, 1}).image, original.image)
      << "evaluation sees images as they are";
  std::set<std::vector<float>> views;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    const SampleKey key{DataSplit::training, epoch, 9, 1};
    const Sample sample = read(*data, key);
    EXPECT_EQ(read(*data, key).image, sample.image);
    views.insert(sample.image);
  }
  EXPECT_GT(views.size(), 40U) << "there are 2 · 5 · 5 views";
  EXPECT_LE(views.size(), 50U);
  EXPECT_TRUE(views.contains(original.image));
  std::vector<float> mirrored = original.image;
  for (auto row = mirrored.begin(); row != mirrored.end(); row += 32) std::reverse(row, row + 32);
  EXPECT_TRUE(views.contains(mirrored));
}

TEST_F(ImagesTest, FilesThatAreNoImagesAreNamed) {
  const std::string cut = file("cut", cifar10_file(0, 2).substr(0, 5000));
  EXPECT_EQ(refusal(cifar10({cut})), "paths: '" + cut +
                                         "': found 5000 bytes; accepted: a multiple of 3073, which is a " +
                                         "label and an image of CIFAR-10");
  EXPECT_THAT(refusal(cifar10({file("empty", "")})), HasSubstr("the file is empty"));
  EXPECT_THAT(refusal(cifar10({folder_.path().string()})), HasSubstr("is not a regular file"));
  const std::string pipe = (folder_.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal(cifar10({pipe})), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal(cifar10({})), HasSubstr("paths: found no file"));
  const std::string good = file("good", cifar10_file(0, 2));
  EXPECT_THAT(refusal(cifar10({good}), true), HasSubstr("validation_paths: found no file"));
  EXPECT_THAT(refusal(cifar10({good}, {{"mean", std::vector<double>{0.5}}})),
              HasSubstr("mean: found 1 numbers; accepted: 3, one for each channel"));
}

TEST_F(ImagesTest, DamagedFilesOfMnistAreNamed) {
  const MnistFiles files = mnist_files(6, 5, 4);
  const std::string images = file("images", files.images);
  const std::string labels = file("labels", files.labels);
  EXPECT_EQ(refusal(mnist({images, labels})), "accepted");
  EXPECT_THAT(refusal(mnist({images})), HasSubstr("found 1 files; accepted: pairs"));
  EXPECT_THAT(refusal(mnist({images, images})), HasSubstr("found magic 2051; accepted: 2049"));
  EXPECT_THAT(refusal(mnist({file("a", files.images.substr(0, 10)), labels})),
              HasSubstr("found 10 bytes; accepted: an IDX file of images, whose header has 16 bytes"));
  EXPECT_THAT(refusal(mnist({file("b", files.images.substr(0, 100)), labels})),
              HasSubstr("found 100 bytes; accepted: 136, since its header announces 6 images"));
  EXPECT_THAT(refusal(mnist({images, file("c", mnist_files(5, 1, 1).labels)})),
              HasSubstr("found 5 labels; accepted: 6, as many as '" + images + "' has images"));
  EXPECT_THAT(refusal(mnist({images, file("d", files.labels + "x")})), HasSubstr("found 15 bytes; accepted: 14"));
  const MnistFiles other = mnist_files(6, 4, 4);
  EXPECT_THAT(refusal(mnist({images, labels, file("e", other.images), labels})),
              HasSubstr("found images of 4 x 4; accepted: 5 x 4, as in the first file"));
}

TEST_F(ImagesTest, ALabelWithoutAClassIsLocated) {
  std::string bytes = cifar10_file(0, 3);
  bytes[3073] = 12;
  const std::string path = file("one", bytes);
  const auto data = plugin_.open(cifar10({path}), {});
  EXPECT_EQ(read(*data, {DataSplit::training, 0, 0, 0}).label, 0);
  EXPECT_EQ(host::test::message_of<RuntimeError>([&] {
              read(*data, {DataSplit::training, 0, 0, 1});
            }),
            "'" + path + "': found label 12 of image 1 at byte 3073; expected: labels from 0 to 9");
}

}  // namespace
}  // namespace strata::testing
