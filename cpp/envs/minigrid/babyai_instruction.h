// What BabyAI's missions ask for. Reference: minigrid/envs/babyai/core/verifier.py.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_BABYAI_INSTRUCTION_H_
#define TORCHRL_POOL_ENVS_MINIGRID_BABYAI_INSTRUCTION_H_

#include <bitset>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "world.h"

namespace torchrl_pool::minigrid {

enum Location { kAnywhere, kToTheLeft, kToTheRight, kInFront, kBehind };
constexpr Location kLocations[] = {kToTheLeft, kToTheRight, kInFront, kBehind};

constexpr int kMaxThings = 256, kMaxCells = 1024;

// Things, by what is said of them.
struct Description {
  std::optional<Type> type = {};
  std::optional<Color> color = {};
  Location location = kAnywhere;  // in the agent's room, as seen when the mission is given
  // Those it is about, and where they lie; both as of the last look.
  std::bitset<kMaxThings> things = {};
  std::bitset<kMaxCells> cells = {};

  bool Fits(const Thing& thing) const {
    return (!type || thing.type == *type) && (!color || thing.color == *color);
  }
  std::string Say() const;  // after a look at which things it is about
};

enum class Status : std::uint8_t { kGoesOn, kDone, kFailed };

// One thing to do.
struct Order {
  enum Verb : std::uint8_t { kGoTo, kOpen, kPickUp, kPutNext };
  Verb verb;
  Description what = {}, next_to = {};  // next_to: of kPutNext alone
  bool is_strict = false;               // trying it with another thing fails
  Id held = kNothing;                   // when it was checked last
  Status status = Status::kGoesOn;

  std::string Say() const;
};

// Orders that are to be carried out in any order.
using Orders = std::vector<Order>;

// One group of orders, or two, of which the second is to be carried out after the first.
struct Instruction {
  Orders first = {}, second = {};
  bool said_backwards = false;  // "second after you first"
  bool first_is_done = false;

  Instruction() = default;
  Instruction(Order order) : first{std::move(order)} {}  // NOLINT: an order is an instruction
  Instruction(Orders first, Orders second, bool said_backwards)
      : first(std::move(first)), second(std::move(second)), said_backwards(said_backwards) {}

  // For each group in the order in which they are said.
  template <class Function>
  void ForEach(const Function& function) {
    for (Orders* orders : {said_backwards ? &second : &first, said_backwards ? &first : &second}) {
      for (Order& order : *orders) function(order);
    }
  }
  std::string Say() const;
  int Navigations() const;  // how often the agent has to go somewhere
};

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_BABYAI_INSTRUCTION_H_
