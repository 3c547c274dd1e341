// The bare simulator: MuJoCo stepped in a loop by each of a few threads, which meet only at the end of a run.
// No observations, no rewards. Resets where the Gymnasium task would end its episode, since what a robot does
// after that costs another amount of time. bare_mujoco.py loads it.
#include <mujoco/mujoco.h>

#include <random>
#include <thread>
#include <vector>

namespace {

struct Env {
  mjData* data;
  int steps = 0;
};

struct Loop {
  const mjModel* model;
  int frame_skip;
  int max_episode_steps;
  double noise;  // on the positions at a reset
  int coordinate;
  double lowest, highest;  // of that coordinate, in an episode that goes on
  std::vector<Env> envs;
  std::vector<std::mt19937> streams;  // one for each thread

  void Reset(Env& env, std::mt19937& rng) {
    std::uniform_real_distribution<double> shift(-noise, noise);
    mj_resetData(model, env.data);
    for (int i = 0; i < model->nq; ++i) env.data->qpos[i] += shift(rng);
    mj_forward(model, env.data);
    env.steps = 0;
  }

  void Run(std::size_t thread, long steps) {
    std::mt19937& rng = streams[thread];
    std::uniform_real_distribution<float> control(-1, 1);
    const std::size_t first = envs.size() * thread / streams.size();
    const std::size_t last = envs.size() * (thread + 1) / streams.size();
    for (long step = 0; step < steps; ++step) {
      for (std::size_t e = first; e < last; ++e) {
        Env& env = envs[e];
        for (int i = 0; i < model->nu; ++i) {
          env.data->ctrl[i] = control(rng) * model->actuator_ctrlrange[2 * i + 1];
        }
        for (int i = 0; i < frame_skip; ++i) mj_step(model, env.data);
        mj_rnePostConstraint(model, env.data);
        const double height = env.data->qpos[coordinate];
        if (++env.steps == max_episode_steps || !(lowest <= height && height <= highest)) Reset(env, rng);
      }
    }
  }
};

Loop loop;

mjfLogHandler handle_log;  // MuJoCo's own

// What MuJoCo thinks of Gymnasium's model is not what was asked for.
void HandleAllButWarnings(const mjLogMessage* log) {
  if (log->level != mjLOG_WARNING) handle_log(log);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Returns 0 where the model does not load, with the reason in `message`.
EXPORTED int bare_mujoco_open(const char* model, int frame_skip, int max_episode_steps, double noise,
                              int coordinate, double lowest, double highest, int num_envs, int num_threads,
                              char* message, int message_size) {
  handle_log = mju_setLogHandler(HandleAllButWarnings);
  loop = {.model = mj_loadXML(model, nullptr, message, message_size),
          .frame_skip = frame_skip,
          .max_episode_steps = max_episode_steps,
          .noise = noise,
          .coordinate = coordinate,
          .lowest = lowest,
          .highest = highest,
          .envs = {},
          .streams = {}};
  mju_setLogHandler(handle_log);
  if (!loop.model) return 0;
  for (int i = 0; i < num_threads; ++i) loop.streams.emplace_back(i);
  for (int i = 0; i < num_envs; ++i) {
    loop.envs.push_back({mj_makeData(loop.model)});
    loop.Reset(loop.envs.back(), loop.streams[0]);
  }
  return 1;
}

// Steps every env so many times.
EXPORTED void bare_mujoco_run(long steps) {
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < loop.streams.size(); ++i) {
    threads.emplace_back([=] { loop.Run(i, steps); });
  }
  loop.Run(0, steps);
  for (std::thread& thread : threads) thread.join();
}
