#include "room_grid.h"

namespace torchrl_pool::minigrid {
namespace {

constexpr int kPlacingTries = 1000, kConnections = 5000;

}  // namespace

void RoomGrid::Generate() {
  Clear();
  in_rooms_.clear();
  const int step = room_size_ - 1;
  rooms_.assign(static_cast<std::size_t>(rows_ * columns_), Room{});
  for (int j = 0; j < rows_; ++j) {
    for (int i = 0; i < columns_; ++i) {
      RoomAt(i, j).top = {i * step, j * step};
      Walls({i * step, j * step}, {room_size_, room_size_});
    }
  }
  for (int j = 0; j < rows_; ++j) {
    for (int i = 0; i < columns_; ++i) {
      Room& room = RoomAt(i, j);
      const auto join = [&room](Room& other, Side side, Pos place) {
        room.neighbors[side] = &other;
        other.neighbors[side + 2] = &room;
        room.door_places[side] = other.door_places[side + 2] = place;
      };
      const Pos end = room.top + Pos{step, step};
      if (i < columns_ - 1) join(RoomAt(i + 1, j), kRightSide, {end.x, Int(room.top.y + 1, end.y)});
      if (j < rows_ - 1) join(RoomAt(i, j + 1), kLowerSide, {Int(room.top.x + 1, end.x), end.y});
    }
  }
  PutAgent(RoomAt(columns_ / 2, rows_ / 2).top + Pos{room_size_ / 2, room_size_ / 2});
}

void RoomGrid::PlaceInRoom(Room& room, Id id) {
  const auto is_beside_agent = [this](Pos p) { return Distance(agent_, p) < 2; };
  PlaceUnless(is_beside_agent, id, room.top, {room_size_, room_size_}, kPlacingTries);
  in_rooms_.push_back(id);
}

Id RoomGrid::AddObject(Room& room, Type type, Color color) {
  const Id id = Make(type, color);
  PlaceInRoom(room, id);
  return id;
}

std::vector<Id> RoomGrid::AddDistractors(Room* room, int count, bool unique) {
  std::vector<Id> added;
  while (static_cast<int>(added.size()) < count) {
    const Color color = AnyColor();
    const Type type = Any(kMovable);
    const auto is_like = [&](Id id) { return things_[id].type == type && things_[id].color == color; };
    if (unique && std::any_of(in_rooms_.begin(), in_rooms_.end(), is_like)) continue;
    added.push_back(AddObject(room ? *room : AnyRoom(), type, color));
  }
  return added;
}

RoomGrid::Side RoomGrid::AnySide(const Room& room) {
  for (;;) {
    const auto side = static_cast<Side>(Int(0, 4));
    if (room.neighbors[side] && room.passages[side] == Passage::kNone) return side;
  }
}

Id RoomGrid::AddDoor(Room& room, Side side, Color color, bool is_locked) {
  room.is_locked = is_locked;
  const Id door = Make(kDoor, color, is_locked ? kLocked : kClosed);
  Put(door, room.door_places[side]);
  Room& other = *room.neighbors[side];
  const int back = (side + 2) % 4;
  room.passages[side] = other.passages[back] = Passage::kDoor;
  room.doors[side] = other.doors[back] = door;
  return door;
}

void RoomGrid::RemoveWall(Room& room, Side side) {
  const int far = room_size_ - 1;
  const auto [x, y] = room.top;
  if (side == kRightSide || side == kLeftSide) {
    VerticalWall(side == kLeftSide ? x : x + far, y + 1, far - 1, kNothing);
  } else {
    HorizontalWall(x + 1, side == kUpperSide ? y : y + far, far - 1, kNothing);
  }
  room.passages[side] = room.neighbors[side]->passages[(side + 2) % 4] = Passage::kOpening;
}

void RoomGrid::PlaceAgentIn(const Room& room) {
  for (;;) {
    PlaceAgent(room.top, {room_size_, room_size_}, kPlacingTries);
    const Id front = Get(Front());
    if (front == kNothing || things_[front].type == kWall) return;
  }
}

bool RoomGrid::AreConnected() {
  std::vector<const Room*> reached{&RoomOf(agent_)};
  for (std::size_t n = 0; n < reached.size(); ++n) {
    const Room& room = *reached[n];
    for (int side = 0; side < 4; ++side) {
      const Room* next = room.neighbors[side];
      if (room.passages[side] == Passage::kNone) continue;
      if (std::find(reached.begin(), reached.end(), next) == reached.end()) reached.push_back(next);
    }
  }
  return reached.size() == rooms_.size();
}

void RoomGrid::ConnectAll(std::optional<Color> but) {
  std::vector<Color> colors(std::begin(kByName), std::end(kByName));
  if (but) colors.erase(std::find(colors.begin(), colors.end(), *but));
  for (int tries = 0; tries <= kConnections; ++tries) {
    if (AreConnected()) return;
    Room& room = AnyRoom();
    const auto side = static_cast<Side>(Int(0, 4));
    const Room* other = room.neighbors[side];
    if (!other || room.passages[side] != Passage::kNone) continue;
    if (!room.is_locked && !other->is_locked) AddDoor(room, side, Any(colors), false);
  }
  throw TooManyTries("the rooms cannot be connected");
}

}  // namespace torchrl_pool::minigrid
