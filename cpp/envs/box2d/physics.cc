#include "physics.h"

#include <bit>
#include <cstring>

std::vector<std::int32_t> b2FreeNodes::Of(const b2World& world) {
  const b2DynamicTree& tree = world.GetContactManager().m_broadPhase.m_tree;
  std::vector<std::int32_t> nodes;
  nodes.reserve(static_cast<std::size_t>(tree.m_nodeCapacity));
  for (int node = tree.m_freeList; node != b2_nullNode; node = tree.m_nodes[node].next) nodes.push_back(node);
  return nodes;
}

void b2FreeNodes::Set(b2World* world, const std::vector<std::int32_t>& nodes) {
  constexpr std::size_t kFirstCapacity = 16, kHighest = 1 << 16;
  const std::size_t count = nodes.size();
  std::vector<bool> seen(count);
  bool is_valid = count >= kFirstCapacity && count <= kHighest && std::has_single_bit(count);
  for (std::size_t i = 0; is_valid && i < count; ++i) {
    const auto node = static_cast<std::size_t>(nodes[i]);
    is_valid = node < count && !seen[node];
    if (is_valid) seen[node] = true;
  }
  if (!is_valid) throw torchrl_pool::InvalidArgument("corrupt saved state: a value is out of its range");
  auto& tree = const_cast<b2DynamicTree&>(world->GetContactManager().m_broadPhase.m_tree);
  b2Free(tree.m_nodes);
  const std::size_t size = count * sizeof(b2TreeNode);
  tree.m_nodes = static_cast<b2TreeNode*>(b2Alloc(static_cast<int>(size)));
  std::memset(static_cast<void*>(tree.m_nodes), 0, size);
  tree.m_nodeCapacity = static_cast<int>(count);
  tree.m_freeList = nodes.front();
  for (std::size_t i = 0; i < count; ++i) {
    b2TreeNode& node = tree.m_nodes[nodes[i]];
    node.next = i + 1 < count ? nodes[i + 1] : b2_nullNode;
    node.height = -1;
  }
}

namespace torchrl_pool::box2d {
namespace {

// Tables that Box2D makes with the first world and the first contact, which two threads may make at once:
// here they are made when the library is loaded.
struct Tables : b2Contact {
  static bool Make() {
    const b2BlockAllocator makes_its_own;
    InitializeRegisters();
    return s_initialized = true;
  }
};
const bool tables_are_made = Tables::Make();

}  // namespace

b2FixtureDef Part(const b2Shape& shape, double density, std::uint16_t category) {
  b2FixtureDef fixture;
  fixture.shape = &shape;
  fixture.density = F(density);
  fixture.restitution = 0;
  fixture.filter.categoryBits = category;
  fixture.filter.maskBits = 1;
  return fixture;
}

b2Body* AddBody(b2World* world, b2BodyType type, b2Vec2 position, float angle, const b2FixtureDef& fixture) {
  b2BodyDef definition;
  definition.type = type;
  definition.position = position;
  definition.angle = angle;
  b2Body* body = world->CreateBody(&definition);
  body->CreateFixture(&fixture);
  return body;
}

b2RevoluteJoint* AddJoint(b2World* world, b2Body* a, b2Body* b, b2Vec2 anchor_a, b2Vec2 anchor_b,
                          const Motor& motor) {
  b2RevoluteJointDef joint;
  joint.bodyA = a;
  joint.bodyB = b;
  // pybox2d does this unasked, in Python.
  joint.referenceAngle = F(static_cast<double>(b->GetAngle()) - static_cast<double>(a->GetAngle()));
  joint.localAnchorA = anchor_a;
  joint.localAnchorB = anchor_b;
  joint.enableMotor = true;
  joint.enableLimit = true;
  joint.maxMotorTorque = F(motor.torque);
  joint.motorSpeed = F(motor.speed);
  joint.lowerAngle = F(motor.lower);
  joint.upperAngle = F(motor.upper);
  return static_cast<b2RevoluteJoint*>(world->CreateJoint(&joint));
}

}  // namespace torchrl_pool::box2d
