// The bare simulator: MuJoCo stepped in a loop by each of a few threads, which meet only at the end of a
// request. No observations, no rewards, no pool. Resets where the Gymnasium task would end its episode, since
// what a robot does after that costs another amount of time.
//
// bare_mujoco MODEL FRAME_SKIP LOWEST HIGHEST NUM_ENVS NUM_THREADS: an episode ends after 1000 steps, and
// where the third coordinate leaves [LOWEST, HIGHEST]. Reads lines with a number of calls and answers each
// with the seconds that so many steps of all envs took.
#include <mujoco/mujoco.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

struct Env {
  mjData* data;
  int steps = 0;
};

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  char error[1000];
  const mjModel* model = mj_loadXML(argv[1], nullptr, error, sizeof error);
  if (!model) return std::fprintf(stderr, "%s\n", error), 1;
  const int frame_skip = std::atoi(argv[2]), num_envs = std::atoi(argv[5]), num_threads = std::atoi(argv[6]);
  const double lowest = std::atof(argv[3]), highest = std::atof(argv[4]);

  std::vector<Env> envs(num_envs);
  for (Env& env : envs) env.data = mj_makeData(model);
  std::vector<std::mt19937> streams;
  for (int i = 0; i < num_threads; ++i) streams.emplace_back(i);

  const auto reset = [&](Env& env, std::mt19937& rng) {
    std::uniform_real_distribution<double> noise(-0.1, 0.1);
    mj_resetData(model, env.data);
    for (int i = 0; i < model->nq; ++i) env.data->qpos[i] += noise(rng);
    mj_forward(model, env.data);
    env.steps = 0;
  };
  for (Env& env : envs) reset(env, streams[0]);

  const auto work = [&](int thread, long calls) {
    std::mt19937& rng = streams[thread];
    std::uniform_real_distribution<float> control(-1, 1);
    const int first = num_envs * thread / num_threads, last = num_envs * (thread + 1) / num_threads;
    for (long call = 0; call < calls; ++call) {
      for (int e = first; e < last; ++e) {
        Env& env = envs[e];
        for (int i = 0; i < model->nu; ++i) {
          const double* range = model->actuator_ctrlrange + 2 * i;
          env.data->ctrl[i] = control(rng) * range[1];
        }
        for (int i = 0; i < frame_skip; ++i) mj_step(model, env.data);
        mj_rnePostConstraint(model, env.data);
        const double z = env.data->qpos[2];
        if (++env.steps == 1000 || !(lowest <= z && z <= highest)) reset(env, rng);
      }
    }
  };

  for (long calls; std::cin >> calls;) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (int i = 1; i < num_threads; ++i) threads.emplace_back(work, i, calls);
    work(0, calls);
    for (auto& thread : threads) thread.join();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << seconds.count() << std::endl;
  }
}
