#include "world.h"

#include <limits>

namespace torchrl_pool::minigrid {

void World::Reset() {
  agent_ = {};
  direction_ = 0;
  try {
    Generate();
  } catch (...) {
    agent_ = {0, 0};  // in the grid, whatever comes next
    throw;
  }
  carrying_ = kNothing;
  steps_ = 0;
}

Outcome World::Step(int action) {
  ++steps_;
  const Pos front = Front();
  if (!Contains(front))
    throw std::runtime_error("the agent looks out of the grid: reset after an episode's end");
  const Id id = Get(front);
  const Thing& thing = things_[id];
  Outcome outcome;
  switch (action) {
    case kLeft:
      direction_ = (direction_ + 3) % 4;
      break;
    case kRight:
      direction_ = (direction_ + 1) % 4;
      break;
    case kForward:
      if (id == kNothing || thing.CanOverlap()) agent_ = front;
      if (id != kNothing && thing.type == kGoal) outcome = {.reward = Reward(), .terminated = true};
      if (id != kNothing && thing.type == kLava) outcome.terminated = true;
      break;
    case kPickup:
      if (id != kNothing && thing.CanPickup() && carrying_ == kNothing) {
        carrying_ = id;
        things_[id].at = {};
        Set(front, kNothing);
      }
      break;
    case kDrop:
      if (id == kNothing && carrying_ != kNothing) {
        Put(carrying_, front);
        carrying_ = kNothing;
      }
      break;
    case kToggle:
      if (id != kNothing) Toggle(id, front);
      break;
    default:
      break;
  }
  outcome.truncated = steps_ >= max_steps_;
  return outcome;
}

void World::Toggle(Id id, Pos at) {
  Thing& thing = things_[id];
  if (thing.type == kBox) {
    Set(at, thing.contains);
  } else if (thing.type == kDoor && thing.state == kLocked) {
    const Thing& held = things_[carrying_];
    const bool opens = carrying_ != kNothing && held.type == kKey && held.color == thing.color;
    if (opens) thing.state = kOpen;
  } else if (thing.type == kDoor) {
    thing.state = thing.state == kOpen ? kClosed : kOpen;
  }
}

void World::CheckState() const {
  const auto is_thing = [this](Id id) { return id < things_.size(); };
  const auto is_valid = [&](const Thing& thing) {
    const bool somewhere = thing.at == Pos() || Contains(thing.at);
    return thing.IsValid() && somewhere && is_thing(thing.contains);
  };
  const bool valid = cells_.size() == static_cast<std::size_t>(size_.width * size_.height) &&
                     things_.size() >= 2 && things_.size() <= 256 && Contains(agent_) &&
                     is_thing(carrying_) && is_thing(target_) && max_steps_ > 0 && steps_ >= 0 &&
                     steps_ < std::numeric_limits<std::int32_t>::max() &&
                     std::all_of(cells_.begin(), cells_.end(), is_thing) &&
                     std::all_of(things_.begin(), things_.end(), is_valid);
  if (!valid) throw InvalidArgument("corrupt saved state: a value is out of its range");
  CheckMore();
}

}  // namespace torchrl_pool::minigrid
