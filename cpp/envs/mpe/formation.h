// What the scenarios share in which agents take places together: line and circle.
// References: mpe2/simple_line/simple_line.py, mpe2/simple_formation/simple_formation.py.
#ifndef TORCHRL_POOL_ENVS_MPE_FORMATION_H_
#define TORCHRL_POOL_ENVS_MPE_FORMATION_H_

#include <string>
#include <vector>

#include "scenario.h"

namespace torchrl_pool::mpe {

class Formation : public Scenario {
 public:
  struct Options : CommonOptions {
    std::int64_t num_agents = 4;
    bool terminate_on_success = false;

    template <class Visitor>
    void Visit(Visitor& visit) {
      visit("N", num_agents, "agents", {.minimum = 1, .maximum = kMost});
      CommonOptions::Visit(visit);
      visit("terminate_on_success", terminate_on_success, "terminate where all agents are at their places");
    }
  };

 protected:
  // All that agents get is what they earn together.
  Formation(const Options& options, double size, const Entity& landmark, std::int64_t num_landmarks)
      : Scenario(options, 0, 0.0), terminates_(options.terminate_on_success) {
    AddAgents(options.num_agents,
              {.name = "agent", .size = size, .moves = true, .collides = true, .colour = {0.35, 0.35, 0.85}});
    AddLandmarks(num_landmarks, landmark);
  }
  Specs DescribeAll() { return Describe("velocity, position, and where landmarks are"); }

  // The place of each agent.
  virtual const std::vector<Point>& Places() = 0;

  double RewardOf(const Entity&) override { return 0; }
  double GlobalReward() override;
  bool IsSolved() override;
  void Observe(const Entity& agent, View& view) override {
    view.Add(agent.velocity);
    view.Add(agent.position);
    AddPositions(agent, landmarks(), view);
  }

 private:
  bool terminates_;
  std::vector<double> distances_;  // of agents from their places, as GlobalReward found them
};

}  // namespace torchrl_pool::mpe

#endif  // TORCHRL_POOL_ENVS_MPE_FORMATION_H_
