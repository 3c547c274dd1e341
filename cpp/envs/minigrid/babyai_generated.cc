// Levels whose missions are drawn from all that BabyAI can say.
// Reference: minigrid/envs/babyai/core/levelgen.py, synth.py, GoToSeq, PickupLoc.
#include "babyai_level.h"
#include "task.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr Type kThings[] = {kBox, kBall, kKey, kDoor}, kNoDoors[] = {kBox, kBall, kKey}, kDoors[] = {kDoor};

struct Rules {
  int room_size = 8, rows = 3, columns = 3;
  int distractors = 18;
  double locked_room = 0.5;      // probability that there is one
  bool has_locations = true;     // things may be told by where they lie
  bool unblocks = true;          // things may be in the way, and keys are kept for their doors
  bool unlocks_silently = true;  // a mission's things may all be in a locked room
  std::vector<Order::Verb> verbs = {Order::kGoTo, Order::kPickUp, Order::kOpen, Order::kPutNext};
  bool has_sequences = true;  // and not one order only
};

class Generated : public Level {
 public:
  explicit Generated(const Rules& rules) : Level(rules.room_size, rules.rows, rules.columns), rules_(rules) {}

  static Missions MissionsOf(const Rules& rules) {
    const int place = rules.has_locations ? kLongestPlace : 0;
    int longest = 0;
    for (const Order::Verb verb : rules.verbs) {
      constexpr int kLongest[] = {kLongestGoTo, kLongestOpen, kLongestPickUp, kLongestPutNext};
      longest = std::max(longest, kLongest[verb] + (verb == Order::kPutNext ? 2 : 1) * place);
    }
    constexpr int kAnd = 5;
    return UpTo(rules.has_sequences ? 2 * (2 * longest + kAnd) + kLongestJoint : longest);
  }

 private:
  bool KeepsKeys() const override { return rules_.unblocks; }

  void GenerateMission() override {
    locked_ = nullptr;
    if (rng_.Uniform(0, 1) < rules_.locked_room) AddLockedRoom();
    ConnectAll();
    AddDistractors(nullptr, rules_.distractors, false);
    do {
      PlaceAgentAnywhere();
    } while (&RoomOf(agent_) == locked_);
    if (!rules_.unblocks) RequireReachable();
    instruction_ = AnyInstruction();
  }

  void AddLockedRoom() {
    Side side;
    do {
      locked_ = &AnyRoom();
      side = static_cast<Side>(Int(0, 4));
    } while (!locked_->neighbors[side]);
    const Id door = AddDoor(*locked_, side, true);
    Room* with_key;
    do {
      with_key = &AnyRoom();
    } while (with_key == locked_);
    AddObject(*with_key, kKey, things_[door].color);
  }

  template <class Types>
  Description AnyThing(const Types& types) {
    constexpr int kTries = 100;
    for (int tries = 0; tries <= kTries; ++tries) {
      Description thing;
      const int color = Int(0, kColors + 1);  // 0: none
      if (color > 0) thing.color = kByName[color - 1];
      thing.type = Any(types);
      if (rules_.has_locations && Bool()) thing.location = Any(kLocations);
      Look(thing);
      if (thing.things.none() || (!rules_.unlocks_silently && IsLockedAway(thing))) continue;
      return thing;
    }
    throw TooManyTries("no thing fits a mission");
  }

  bool IsLockedAway(const Description& thing) const {
    if (!locked_) return false;
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
      const int n = static_cast<int>(cell);
      if (thing.cells[cell] && !IsInside(*locked_, {n % size_.width, n / size_.width})) return false;
    }
    return true;
  }

  Order AnyOrder() {
    switch (Any(rules_.verbs)) {
      case Order::kGoTo:
        return GoTo(AnyThing(kThings));
      case Order::kPickUp:
        return PickUp(AnyThing(kNoDoors));
      case Order::kOpen:
        return Open(AnyThing(kDoors));
      default: {
        Description moved = AnyThing(kNoDoors);
        return PutNext(std::move(moved), AnyThing(kThings));
      }
    }
  }

  Orders BothOrders() {
    Orders orders{AnyOrder()};
    orders.push_back(AnyOrder());
    return orders;
  }

  Orders OneOrTwo() {
    if (Int(0, 2) == 1) return BothOrders();
    return {AnyOrder()};
  }

  Instruction AnyInstruction() {
    switch (Int(0, rules_.has_sequences ? 3 : 1)) {
      case 0:
        return AnyOrder();
      case 1:
        return {BothOrders(), {}, false};
      default: {
        Orders a = OneOrTwo(), b = OneOrTwo();
        if (Bool()) return {std::move(a), std::move(b), false};
        return {std::move(b), std::move(a), true};
      }
    }
  }

  const Rules rules_;
  Room* locked_ = nullptr;
};

struct Named {
  std::string id;
  Rules rules;
};

// Each with missions as long as its own rules allow.
bool RegisterGenerated(const std::string& description, const std::vector<Named>& all) {
  for (const auto& [id, rules] : all) {
    RegisterKind({.description = description,
                  .missions = Generated::MissionsOf(rules),
                  .tasks = {{id, New<Generated>(rules)}}});
  }
  return true;
}

const bool registered =
    RegisterGenerated("pick up a thing that the mission may tell by its place",
                      {{"BabyAI-PickupLoc-v0",
                        {.rows = 1,
                         .columns = 1,
                         .distractors = 8,
                         .locked_room = 0,
                         .unblocks = false,
                         .verbs = {Order::kPickUp},
                         .has_sequences = false}}}) &&
    RegisterGenerated(
        "go to things in the order that the mission tells",
        {{"BabyAI-GoToSeq-v0",
          {.locked_room = 0, .has_locations = false, .unblocks = false, .verbs = {Order::kGoTo}}},
         {"BabyAI-GoToSeqS5R2-v0",
          {.room_size = 5,
           .rows = 2,
           .columns = 2,
           .distractors = 4,
           .locked_room = 0,
           .has_locations = false,
           .unblocks = false,
           .verbs = {Order::kGoTo}}}}) &&
    RegisterGenerated(
        "one order of any kind in a maze of rooms",
        {{"BabyAI-Synth-v0", {.has_locations = false, .unlocks_silently = false, .has_sequences = false}},
         {"BabyAI-SynthS5R2-v0",
          {.room_size = 5,
           .rows = 2,
           .has_locations = false,
           .unlocks_silently = false,
           .has_sequences = false}}}) &&
    RegisterGenerated("one order of any kind, with things told by their places",
                      {{"BabyAI-SynthLoc-v0", {.unlocks_silently = false, .has_sequences = false}}}) &&
    RegisterGenerated("orders of any kind in a maze of rooms",
                      {{"BabyAI-SynthSeq-v0", {.unlocks_silently = false}}}) &&
    RegisterGenerated("orders of any kind in four small rooms",
                      {{"BabyAI-MiniBossLevel-v0",
                        {.room_size = 5, .rows = 2, .columns = 2, .distractors = 7, .locked_room = 0.25}}}) &&
    RegisterGenerated("orders of any kind, also about what is locked away", {{"BabyAI-BossLevel-v0", {}}}) &&
    RegisterGenerated("orders of any kind in a maze without locked rooms",
                      {{"BabyAI-BossLevelNoUnlock-v0", {.locked_room = 0, .unlocks_silently = false}}});

}  // namespace
}  // namespace torchrl_pool::minigrid
