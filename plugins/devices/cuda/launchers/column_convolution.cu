#include <algorithm>
#include <memory>
#include <vector>

#include "device/runtime.hpp"
#include "launchers/convolution.hpp"
#include "launchers/permute.hpp"
#include "launchers/reduce_sources.hpp"
#include "matrix/matrix_product.hpp"

/// \file
/// Convolutions as products of cuBLASLt. With x and y as images and w[out_channels, window_elements], in row-major
/// terms:
///
///   convolution                  y = w · columns(x)
///   convolution_input_gradient   dx = the sum of each pixel's elements in wᵀ · dy
///   convolution_weight_gradient  dw = dy · columns(x)ᵀ
///
/// Columns have window_elements numbers for each pixel of y, so a batch is computed in chunks of images. Images with
/// many pixels are multiplied one by one, in a batch of products. Images with few are too small for the products'
/// tiles. Such a chunk is one matrix [channels, images · pixels], for which the channels of dy or y are permuted.

namespace strata::cuda {
namespace {

/// The largest columns of a chunk, per multiprocessor.
constexpr std::int64_t kColumnBytes = 1 << 20;
/// Matrices of single images have as many pixels, which fill a tile, and a multiple of kAlignedPixels.
constexpr std::int64_t kPixelsOfTile = 256;
constexpr std::int64_t kAlignedPixels = 8;

/// The convolution as products.
struct ColumnConvolution : Convolution {
  ColumnConvolution(const OpInstance& op, Pass pass) : Convolution(convolution_of(op, pass)) {}

  /// True if each image is a matrix of its own.
  [[nodiscard]] bool has_large_images() const { return pixels() >= kPixelsOfTile && pixels() % kAlignedPixels == 0; }
  /// True if a product can have results of this type.
  [[nodiscard]] bool multiplies_to(DType result) const { return result == type || result == sum; }

  [[nodiscard]] ColumnPlaces places(bool of_single_images, std::int64_t images) const {
    if (of_single_images) return {depth() * pixels(), pixels()};
    return {pixels(), images * pixels()};
  }
  /// Reorders y[images, out_channels, pixels] to [out_channels, images, pixels].
  [[nodiscard]] devices::Permutation channels_first(std::int64_t images) const {
    return {{out_channels, images, pixels()}, {pixels(), y_elements(), 1}};
  }
  [[nodiscard]] devices::Permutation images_first(std::int64_t images) const {
    return {{images, out_channels, pixels()}, {pixels(), images * pixels(), 1}};
  }
  /// A product for `images` images whose d has a row for each pixel.
  [[nodiscard]] MatrixProductShape product_of_pixels(bool of_single_images, std::int64_t images) const {
    MatrixProductShape shape;
    shape.batch = of_single_images ? images : 1;
    shape.rows = of_single_images ? pixels() : images * pixels();
    shape.operand = type;
    shape.a.leading = shape.d.leading = shape.rows;
    return shape;
  }
};

/// Work on some of the images. It reads and writes at the start of their parts of x and y.
struct Chunk {
  std::int64_t images = 0;
  std::shared_ptr<MatrixProduct> product;
  PermuteFunction permute;
  ColumnPlaces places;
};

class Chunks : public ImageChunks<Chunk> {
 public:
  /// `column_bytes`: the columns of one image.
  Chunks(const Convolution& convolution, std::int64_t column_bytes, const CudaEnvironment& environment)
      : ImageChunks(convolution.batch, column_bytes, kColumnBytes * environment.multiprocessors()) {}

  [[nodiscard]] std::int64_t product_bytes() const {
    std::int64_t bytes = 0;
    for (const Chunk& chunk : works()) bytes = std::max(bytes, chunk.product->workspace_bytes());
    return bytes;
  }
};

const void* at(const void* begin, std::int64_t bytes) { return static_cast<const char*>(begin) + bytes; }
void* at(void* begin, std::int64_t bytes) { return static_cast<char*>(begin) + bytes; }

class Forward {
 public:
  Forward(const OpInstance& op, const CudaEnvironment& environment)
      : of_(op, Pass::forward),
        result_(op.results[0].dtype),
        single_(of_.has_large_images() && of_.multiplies_to(result_)),
        packs_(!single_ || !of_.windows.are_pixels()),
        chunks_(of_, packs_ ? bytes_of(of_.type, of_.depth() * of_.pixels()) : 0, environment) {
    // The permutation that adds to y reads sums, so that they are rounded once.
    const DType product_type = single_ || (of_.multiplies_to(result_) && !op.accumulate) ? result_ : of_.sum;
    chunks_.prepare([&](std::int64_t images) {
      MatrixProductShape shape = of_.product_of_pixels(single_, images);
      shape.columns = of_.out_channels;
      shape.depth = shape.b.leading = of_.depth();
      shape.a.batch_stride = of_.depth() * of_.pixels();
      shape.d.batch_stride = of_.y_elements();
      shape.result = product_type;
      shape.accumulate = single_ && op.accumulate;
      Chunk chunk{images, environment.matrices().product(shape), nullptr, of_.places(single_, images)};
      if (!single_) chunk.permute = prepare_permute(of_.images_first(images), product_type, result_, op.accumulate);
      return chunk;
    });
    workspace_.reserve(chunks_.product_bytes());
    columns_ = workspace_.reserve(packs_ ? bytes_of(of_.type, chunks_.images() * of_.depth() * of_.pixels()) : 0);
    y_ = workspace_.reserve(single_ ? 0 : bytes_of(product_type, chunks_.images() * of_.y_elements()));
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    chunks_.for_each([&](const Chunk& chunk, std::int64_t first) {
      const void* x = at(arguments.operands[0], bytes_of(of_.type, first * of_.x_elements()));
      void* y = at(arguments.results[0], bytes_of(result_, first * of_.y_elements()));
      void* columns = at(arguments.workspace, columns_);
      if (packs_) launch_pack_columns(arguments.stream, of_.type, of_.windows, chunk.images, chunk.places, x, columns);
      void* product = single_ ? y : at(arguments.workspace, y_);
      chunk.product->run({packs_ ? columns : x, arguments.operands[1], nullptr, product, arguments.workspace},
                         arguments.stream);
      if (!single_) chunk.permute(arguments.stream, product, y);
    });
  }

 private:
  ColumnConvolution of_;
  DType result_;
  bool single_;  ///< each image is a matrix of its own
  bool packs_;
  Chunks chunks_;
  WorkspacePlan workspace_;
  std::int64_t columns_ = 0;
  std::int64_t y_ = 0;
};

class InputGradient {
 public:
  InputGradient(const OpInstance& op, const CudaEnvironment& environment)
      : of_(op, Pass::input_gradient),
        result_(op.results[0].dtype),
        accumulate_(op.accumulate),
        single_(of_.has_large_images()),
        sums_(!single_ || !of_.windows.are_pixels() || !of_.multiplies_to(result_)),
        chunks_(of_, sums_ ? bytes_of(of_.sum, of_.depth() * of_.pixels()) : 0, environment) {
    chunks_.prepare([&](std::int64_t images) {
      MatrixProductShape shape = of_.product_of_pixels(single_, images);
      shape.columns = shape.b.leading = of_.depth();
      shape.depth = of_.out_channels;
      shape.transpose_b = true;
      shape.a.batch_stride = of_.y_elements();
      shape.d.batch_stride = of_.depth() * of_.pixels();
      shape.result = sums_ ? of_.sum : result_;
      shape.accumulate = !sums_ && accumulate_;
      Chunk chunk{images, environment.matrices().product(shape), nullptr, of_.places(single_, images)};
      if (!single_) chunk.permute = prepare_permute(of_.channels_first(images), of_.type, of_.type, false);
      return chunk;
    });
    workspace_.reserve(chunks_.product_bytes());
    columns_ = workspace_.reserve(sums_ ? bytes_of(of_.sum, chunks_.images() * of_.depth() * of_.pixels()) : 0);
    dy_ = workspace_.reserve(single_ ? 0 : bytes_of(of_.type, chunks_.images() * of_.y_elements()));
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    chunks_.for_each([&](const Chunk& chunk, std::int64_t first) {
      const void* dy = at(arguments.operands[0], bytes_of(of_.type, first * of_.y_elements()));
      void* dx = at(arguments.results[0], bytes_of(result_, first * of_.x_elements()));
      if (!single_) {
        void* permuted = at(arguments.workspace, dy_);
        chunk.permute(arguments.stream, dy, permuted);
        dy = permuted;
      }
      void* product = sums_ ? at(arguments.workspace, columns_) : dx;
      chunk.product->run({dy, arguments.operands[1], nullptr, product, arguments.workspace}, arguments.stream);
      if (!sums_) return;
      launch_sum_columns(arguments.stream, of_.sum, result_, of_.windows, chunk.images, chunk.places, product, dx,
                         accumulate_);
    });
  }

 private:
  ColumnConvolution of_;
  DType result_;
  bool accumulate_;
  bool single_;  ///< each image is a matrix of its own
  bool sums_;    ///< the product is columns
  Chunks chunks_;
  WorkspacePlan workspace_;
  std::int64_t columns_ = 0;
  std::int64_t dy_ = 0;
};

/// A product per chunk would be deep and have few elements, too few for the GPU's multiprocessors. So the columns are
/// divided into parts with a product each, whose results are added in order.
class WeightGradient {
 public:
  WeightGradient(const OpInstance& op, const CudaEnvironment& environment)
      : of_(op, Pass::weight_gradient),
        result_(op.results[0].dtype),
        accumulate_(op.accumulate),
        chunks_(of_, bytes_of(of_.type, of_.depth() * of_.pixels()), environment) {
    chunks_.prepare([&](std::int64_t images) {
      MatrixProductShape shape;
      const std::int64_t columns = images * of_.pixels();
      shape.batch = parts(columns, environment);
      shape.rows = shape.d.leading = of_.depth();
      shape.columns = of_.out_channels;
      shape.depth = columns / shape.batch;
      shape.transpose_a = true;
      shape.a = shape.b = {columns, shape.depth};
      shape.d.batch_stride = elements();
      shape.operand = of_.type;
      shape.result = of_.sum;
      shape.accumulate = true;
      parts_ = std::max(parts_, shape.batch);
      return Chunk{images, environment.matrices().product(shape),
                   prepare_permute(of_.channels_first(images), of_.type, of_.type, false), of_.places(false, images)};
    });
    if (result_ != of_.sum) convert_ = prepare_permute({{elements()}, {1}}, of_.sum, result_, accumulate_);
    workspace_.reserve(chunks_.product_bytes());
    columns_ = workspace_.reserve(bytes_of(of_.type, chunks_.images() * of_.depth() * of_.pixels()));
    dy_ = workspace_.reserve(bytes_of(of_.type, chunks_.images() * of_.y_elements()));
    dw_ = workspace_.reserve(bytes_of(of_.sum, parts_ * elements()));
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_.bytes(); }

  void run(const KernelArguments& arguments) const {
    void* columns = at(arguments.workspace, columns_);
    void* permuted = at(arguments.workspace, dy_);
    void* dw = at(arguments.workspace, dw_);
    runtime::fill_zero(arguments.stream, dw, bytes_of(of_.sum, parts_ * elements()));
    chunks_.for_each([&](const Chunk& chunk, std::int64_t first) {
      const void* x = at(arguments.operands[0], bytes_of(of_.type, first * of_.x_elements()));
      const void* dy = at(arguments.operands[1], bytes_of(of_.type, first * of_.y_elements()));
      launch_pack_columns(arguments.stream, of_.type, of_.windows, chunk.images, chunk.places, x, columns);
      chunk.permute(arguments.stream, dy, permuted);
      chunk.product->run({columns, permuted, nullptr, dw, arguments.workspace}, arguments.stream);
    });
    add_parts(arguments, dw);
  }

 private:
  [[nodiscard]] std::int64_t elements() const { return of_.out_channels * of_.depth(); }

  /// The number of parts of so many columns: a power of two for which each part has a multiple of kAlignedPixels.
  [[nodiscard]] std::int64_t parts(std::int64_t columns, const CudaEnvironment& environment) const {
    constexpr std::int64_t kTile = 128;
    constexpr std::int64_t kMost = 128;
    const std::int64_t tiles = ((of_.depth() - 1) / kTile + 1) * ((of_.out_channels - 1) / kTile + 1);
    std::int64_t parts = 1;
    while (parts < kMost && parts * tiles < environment.multiprocessors() &&
           columns % (2 * parts * kAlignedPixels) == 0) {
      parts *= 2;
    }
    return parts;
  }

  void add_parts(const KernelArguments& arguments, void* dw) const {
    void* to = convert_ ? dw : arguments.results[0];
    std::vector<const void*> sources;
    if (accumulate_ && !convert_) sources.push_back(to);
    for (std::int64_t i = 0; i < parts_; ++i) sources.push_back(at(dw, bytes_of(of_.sum, i * elements())));
    launch_reduce(arguments.stream, Reduction::sum, of_.sum, to, sources, elements());
    if (convert_) convert_(arguments.stream, dw, arguments.results[0]);
  }

  ColumnConvolution of_;
  DType result_;
  bool accumulate_;
  Chunks chunks_;
  std::int64_t parts_ = 1;
  PermuteFunction convert_;
  WorkspacePlan workspace_;
  std::int64_t columns_ = 0;
  std::int64_t dy_ = 0;
  std::int64_t dw_ = 0;
};

}  // namespace

PreparedKernel prepare_column_convolution(const OpInstance& op, Pass pass, const CudaEnvironment& environment) {
  switch (pass) {
    case Pass::forward:
      return devices::prepared<Forward>(op, environment);
    case Pass::input_gradient:
      return devices::prepared<InputGradient>(op, environment);
    default:
      return devices::prepared<WeightGradient>(op, environment);
  }
}

}  // namespace strata::cuda
