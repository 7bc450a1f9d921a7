/// grid: tensor parallelism over two axes. Every weight matrix of a layer is cut into rows x columns tiles, one for
/// each rank of a grid (van de Geijn and Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", 1997; Xu
/// et al., "An Efficient 2D Method for Training Super-Large Deep Learning Models", 2021).

#include "strata/strategy.hpp"

namespace grid {
namespace {

using namespace strata;

constexpr const char* kRows = "grid_rows";
constexpr const char* kColumns = "grid_columns";

/// The strategy is a table of rules. The host derives all communication from it. Example: the first product of a
/// feed-forward layer, [batch seq embed] x [embed ffn] -> [batch seq ffn], on 2 x 2 ranks.
///   - The weight has both dimensions, so each rank stores one of its four tiles.
///   - The product sums over embed, of which each rank has half. The results are partial sums, so the
///     host adds a reduce_scatter over the rows.
///   - The result keeps ffn, so each rank has its columns' half of it.
class Grid final : public Strategy {
 public:
  Grid(int rows, int columns) : rows_(rows), columns_(columns) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{kRows, rows_}, {kColumns, columns_}}; }

  /// The host walks the rules by priority, lowest number first. An op uses an axis at most once.
  [[nodiscard]] std::vector<Rule> rules() const override {
    return {
        // One side of each weight matrix. Attention has heads, feed-forward layers have ffn, embedding and head have
        // vocab.
        over(kColumns, "heads", 10),
        over(kColumns, "kv_heads", 10),
        over(kColumns, "ffn", 10),
        over(kColumns, "vocab", 10),
        // The other side of each weight matrix: the width of the residual stream.
        over(kRows, "embed", 20),
        // Norms need embed whole, and attention has no embed. Without this rule, all ranks of a grid column would do
        // the same work in them. With it, each rank has a part of the tokens there. The number is the highest, so
        // products with a weight use the axis for embed.
        over(kRows, "seq", 90),
    };
  }

 private:
  static Rule over(const Axis& axis, const Dim& dim, int priority) {
    return {.dim = dim, .axis = axis, .priority = priority, .distribution = Distribution::block, .filter = {}};
  }

  int rows_;
  int columns_;
};

class GridFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<Grid>(static_cast<int>(options.integer("rows")),
                                  static_cast<int>(options.integer("columns")));
  }

 private:
  OptionSchema schema_{{.name = "rows",
                        .type = OptionType::integer,
                        .default_value = OptionValue(std::int64_t{2}),
                        .documentation = "Parts of the residual stream's width.",
                        .minimum = 1,
                        .maximum = 1024},
                       {.name = "columns",
                        .type = OptionType::integer,
                        .default_value = OptionValue(std::int64_t{2}),
                        .documentation = "Parts of the layers' inner widths: heads, feed-forward and vocabulary.",
                        .minimum = 1,
                        .maximum = 1024}};
};

}  // namespace
}  // namespace grid

STRATA_PLUGIN(strategy, "grid", "1.0.0", "MIT", "Weights cut into tiles over two axes.", grid::GridFactory);
