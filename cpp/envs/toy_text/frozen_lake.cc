// FrozenLake: cross a frozen lake from the start to the goal without falling into a hole.
// Reference: gymnasium/envs/toy_text/frozen_lake.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>

#include "categorical.h"
#include "picture.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::toy_text {
namespace {

using Map = std::vector<std::string>;

const std::map<std::string, Map> kMaps = {
    {"4x4", {"SFFF", "FHFH", "FFFH", "HFFG"}},
    {"8x8", {"SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"}},
};

// The cell that a move leads to; on the border it leads nowhere.
std::int64_t Move(std::int64_t cell, std::int64_t direction, std::int64_t rows, std::int64_t columns) {
  std::int64_t row = cell / columns, column = cell % columns;
  switch (direction) {
    case 0:
      column = std::max<std::int64_t>(column - 1, 0);
      break;
    case 1:
      row = std::min(row + 1, rows - 1);
      break;
    case 2:
      column = std::min(column + 1, columns - 1);
      break;
    default:
      row = std::max<std::int64_t>(row - 1, 0);
  }
  return row * columns + column;
}

// A random 8x8 map on which the goal can be reached, four cells in five frozen.
Map RandomMap() {
  constexpr std::int64_t kSize = 8;
  std::mt19937_64 random(std::random_device{}());
  while (true) {
    std::string cells;
    for (std::int64_t i = 0; i < kSize * kSize; ++i) cells += random() % 5 == 0 ? 'H' : 'F';
    cells.front() = 'S';
    cells.back() = 'G';
    std::vector<std::int64_t> reached = {0};
    std::string seen(cells.size(), ' ');
    for (std::size_t next = 0; next < reached.size(); ++next) {
      const std::int64_t from = reached[next];
      for (std::int64_t direction = 0; direction < 4; ++direction) {
        const std::int64_t to = Move(from, direction, kSize, kSize);
        if (cells[static_cast<std::size_t>(to)] == 'H' || seen[static_cast<std::size_t>(to)] == 'x') continue;
        seen[static_cast<std::size_t>(to)] = 'x';
        reached.push_back(to);
      }
    }
    if (seen.back() != 'x') continue;
    Map map;
    for (std::size_t row = 0; row < kSize; ++row) map.push_back(cells.substr(row * kSize, kSize));
    return map;
  }
}

// The defaults of two registered tasks, which differ in the map alone.
template <bool large>
class FrozenLake {
 public:
  struct Options {
    std::optional<Map> desc;
    std::optional<std::string> map_name = large ? "8x8" : "4x4";
    bool is_slippery = true;
    double success_rate = 1.0 / 3.0;
    std::array<double, 3> reward_schedule = {1, 0, 0};

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("desc", desc,
            "rows of the map, of S (start), F (frozen), H (hole), G (goal); None: see map_name");
      visit("map_name", map_name,
            "map where no desc is given; None: a random 8x8 map, the same for all envs of a pool",
            {.choices = {"4x4", "8x8"}});
      visit("is_slippery", is_slippery, "moves may go to either side of where they were meant to");
      visit("success_rate", success_rate, "probability of the meant move on slippery ice",
            {.minimum = 0, .maximum = 1});
      visit("reward_schedule", reward_schedule, "rewards for reaching a goal, a hole, a frozen cell");
    }

    void Open() {
      map = desc ? *desc : map_name ? kMaps.at(*map_name) : RandomMap();
      if (map.empty() || map[0].empty()) throw InvalidArgument("option 'desc': the map has no cells");
      rows = static_cast<std::int64_t>(map.size());
      columns = static_cast<std::int64_t>(map[0].size());
      for (const auto& row : map) {
        if (row.size() != map[0].size()) throw InvalidArgument("option 'desc': its rows differ in length");
        cells += row;
      }
      const auto starts = std::count(cells.begin(), cells.end(), 'S');
      if (starts == 0) throw InvalidArgument("option 'desc': the map has no start (S)");
      std::vector<double> probabilities;
      for (const char cell : cells) probabilities.push_back((cell == 'S') / static_cast<double>(starts));
      start = Categorical(probabilities);
      const double fail_rate = (1.0 - success_rate) / 2.0;
      sliding = {fail_rate, success_rate, fail_rate};
      slip = Categorical(sliding);
    }

    Map map;
    std::string cells;  // row by row
    std::int64_t rows = 0, columns = 0;
    Categorical start{}, slip{};
    std::array<double, 3> sliding{};
  };

  static Specs MakeSpecs(const Options& options) {
    return {Observation("observation", Discrete(options.rows * options.columns), "cell, counted row by row"),
            Action("action", Discrete(4), "left, down, right, up"),
            Info("prob", Box<double>({}, 0, 1), "probability of the last transition")};
  }

  explicit FrozenLake(const Options& options) : options_(options) {}

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }

  void Reset(Row& row) {
    cell_ = options_.start.Draw(rng_);
    Write(row, 1);
  }

  Outcome Step(Row& row) {
    if (IsEnd()) {  // whoever steps on stays where the episode ended
      rng_.Random();
      Write(row, 1);
      return {.reward = 0, .terminated = true};
    }
    std::int64_t direction = row.Action<std::int64_t>()[0];
    double probability = 1;
    if (options_.is_slippery) {
      const std::int64_t side = options_.slip.Draw(rng_);  // 0: to the left of the meant direction
      direction = (direction + side + 3) % 4;
      probability = options_.sliding[static_cast<std::size_t>(side)];
    } else {
      rng_.Random();
    }
    cell_ = Move(cell_, direction, options_.rows, options_.columns);
    Write(row, probability);
    const std::size_t kind = Letter() == 'G' ? 0 : Letter() == 'H' ? 1 : 2;
    return {.reward = options_.reward_schedule[kind], .terminated = IsEnd()};
  }

  static ImageSize RenderSize(const Options& options) {
    constexpr std::int64_t kCell = 64, kLargest = 512;
    return {std::min(kCell * options.rows, kLargest), std::min(kCell * options.columns, kLargest)};
  }

  void Render(std::uint8_t* rgb) const { Drawing(options_, rgb).Draw(cell_); }

  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_);
    visit.Bounded(cell_, 0, static_cast<std::int64_t>(options_.cells.size()) - 1);
  }

 private:
  // A picture of the map: tiles that fill a cell each, and things on them that keep their proportions.
  class Drawing {
   public:
    Drawing(const Options& options, std::uint8_t* rgb)
        : options_(options),
          picture_(rgb, RenderSize(options), pictures::kBlack),
          width_(picture_.width() / options.columns),
          height_(picture_.height() / options.rows) {}

    void Draw(std::int64_t agent) {
      const auto tile = [this](const char* name) { return Load(name, height_, width_); };
      const auto ice = tile("tile_ice"), hole = tile("tile_hole");
      const auto crack_a = tile("tile_ice_crack_a"), crack_b = tile("tile_ice_crack_b");
      for (std::int64_t cell = 0; cell < options_.rows * options_.columns; ++cell) {
        const std::int64_t column = cell % options_.columns, row = cell / options_.columns;
        const std::int64_t x = column * width_, y = row * height_;
        const char letter = options_.cells[static_cast<std::size_t>(cell)];
        picture_.Blit(letter == 'H' ? hole : ice, x, y);
        const std::int64_t crack = (column * 3 + row * 5) % 7;
        if (letter == 'F' && crack < 2) picture_.Blit(crack == 0 ? crack_a : crack_b, x, y);
        if (letter == 'S') PutInCorner("letter_s", x, y);
        if (letter == 'G') {
          const auto flag = Thing("goal_flag", 24, 32);
          picture_.Blit(flag, x + (width_ - flag.width) / 2,
                        y + height_ - flag.height - Share(height_, 0.12));
          PutInCorner("letter_g", x, y);
        }
        picture_.Frame(x, y, width_, height_, {180, 200, 230});
      }
      if (options_.cells[static_cast<std::size_t>(agent)] == 'H') return;
      const auto image = Thing("agent", 40, 36);
      picture_.Blit(image, agent % options_.columns * width_ + (width_ - image.width) / 2,
                    agent / options_.columns * height_ + (height_ - image.height) / 2);
    }

   private:
    static std::int64_t Share(std::int64_t size, double share) {
      return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(size) * share));
    }
    static pictures::Image Load(const std::string& name, std::int64_t height, std::int64_t width) {
      return pictures::Scaled(pictures::GymnasiumImage("toy_text/img/" + name), height, width);
    }
    // Drawn for a cell of 64 pixels.
    pictures::Image Thing(const std::string& name, std::int64_t width, std::int64_t height) const {
      const double scale = static_cast<double>(std::min(width_, height_)) / 64;
      const auto scaled = [scale](std::int64_t size) {
        return std::max<std::int64_t>(1, Share(size, scale));
      };
      return Load(name, scaled(height), scaled(width));
    }
    void PutInCorner(const std::string& name, std::int64_t x, std::int64_t y) {
      const std::int64_t margin = Share(width_, 0.06);
      picture_.Blit(Thing(name, 12, 20), x + margin, y + margin);
    }

    const Options& options_;
    pictures::Picture picture_;
    const std::int64_t width_, height_;  // of a cell (pixels)
  };

  char Letter() const { return options_.cells[static_cast<std::size_t>(cell_)]; }
  bool IsEnd() const { return Letter() == 'G' || Letter() == 'H'; }

  void Write(Row& row, double probability) const {
    row.Out<std::int64_t>(0)[0] = cell_;
    if (double* prob = row.Out<double>(1)) *prob = probability;
  }

  const Options& options_;
  Rng rng_;
  std::int64_t cell_ = 0;
};

const bool registered = Register<FrozenLake<false>>({.id = "FrozenLake-v1",
                                                     .description = "cross slippery ice between holes",
                                                     .max_episode_steps = 100,
                                                     .reward_threshold = 0.70}) &&
                        Register<FrozenLake<true>>({.id = "FrozenLake8x8-v1",
                                                    .description = "cross slippery ice between holes",
                                                    .max_episode_steps = 200,
                                                    .reward_threshold = 0.85});

}  // namespace
}  // namespace torchrl_pool::toy_text
