// A grid with things and an agent in it: what MiniGrid's envs derive from, each with its own way to lay out
// an episode (Generate) and, where it is about more than reaching a goal, its own Step. Reference:
// minigrid/minigrid_env.py, minigrid/core/grid.py.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_WORLD_H_
#define TORCHRL_POOL_ENVS_MINIGRID_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "thing.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::minigrid {

enum Move { kLeft, kRight, kForward, kPickup, kDrop, kToggle, kDone, kActions };

struct Size {
  int width, height;
};

// Where a thing was to be placed nothing was free within so many tries. BabyAI's levels then begin anew.
struct TooManyTries : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class World {
 public:
  World(Size size, int max_steps, bool see_through_walls)
      : size_(size),
        sees_through_walls_(see_through_walls),
        max_steps_(max_steps),
        cells_(static_cast<std::size_t>(size.width * size.height)),
        things_(2) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  void Seed(Entropy entropy) { rng_ = Rng(entropy); }
  // Instead of what its constructor said.
  virtual void SetMaxSteps(int max_steps) { max_steps_ = max_steps; }

  virtual void Reset();
  // What happens once the first observation is written.
  virtual void Begin() {}
  virtual Outcome Step(int action);

  Size size() const { return size_; }
  bool sees_through_walls() const { return sees_through_walls_; }
  Pos agent() const { return agent_; }
  int direction() const { return direction_; }
  Id carrying() const { return carrying_; }
  const std::string& mission() const { return mission_; }

  bool Contains(Pos p) const { return p.x >= 0 && p.y >= 0 && p.x < size_.width && p.y < size_.height; }
  Id Get(Pos p) const { return cells_[Index(p)]; }
  const Thing& thing(Id id) const { return things_[id]; }

  // Throws InvalidArgument where a state could not have come from this world.
  template <class Visitor>
  void VisitState(Visitor& visit) {
    visit(rng_, cells_, things_, agent_);
    visit.Bounded(direction_, 0, 3);
    visit(carrying_, steps_, max_steps_, target_, place_);
    std::vector<char> mission(mission_.begin(), mission_.end());
    visit(mission);
    VisitMore(visit);
    if constexpr (Visitor::kReading) {
      mission_.assign(mission.begin(), mission.end());
      CheckState();
    }
  }

 protected:
  // An episode's things, agent and mission.
  virtual void Generate() = 0;
  virtual void VisitMore(internal::StateWriter&) {}
  virtual void VisitMore(internal::StateReader&) {}
  // Of more than the world: throws InvalidArgument.
  virtual void CheckMore() const {}

  // A step of an episode that ends once the target is picked up.
  Outcome EndOncePickedUp(int action) {
    const Outcome outcome = World::Step(action);
    if (action != kPickup || carrying_ == kNothing || carrying_ != target_) return outcome;
    return {.reward = Reward(), .terminated = true, .truncated = outcome.truncated};
  }
  double Reward() const { return 1 - 0.9 * (static_cast<double>(steps_) / max_steps_); }
  std::size_t Index(Pos p) const { return static_cast<std::size_t>(p.y * size_.width + p.x); }
  Pos Front() const { return agent_ + kDirections[direction_]; }

  // --- laying out
  void Clear() {
    std::fill(cells_.begin(), cells_.end(), kNothing);
    things_.assign(2, Thing{});
    target_ = kNothing;
    place_ = {};
  }
  void Set(Pos p, Id id) { cells_[Index(p)] = id; }
  Id Make(Type type, Color color, State state = kOpen) {
    if (things_.size() > 255) throw std::runtime_error("a world of more than 254 things");
    things_.push_back({type, color, state});
    return static_cast<Id>(things_.size() - 1);
  }
  void Put(Id id, Pos p) {
    Set(p, id);
    things_[id].at = p;
  }
  void HorizontalWall(int x, int y, int length, Id id = kGreyWall) {
    for (int i = 0; i < length; ++i) Set({x + i, y}, id);
  }
  void VerticalWall(int x, int y, int length, Id id = kGreyWall) {
    for (int j = 0; j < length; ++j) Set({x, y + j}, id);
  }
  void Walls(Pos top, Size size) {
    HorizontalWall(top.x, top.y, size.width);
    HorizontalWall(top.x, top.y + size.height - 1, size.width);
    VerticalWall(top.x, top.y, size.height);
    VerticalWall(top.x + size.width - 1, top.y, size.height);
  }
  // An empty room as large as the grid.
  void ClearRoom() {
    Clear();
    Walls({0, 0}, size_);
  }

  // --- drawing: as minigrid does, from the same numbers
  int Int(int low, int high) { return static_cast<int>(rng_.Integers(low, high)); }
  bool Bool() { return Int(0, 2) == 0; }
  Color AnyColor() { return kByName[Int(0, kColors)]; }
  template <class Items>
  auto Any(const Items& items) {
    return items[static_cast<std::size_t>(Int(0, static_cast<int>(std::size(items))))];
  }
  template <class T>
  std::vector<T> Subset(std::vector<T> items, int count) {
    std::vector<T> drawn;
    while (static_cast<int>(drawn.size()) < count) {
      const int n = Int(0, static_cast<int>(items.size()));
      drawn.push_back(items[static_cast<std::size_t>(n)]);
      items.erase(items.begin() + n);
    }
    return drawn;
  }

  // Puts a thing, or nothing, on an empty cell of a rectangle that `reject` does not reject; gives that cell.
  template <class Reject>
  Pos PlaceUnless(const Reject& reject, Id id, Pos top, Size size, int max_tries) {
    const int left = std::max<int>(top.x, 0), upper = std::max<int>(top.y, 0);
    for (int tries = 0; tries <= max_tries; ++tries) {
      const int x = Int(left, std::min(left + size.width, size_.width));
      const int y = Int(upper, std::min(upper + size.height, size_.height));
      const Pos p{x, y};
      if (Get(p) != kNothing || p == agent_ || reject(p)) continue;
      if (id != kNothing) Put(id, p);
      return p;
    }
    throw TooManyTries("nothing is free where a thing was to be placed");
  }
  // The reference goes on trying where no number is given; a world without a free cell ends here.
  static constexpr int kManyTries = 1000000;
  Pos Place(Id id, Pos top, Size size, int max_tries = kManyTries) {
    return PlaceUnless([](Pos) { return false; }, id, top, size, max_tries);
  }
  Pos Place(Id id) { return Place(id, {0, 0}, size_); }
  void PlaceAgent(Pos top, Size size, int max_tries = kManyTries) {
    agent_ = {};
    agent_ = Place(kNothing, top, size, max_tries);
    direction_ = Int(0, 4);
  }
  void PlaceAgent() { PlaceAgent({0, 0}, size_); }
  // A key, ball or box that is like none of these, added to them; nothing where one like it is drawn.
  Id MakeUnlike(std::vector<Id>& things) {
    const Type type = Any(kMovable);
    const Color color = AnyColor();
    const auto is_like = [&](Id id) { return things_[id].type == type && things_[id].color == color; };
    if (std::any_of(things.begin(), things.end(), is_like)) return kNothing;
    things.push_back(Make(type, color));
    return things.back();
  }
  void PutAgent(Pos p) {
    agent_ = p;
    direction_ = 0;
  }

  const Size size_;
  const bool sees_through_walls_;
  std::int32_t max_steps_;
  Rng rng_;
  std::vector<Id> cells_;  // row by row
  std::vector<Thing> things_;
  Pos agent_{0, 0};
  std::int32_t direction_ = 0;
  Id carrying_ = kNothing;
  std::int32_t steps_ = 0;
  std::string mission_;
  Id target_ = kNothing;  // what the episode is about, in worlds that are about a thing
  Pos place_{};           // or about a place

 private:
  void Toggle(Id id, Pos at);
  void CheckState() const;
};

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_WORLD_H_
