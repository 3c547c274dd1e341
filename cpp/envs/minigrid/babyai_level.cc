#include "babyai_level.h"

namespace torchrl_pool::minigrid {

void Level::Reset() {
  World::Reset();
  if (!has_fixed_steps_) {
    max_steps_ = instruction_.Navigations() * room_size_ * room_size_ * rows_ * columns_;
  }
}

void Level::Generate() {
  for (;;) {
    try {
      RoomGrid::Generate();
      instruction_ = {};
      GenerateMission();
      instruction_.ForEach([this](Order& order) {
        LookAt(order);
        Validate(order);
      });
      mission_ = instruction_.Say();
      return;
    } catch (const Rejected&) {
    } catch (const TooManyTries&) {
    }
  }
}

Outcome Level::Step(int action) {
  Outcome outcome = World::Step(action);
  if (action == kDrop) {
    instruction_.ForEach([this](Order& order) {
      LookAgain(order.what);
      if (order.verb == Order::kPutNext) LookAgain(order.next_to);
    });
  }
  const Status status = Check(action);
  if (status == Status::kGoesOn) return outcome;
  const double reward = status == Status::kDone ? Reward() : 0;
  return {.reward = reward, .terminated = true, .truncated = outcome.truncated};
}

void Level::Look(Description& description) const {
  description.things.reset();
  description.cells.reset();
  const Room& room = RoomOf(agent_);
  const Pos ahead = kDirections[direction_], right = kDirections[(direction_ + 1) % 4];
  const auto is_there = [&](Pos p) {
    if (description.location == kAnywhere) return true;
    const Pos way = p - agent_;
    const int along = way.x * ahead.x + way.y * ahead.y, across = way.x * right.x + way.y * right.y;
    const int side[] = {0, -across, across, along, -along};
    return IsInside(room, p) && side[description.location] > 0;
  };
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    const Id id = cells_[cell];
    if (id == kNothing || !description.Fits(things_[id])) continue;
    const int n = static_cast<int>(cell);
    if (!is_there({n % size_.width, n / size_.width})) continue;
    description.things.set(id);
    description.cells.set(cell);
  }
}

void Level::LookAt(Order& order) const {
  Look(order.what);
  if (order.verb == Order::kPutNext) Look(order.next_to);
}

void Level::LookAgain(Description& description) const {
  description.cells.reset();
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    const Id id = cells_[cell];
    if (id != kNothing && description.things[id] && description.Fits(things_[id]))
      description.cells.set(cell);
  }
}

bool Level::IsNext(Id id, const Description& others) const {
  for (const Pos direction : kDirections) {
    const Pos p = things_[id].at + direction;
    if (Contains(p) && others.cells[Index(p)]) return true;
  }
  return false;
}

void Level::Validate(Order& order) const {
  if (order.verb == Order::kPutNext) {
    if ((order.what.things & order.next_to.things).any()) throw Rejected();
    for (std::size_t id = 0; id < things_.size(); ++id) {
      if (order.what.things[id] && IsNext(static_cast<Id>(id), order.next_to)) throw Rejected();
    }
  }
  if (!KeepsKeys()) return;
  for (const Thing& door : things_) {
    if (door.type != kDoor || door.state != kLocked) continue;
    for (const Description* description : {&order.what, &order.next_to}) {
      if (description->type == kKey && description->color == door.color) throw Rejected();
    }
  }
}

Status Level::Check(Order& order, int action) const {
  const Id before = order.held;
  switch (order.verb) {
    case Order::kGoTo: {
      const Pos front = Front();
      return Contains(front) && order.what.cells[Index(front)] ? Status::kDone : Status::kGoesOn;
    }
    case Order::kOpen: {
      if (action != kToggle || !Contains(Front())) return Status::kGoesOn;
      const Id front = Get(Front());
      if (front == kNothing || things_[front].type != kDoor) return Status::kGoesOn;
      if (order.what.things[front] && things_[front].state == kOpen) return Status::kDone;
      return order.is_strict ? Status::kFailed : Status::kGoesOn;
    }
    case Order::kPickUp:
      order.held = carrying_;
      if (action != kPickup || carrying_ == kNothing) return Status::kGoesOn;
      if (before == kNothing && order.what.things[carrying_]) return Status::kDone;
      return order.is_strict ? Status::kFailed : Status::kGoesOn;
    default:
      order.held = carrying_;
      if (action != kDrop || before == kNothing || !order.what.things[before]) return Status::kGoesOn;
      return IsNext(before, order.next_to) ? Status::kDone : Status::kGoesOn;
  }
}

// What fails among several goes on.
Status Level::Check(Orders& orders, int action) const {
  if (orders.size() == 1) return Check(orders.front(), action);
  bool is_done = true;
  for (Order& order : orders) {
    if (order.status != Status::kDone) order.status = Check(order, action);
    is_done = is_done && order.status == Status::kDone;
  }
  return is_done ? Status::kDone : Status::kGoesOn;
}

Status Level::Check(int action) {
  if (instruction_.second.empty()) return Check(instruction_.first, action);
  if (!instruction_.first_is_done) {
    const Status status = Check(instruction_.first, action);
    if (status != Status::kDone) return status;
    instruction_.first_is_done = true;
  }
  return Check(instruction_.second, action);
}

bool Level::AreAllReachable() const {
  std::bitset<kMaxCells> reached;
  std::vector<Pos> edge{agent_};
  while (!edge.empty()) {
    const Pos p = edge.back();
    edge.pop_back();
    if (!Contains(p) || reached[Index(p)]) continue;
    reached.set(Index(p));
    const Id id = Get(p);
    if (id != kNothing && things_[id].type != kDoor) continue;
    for (const Pos direction : kDirections) edge.push_back(p + direction);
  }
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    const Id id = cells_[cell];
    if (id != kNothing && things_[id].type != kWall && !reached[cell]) return false;
  }
  return true;
}

void Level::CheckMore() const {
  for (const Orders* orders : {&instruction_.first, &instruction_.second}) {
    for (const Order& order : *orders) {
      if (order.held >= things_.size())
        throw InvalidArgument("corrupt saved state: a value is out of its range");
    }
  }
}

template <class Visitor>
void Level::Visit(Visitor& visit) {
  visit(instruction_.said_backwards, instruction_.first_is_done);
  Visit(visit, instruction_.first);
  Visit(visit, instruction_.second);
}

template <class Visitor>
void Level::Visit(Visitor& visit, Orders& orders) {
  auto count = static_cast<std::int32_t>(orders.size());
  visit.Bounded(count, 0, 2);
  if constexpr (Visitor::kReading)
    orders.resize(static_cast<std::size_t>(count), Order{.verb = Order::kGoTo});
  for (Order& order : orders) {
    visit.Bounded(order.verb, Order::kGoTo, Order::kPutNext);
    visit(order.is_strict, order.held);
    visit.Bounded(order.status, Status::kGoesOn, Status::kFailed);
    for (Description* description : {&order.what, &order.next_to}) {
      auto type = static_cast<std::int32_t>(description->type.value_or(kUnseen));
      auto color = static_cast<std::int32_t>(description->color ? *description->color : kColors);
      visit.Bounded(type, kUnseen, kLava);
      visit.Bounded(color, 0, kColors);
      if constexpr (Visitor::kReading) {
        description->type.reset();
        description->color.reset();
        if (type != kUnseen) description->type = static_cast<Type>(type);
        if (color != kColors) description->color = static_cast<Color>(color);
      }
      visit(description->things, description->cells);
    }
  }
}
template void Level::Visit(internal::StateWriter&);
template void Level::Visit(internal::StateReader&);

}  // namespace torchrl_pool::minigrid
