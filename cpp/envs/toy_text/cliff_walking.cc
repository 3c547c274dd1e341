// CliffWalking: walk along a cliff to the goal; who falls off begins again.
// Sutton and Barto (2018), example 6.6; reference: gymnasium/envs/toy_text/cliffwalking.py.
#include <algorithm>
#include <string>

#include "categorical.h"
#include "picture.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::toy_text {
namespace {

constexpr std::int64_t kRows = 4, kColumns = 12;
constexpr std::int64_t kStart = (kRows - 1) * kColumns;
constexpr std::int64_t kGoal = kRows * kColumns - 1;
constexpr std::int64_t kCellSize = 64;  // of pictures (pixels)

// The defaults of two registered tasks.
template <bool slippery>
class CliffWalking {
 public:
  struct Options {
    bool is_slippery = slippery;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("is_slippery", is_slippery, "two moves in three go to a side of where they were meant to");
    }
  };

  static Specs MakeSpecs(const Options&) {
    return {Observation("observation", Discrete(kRows * kColumns), "cell, counted row by row"),
            Action("action", Discrete(4), "up, right, down, left"),
            Info("prob", Box<double>({}, 0, 1), "probability of the last transition")};
  }

  explicit CliffWalking(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row) {
    rng_.Random();  // the reference draws among cells of which one has all the probability
    cell_ = kStart;
    Write(row, 1);
  }

  Outcome Step(Row& row) {
    static const Categorical kSlip{1.0 / 3, 1.0 / 3, 1.0 / 3};
    std::int64_t direction = row.Action<std::int64_t>()[0];
    if (options_.is_slippery) {
      direction = (direction + kSlip.Draw(rng_) + 3) % 4;
    } else {
      rng_.Random();
    }
    constexpr std::int64_t kDown[] = {-1, 0, 1, 0}, kRight[] = {0, 1, 0, -1};
    const std::int64_t y = std::clamp<std::int64_t>(cell_ / kColumns + kDown[direction], 0, kRows - 1);
    const std::int64_t x = std::clamp<std::int64_t>(cell_ % kColumns + kRight[direction], 0, kColumns - 1);
    const bool falls = y == kRows - 1 && x > 0 && x < kColumns - 1;
    cell_ = falls ? kStart : y * kColumns + x;
    Write(row, options_.is_slippery ? 1.0 / 3 : 1.0);
    return {.reward = falls ? -100.0 : -1.0, .terminated = cell_ == kGoal};
  }

  static ImageSize RenderSize(const Options&) { return {kRows * kCellSize, kColumns * kCellSize}; }

  void Render(std::uint8_t* rgb) const {
    pictures::Picture picture(rgb, RenderSize(options_), pictures::kBlack);
    for (std::int64_t cell = 0; cell < kRows * kColumns; ++cell) {
      const std::int64_t column = cell % kColumns, x = column * kCellSize, y = cell / kColumns * kCellSize;
      const auto draw = [&](const std::string& name, std::int64_t dx, std::int64_t dy) {
        picture.Blit(pictures::GymnasiumImage("toy_text/img/cliff_walking/" + name), x + dx, y + dy);
      };
      draw("tile_ground", 0, 0);
      if (cell > kStart && cell < kGoal) {
        const char* middle = column % 2 == 0 ? "mid_a" : "mid_b";
        const char* part = column == 1 ? "left" : column == kColumns - 2 ? "right" : middle;
        draw(std::string("tile_cliff_") + part, 0, 0);
      }
      if (cell == kStart) draw("letter_s", 8, 8);
      if (cell == kGoal) {
        draw("letter_g", 8, 8);
        draw("goal_flag", 28, 16);
      }
      if (cell == cell_) draw("agent", 20, 20);
    }
  }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    visit.Bounded(cell_, 0, kRows * kColumns - 1);
  }

 private:
  void Write(Row& row, double probability) const {
    row.Out<std::int64_t>(0)[0] = cell_;
    if (double* prob = row.Out<double>(1)) *prob = probability;
  }

  const Options& options_;
  Rng rng_;
  std::int64_t cell_ = 0;
};

const bool registered =
    Register<CliffWalking<false>>(
        {.id = "CliffWalking-v1", .description = "walk along a cliff without falling off"}) &&
    Register<CliffWalking<true>>(
        {.id = "CliffWalkingSlippery-v1", .description = "walk along a slippery cliff without falling off"});

}  // namespace
}  // namespace torchrl_pool::toy_text
