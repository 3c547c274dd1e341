// A level of BabyAI: rooms, and a mission that says what to do there.
// Reference: minigrid/envs/babyai/core/roomgrid_level.py.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_BABYAI_LEVEL_H_
#define TORCHRL_POOL_ENVS_MINIGRID_BABYAI_LEVEL_H_

#include "babyai_instruction.h"
#include "room_grid.h"

namespace torchrl_pool::minigrid {

// An episode that is drawn cannot be: another is drawn, from where the stream is.
struct Rejected {};

class Level : public RoomGrid {
 public:
  // max_steps: 0: as many as the mission's length and the size of the level ask for.
  Level(int room_size, int rows, int columns, int max_steps = 0)
      : RoomGrid(room_size, rows, columns, std::max(max_steps, 1)), has_fixed_steps_(max_steps > 0) {}

  void SetMaxSteps(int max_steps) override {
    has_fixed_steps_ = true;
    World::SetMaxSteps(max_steps);
  }
  void Reset() override;
  Outcome Step(int action) override;

 protected:
  // Things, the agent, and the instruction_.
  virtual void GenerateMission() = 0;
  // Whether a mission may not be about keys that are needed.
  virtual bool KeepsKeys() const { return false; }

  // Which things a description is about, and where they lie.
  void Look(Description& description) const;
  Description Like(Id id) const { return {.type = things_[id].type, .color = things_[id].color}; }
  static Order GoTo(Description what) { return {.verb = Order::kGoTo, .what = std::move(what)}; }
  static Order Open(Description what, bool is_strict = false) {
    return {.verb = Order::kOpen, .what = std::move(what), .is_strict = is_strict};
  }
  static Order PickUp(Description what, bool is_strict = false) {
    return {.verb = Order::kPickUp, .what = std::move(what), .is_strict = is_strict};
  }
  static Order PutNext(Description what, Description next_to) {
    return {.verb = Order::kPutNext, .what = std::move(what), .next_to = std::move(next_to)};
  }

  bool AreAllReachable() const;
  void RequireReachable() const {
    if (!AreAllReachable()) throw Rejected();
  }

  Instruction instruction_;

 private:
  void Generate() final;
  void LookAt(Order& order) const;
  void LookAgain(Description& description) const;
  void Validate(Order& order) const;
  bool IsNext(Id id, const Description& others) const;
  Status Check(Order& order, int action) const;
  Status Check(Orders& orders, int action) const;
  Status Check(int action);

  void VisitMore(internal::StateWriter& visit) override { Visit(visit); }
  void VisitMore(internal::StateReader& visit) override { Visit(visit); }
  void CheckMore() const override;
  template <class Visitor>
  void Visit(Visitor& visit);
  template <class Visitor>
  static void Visit(Visitor& visit, Orders& orders);

  bool has_fixed_steps_;
};

// The longest that descriptions and orders of theirs can be, in characters.
constexpr int kLongestThing = 15, kLongestPlace = 16;  // "the purple door", " in front of you"
constexpr int kLongestGoTo = 6 + kLongestThing, kLongestOpen = 5 + kLongestThing,
              kLongestPickUp = 8 + kLongestThing + 2,                             // "the purple object"
    kLongestPutNext = 4 + kLongestThing + 9 + kLongestThing, kLongestJoint = 11;  // " after you "

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_BABYAI_LEVEL_H_
