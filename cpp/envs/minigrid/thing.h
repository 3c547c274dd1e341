// What lies in a grid: things, their colours, and where they are. Numbers and names are minigrid's.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_THING_H_
#define TORCHRL_POOL_ENVS_MINIGRID_THING_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace torchrl_pool::minigrid {

enum Type : std::uint8_t { kUnseen, kEmpty, kWall, kFloor, kDoor, kKey, kBall, kBox, kGoal, kLava, kAgent };
enum Color : std::uint8_t { kRed, kGreen, kBlue, kPurple, kYellow, kGrey };
enum State : std::uint8_t { kOpen, kClosed, kLocked };
constexpr int kTypes = 11, kColors = 6, kStates = 3;

// Random colours are drawn by name, in the alphabet's order, which is not that of the numbers.
constexpr Color kByName[kColors] = {kBlue, kGreen, kGrey, kPurple, kRed, kYellow};
constexpr const char* kColorNames[kColors] = {"red", "green", "blue", "purple", "yellow", "grey"};
constexpr const char* kTypeNames[kTypes] = {"unseen", "empty", "wall", "floor", "door", "key",
                                            "ball",   "box",   "goal", "lava",  "agent"};
constexpr Type kMovable[] = {kKey, kBall, kBox};

struct Pos {
  std::int8_t x = -1, y = -1;  // nowhere: carried, or of no interest

  constexpr Pos() = default;
  constexpr Pos(int x, int y) : x(static_cast<std::int8_t>(x)), y(static_cast<std::int8_t>(y)) {}
  bool operator==(const Pos&) const = default;
  Pos operator+(Pos other) const { return {x + other.x, y + other.y}; }
  Pos operator-(Pos other) const { return {x - other.x, y - other.y}; }
  Pos operator*(int factor) const { return {x * factor, y * factor}; }
};
// Of an agent that looks right, down, left, up.
constexpr Pos kDirections[4] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
inline int Distance(Pos a, Pos b) { return std::abs(a.x - b.x) + std::abs(a.y - b.y); }

// A thing's number in its world. Cells hold these, for missions are about things, not about their kinds.
using Id = std::uint8_t;
constexpr Id kNothing = 0, kGreyWall = 1;  // all grey walls are one thing

struct Thing {
  Type type = kWall;
  Color color = kGrey;
  State state = kOpen;
  Id contains = kNothing;
  Pos at{};

  bool CanOverlap() const {
    return type == kGoal || type == kFloor || type == kLava || (type == kDoor && state == kOpen);
  }
  bool CanPickup() const { return type == kKey || type == kBall || type == kBox; }
  bool CanSeeBehind() const { return type != kWall && !(type == kDoor && state != kOpen); }
  bool IsValid() const {
    return type >= kWall && type <= kLava && color < kColors &&
           (type == kDoor ? state < kStates : state == 0);
  }
};
static_assert(std::has_unique_object_representations_v<Thing>);  // saved states hold all bytes

inline std::string NameOf(const Thing& thing) {
  return std::string(kColorNames[thing.color]) + " " + kTypeNames[thing.type];
}

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_THING_H_
