// Worlds of like rooms in rows, with doors between them. Reference: minigrid/core/roomgrid.py.
#ifndef TORCHRL_POOL_ENVS_MINIGRID_ROOM_GRID_H_
#define TORCHRL_POOL_ENVS_MINIGRID_ROOM_GRID_H_

#include <optional>
#include <vector>

#include "world.h"

namespace torchrl_pool::minigrid {

class RoomGrid : public World {
 public:
  RoomGrid(int room_size, int rows, int columns, int max_steps)
      : World({(room_size - 1) * columns + 1, (room_size - 1) * rows + 1}, max_steps, false),
        room_size_(room_size),
        rows_(rows),
        columns_(columns) {}

 protected:
  enum Side { kRightSide, kLowerSide, kLeftSide, kUpperSide };
  enum class Passage : std::uint8_t { kNone, kDoor, kOpening };
  struct Room {
    Pos top;
    bool is_locked = false;
    Passage passages[4] = {};
    Id doors[4] = {};
    Pos door_places[4] = {};
    Room* neighbors[4] = {};
  };

  // The rooms, without doors, and the agent in the middle one.
  void Generate() override;

  Room& RoomAt(int i, int j) { return rooms_[static_cast<std::size_t>(j * columns_ + i)]; }
  Room& RoomOf(Pos p) { return RoomAt(p.x / (room_size_ - 1), p.y / (room_size_ - 1)); }
  const Room& RoomOf(Pos p) const { return const_cast<RoomGrid*>(this)->RoomOf(p); }
  Room& AnyRoom() {
    const int i = Int(0, columns_), j = Int(0, rows_);
    return RoomAt(i, j);
  }
  bool IsInside(const Room& room, Pos p) const {
    const Pos inside = p - room.top;
    return inside.x >= 0 && inside.y >= 0 && inside.x < room_size_ && inside.y < room_size_;
  }

  // Somewhere in a room, but not beside the agent.
  void PlaceInRoom(Room& room, Id id);
  Id AddObject(Room& room, Type type, Color color);
  Id AddObject(Room& room, Type type) { return AddObject(room, type, AnyColor()); }
  Id AddObject(Room& room) {
    const Type type = Any(kMovable);
    return AddObject(room, type);
  }
  // Things of any kind: in a room, or wherever. `unique`: of no kind that is there already.
  std::vector<Id> AddDistractors(Room* room, int count, bool unique = true);

  Side AnySide(const Room& room);  // that may get a door
  Id AddDoor(Room& room, Side side, Color color, bool is_locked);
  // What isn't given is drawn, in this order.
  Id AddDoor(Room& room, std::optional<Side> side, std::optional<bool> is_locked) {
    const Side where = side ? *side : AnySide(room);
    const Color color = AnyColor();
    return AddDoor(room, where, color, is_locked ? *is_locked : Bool());
  }
  void RemoveWall(Room& room, Side side);
  // Adds doors until all rooms can be reached; none has the colour `but`.
  void ConnectAll(std::optional<Color> but = {});

  void PlaceAgentIn(const Room& room);
  void PlaceAgentAnywhere() { PlaceAgentIn(AnyRoom()); }

  const int room_size_, rows_, columns_;
  std::vector<Room> rooms_;   // row by row; of use until an episode begins
  std::vector<Id> in_rooms_;  // what PlaceInRoom has placed

 private:
  bool AreConnected();
};

}  // namespace torchrl_pool::minigrid

#endif  // TORCHRL_POOL_ENVS_MINIGRID_ROOM_GRID_H_
