// Chains of stages over rows: what each stage writes, in which phase it runs, and what a job makes of it.
#include "chain.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "check.h"
#include "job.h"
#include "transforms/cat_frames.h"
#include "transforms/copy.h"
#include "transforms/elementwise.h"
#include "transforms/reward_sum.h"
#include "transforms/running_statistics.h"
#include "transforms/time_max_pool.h"
#include "transforms/traj_counter.h"

namespace torchrl_pool::core {
namespace {

constexpr auto kStep = Stage::When::kStep, kReset = Stage::When::kReset;

// One row whose values are the given ones.
class OneRow {
 public:
  template <class... Values>
  explicit OneRow(Values*... values) : values_{{reinterpret_cast<std::byte*>(values), 0}...} {}
  StageRow row() const { return {values_.data(), nullptr, 0}; }
  StageRows rows() const { return {values_.data(), nullptr, 0, 1}; }

 private:
  std::vector<Rows> values_;
};

template <class T>
std::uintptr_t AddressOf(T& value) {
  return reinterpret_cast<std::uintptr_t>(&value);
}

TEST(ElementwiseStagesReadParametersWhereTheyLie) {
  float in[] = {-2.0f, 0.0f, 3.0f, NAN}, out[4];
  float low = -1.0f;
  std::int64_t high = 2;
  const Clamp<float> clamp{{AddressOf(low), Parameter::Type::kFloat32, true},
                           {AddressOf(high), Parameter::Type::kInt64, true}};
  const Elementwise<Clamp<float>> stage(0, 1, 4, clamp);
  stage.Run(OneRow(in, out).rows(), kStep);
  CHECK(out[0] == -1.0f && out[1] == 0.0f && out[2] == 2.0f && std::isnan(out[3]));
  low = -5.0f;
  stage.Run(OneRow(in, out).rows(), kStep);
  CHECK(out[0] == -2.0f);
  const Elementwise<Sign<float>> sign(0, 1, 4, {});
  sign.Run(OneRow(in, out).rows(), kStep);
  CHECK(out[0] == -1.0f && out[1] == 0.0f && out[2] == 1.0f && out[3] == 0.0f);
}

TEST(CatFramesShiftsWhatItKeeps) {
  std::uint8_t in[] = {1, 2}, out[6];  // two blocks of one byte, three frames of each
  std::uint8_t kept[12] = {9, 9, 9, 9, 9, 9};
  const FramesShape shape{2, 3, 1};
  const OneRow values(in, out);
  const StageRow second{values.row().values, nullptr, 1};
  const CatFramesStage same(0, 1, AddressOf(kept), shape, {});
  same.Reset(second);
  const std::uint8_t repeated[] = {1, 1, 1, 2, 2, 2};
  CHECK(std::memcmp(out, repeated, 6) == 0 && std::memcmp(kept + 6, repeated, 6) == 0);
  in[0] = 3, in[1] = 4;
  same.Step(second);
  const std::uint8_t shifted[] = {1, 1, 3, 2, 2, 4};
  CHECK(std::memcmp(out, shifted, 6) == 0 && std::memcmp(kept + 6, shifted, 6) == 0);
  const CatFramesStage constant(0, 1, AddressOf(kept), shape, {std::byte{7}});
  constant.Reset(second);
  const std::uint8_t padded[] = {7, 7, 3, 7, 7, 4};
  CHECK(std::memcmp(out, padded, 6) == 0 && kept[0] == 9);
}

TEST(TimeMaxPoolForgetsWhatIsTooOld) {
  float in = -3, out = 0, kept[4] = {};  // two times of two envs
  const OneRow values(&in, &out);
  const StageRow second{values.row().values, nullptr, 1};
  const TimeMaxPoolStage<float> stage(0, 1, 1, AddressOf(kept), 2, 2);
  stage.Reset(second);
  CHECK(out == 0);  // before the episode
  const float seen[] = {5, 1, 2}, expected[] = {5, 5, 2};
  for (int i = 0; i < 3; ++i) {
    in = seen[i];
    stage.Step(second);
    CHECK(out == expected[i]);
  }
  CHECK(kept[0] == 0 && kept[1] == 2 && kept[2] == 0 && kept[3] == 1);
  in = NAN;
  stage.Step(second);
  CHECK(std::isnan(out));
  stage.Reset(second);
  CHECK(std::isnan(out) && kept[3] == 0);
}

// Three envs with a column of the pool (2 floats), done, and one of a chain's.
class NormalisedBatch {
 public:
  explicit NormalisedBatch(bool frozen = false) : chain_({2, {2 * sizeof(float)}, 0, {}, {}}) {
    state_ = {AddressOf(sum_), AddressOf(ssq_), AddressOf(count_), 0.5, 1e-4, frozen};
    chain_.Add(1, std::make_shared<VecNormStage<float>>(0, 2, 2, state_), true, true);
    for (Batch* batch : {&job_.out, &job_.root}) {
      batch->AddColumn(2 * sizeof(float));
      batch->AddColumn(1);
    }
    chain_.Extend(job_);
    job_.out.base = {Bytes(values_), Bytes(done_), Bytes(normal_)};
    job_.root.base = {Bytes(first_), nullptr, Bytes(normal_)};
  }

  void Learn(bool takes_root) {
    const std::uint32_t envs[] = {0, 1, 2};
    chain_.Learn(job_, 1, kStep, {job_.out, job_.root, envs, takes_root, 1});
  }
  void Run(std::uint32_t env) { ChainRunner(job_, job_.out).Run(1, kStep, env, 1); }

  float values_[6] = {1, 10, 2, 20, 3, 30}, first_[6] = {7, 8, 7, 8, 7, 8}, normal_[6] = {};
  bool done_[3] = {false, true, false};
  float sum_[2] = {2, 4}, ssq_[2] = {2, 8}, count_ = 2;
  Chain chain_;
  Job job_;

 private:
  template <class T>
  static std::byte* Bytes(T& values) {
    return reinterpret_cast<std::byte*>(&values);
  }
  VecNormState state_;
};

TEST(VecNormTakesInTheWholeBatchBeforeItWritesARow) {
  NormalisedBatch batch;
  CHECK(batch.chain_.num_phases() == 2);
  batch.Learn(false);
  CHECK(batch.sum_[0] == 1 + 6 && batch.sum_[1] == 2 + 60);
  CHECK(batch.ssq_[0] == 1 + 14 && batch.ssq_[1] == 4 + 1400);
  CHECK(batch.count_ == 4);
  batch.Run(1);
  const float loc = 7.0f / 4, scale = std::sqrt(15.0f / 4 - loc * loc);
  CHECK(batch.normal_[2] == (2 - loc) / scale);
  CHECK(batch.normal_[0] == 0 && batch.normal_[4] == 0);
}

TEST(TrajCounterNumbersInTheOrderOfTheEnvs) {
  std::int64_t number[3] = {};
  bool done[3] = {true, false, true};
  std::int32_t count = 7;
  Chain chain({2, {}, 0, {}, {}});
  chain.Add(1, std::make_shared<TrajCounterStage>(0, 3, AddressOf(count)), false, true);
  CHECK(!chain.HasStages(1, kStep) && chain.HasStages(1, kReset));
  Job job;
  job.out.AddColumn(sizeof(std::int64_t));
  job.out.AddColumn(1);
  chain.Extend(job);
  job.out.base = {reinterpret_cast<std::byte*>(number), reinterpret_cast<std::byte*>(done)};
  const std::uint32_t envs[] = {0, 1, 2}, begun[] = {1, 2};
  chain.Learn(job, 1, kReset, {job.out, job.out, envs, true, 1});
  CHECK(count == 9);
  for (const std::uint32_t env : {0u, 2u}) ChainRunner(job, job.out).Run(1, kReset, env, 1);
  CHECK(number[0] == 7 && number[1] == 0 && number[2] == 8);
  chain.Learn(job, 1, kReset, {job.out, job.out, envs, false, 1, begun});
  for (const std::uint32_t env : begun) ChainRunner(job, job.out).Run(1, kReset, env, 1);
  CHECK(number[0] == 7 && number[1] == 9 && number[2] == 10 && count == 11);
}

TEST(ValuesOfAThreadsOwnPassFromStageToStage) {
  float in = 3.0f, out = 0.0f;
  Chain chain({1, {sizeof(float)}, 0, {}, {sizeof(double)}});
  chain.Add(0, std::make_shared<Elementwise<Cast<float, double>>>(0, 2, 1, Cast<float, double>{}), true,
            true);
  chain.Add(0, std::make_shared<Elementwise<Cast<double, float>>>(2, 1, 1, Cast<double, float>{}), true,
            false);
  Job job;
  job.out.AddColumn(sizeof(float));
  chain.Extend(job);
  job.out.base = {reinterpret_cast<std::byte*>(&in), reinterpret_cast<std::byte*>(&out)};
  ChainRunner(job, job.out).Run(0, kReset, 0, 1);
  CHECK(out == 0.0f);
  ChainRunner(job, job.out).Run(0, kStep, 0, 1);
  CHECK(out == 3.0f);
}

TEST(ValuesOfNoElementsTakeNoRoom) {
  Chain chain(ChainColumns{1, {}, 0, {}, {0}});
  chain.Add(0, std::make_shared<CopyStage>(0, 1, CopyShape{{}, {}, {}, 0, 0, 0}), true, true);
  Job job;
  std::int64_t number = 7;
  job.out.AddColumn(sizeof number);
  job.out.base[0] = reinterpret_cast<std::byte*>(&number);
  chain.Extend(job);
  ChainRunner(job, job.out).Run(0, kStep, 0, 1);
  CHECK_EQ(number, 7);
}

TEST(ManyRowsHaveValuesOfTheirOwn) {
  constexpr std::uint32_t kRows = 40;
  constexpr std::size_t kSize = 128;  // so that the thread's own values have room for some of the rows only
  std::vector<float> in(kRows * kSize), out(in.size()), sums(kRows);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  Chain chain({1, {kSize * sizeof(float), sizeof(float)}, 0, {sizeof(float)}, {kSize * sizeof(double)}});
  using Widen = Cast<float, double>;
  using Narrow = Cast<double, float>;
  chain.Add(0, std::make_shared<Elementwise<Widen>>(0, 4, kSize, Widen{}), true, true);
  chain.Add(0, std::make_shared<Elementwise<Narrow>>(4, 1, kSize, Narrow{}), true, true);
  chain.Add(0, std::make_shared<RewardSumStage<float>>(0, 3, 2, 1), true, true);  // no sums before
  Job job;
  job.out.AddColumn(kSize * sizeof(float));
  chain.Extend(job);
  const auto bytes = [](std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); };
  job.out.base = {bytes(in), bytes(out), bytes(sums)};
  ChainRunner(job, job.out).Run(0, kStep, 1, kRows - 1);
  for (std::size_t i = 0; i < in.size(); ++i) CHECK(out[i] == (i < kSize ? 0 : in[i]));
  for (std::size_t row = 0; row < kRows; ++row) CHECK(sums[row] == (row == 0 ? 0 : in[row * kSize]));
}

}  // namespace
}  // namespace torchrl_pool::core
