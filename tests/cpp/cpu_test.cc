#include "cpu.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "check.h"
#include "concurrency.h"

namespace torchrl_pool::core {
namespace {

// A /proc/self/cgroup and a /sys/fs/cgroup of our own.
class FakeTree {
 public:
  FakeTree() {
    std::string name = (std::filesystem::temp_directory_path() / "torchrl_pool_XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~FakeTree() { std::filesystem::remove_all(root_); }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  FakeTree& Write(const std::string& path, const std::string& text) {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  // The line of this process in version 2's only hierarchy.
  FakeTree& Process(const std::string& cgroup) { return Write("proc", "0::" + cgroup + "\n"); }
  // The limit of a cgroup in version 1, in microseconds of each 100,000.
  FakeTree& Version1Quota(const std::string& cgroup, const std::string& quota) {
    return Write("cgroup/cpu" + cgroup + "/cpu.cfs_quota_us", quota + "\n")
        .Write("cgroup/cpu" + cgroup + "/cpu.cfs_period_us", "100000\n");
  }

  int Cpus(int affinity) const {
    return AvailableCpus(affinity, (root_ / "proc").string(), (root_ / "cgroup").string());
  }

 private:
  std::filesystem::path root_;
};

TEST(WithoutCgroupsTheAffinityCounts) {
  CHECK_EQ(FakeTree().Cpus(6), 6);
  CHECK_EQ(FakeTree().Process("/gone").Cpus(6), 6);
  CHECK_EQ(FakeTree().Write("proc", "").Cpus(6), 6);
}

TEST(Version2WithoutALimit) {
  CHECK_EQ(FakeTree().Process("/app").Write("cgroup/app/cpu.max", "max 100000\n").Cpus(6), 6);
}

TEST(Version2RoundsUp) {
  const auto cpus = [](const char* quota) {
    return FakeTree().Process("/app").Write("cgroup/app/cpu.max", quota).Cpus(8);
  };
  CHECK_EQ(cpus("200000 100000\n"), 2);
  CHECK_EQ(cpus("250000 100000\n"), 3);
  CHECK_EQ(cpus("200001 100000\n"), 3);
  CHECK_EQ(cpus("10000 100000\n"), 1);
  CHECK_EQ(cpus("75000 50000\n"), 2);
}

TEST(AffinityMayBeSmallerThanTheQuota) {
  CHECK_EQ(FakeTree().Process("/app").Write("cgroup/app/cpu.max", "400000 100000\n").Cpus(3), 3);
}

TEST(AHugeQuotaIsNoLimit) {
  CHECK_EQ(FakeTree().Process("/app").Write("cgroup/app/cpu.max", "17592186044415 1000\n").Cpus(8), 8);
}

TEST(TheTightestOfAllParentsBinds) {
  FakeTree tree;
  tree.Process("/kubepods/pod/container")
      .Write("cgroup/kubepods/pod/container/cpu.max", "600000 100000\n")
      .Write("cgroup/kubepods/pod/cpu.max", "200000 100000\n")
      .Write("cgroup/kubepods/cpu.max", "max 100000\n");
  CHECK_EQ(tree.Cpus(16), 2);
  tree.Write("cgroup/kubepods/cpu.max", "100000 100000\n");
  CHECK_EQ(tree.Cpus(16), 1);
}

TEST(TheRootBindsToo) {  // in a container its own cgroup is what it sees as the root
  CHECK_EQ(FakeTree().Process("/").Write("cgroup/cpu.max", "150000 100000\n").Cpus(16), 2);
  CHECK_EQ(FakeTree().Process("/outside").Write("cgroup/cpu.max", "150000 100000\n").Cpus(16), 2);
}

TEST(Version1) {
  FakeTree tree;
  tree.Write("proc", "12:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n")
      .Version1Quota("/docker/x", "350000");
  CHECK_EQ(tree.Cpus(16), 4);
  CHECK_EQ(tree.Version1Quota("/docker", "150000").Cpus(16), 2);
}

TEST(Version1WithoutALimit) {
  CHECK_EQ(FakeTree().Write("proc", "4:cpuacct,cpu:/\n").Version1Quota("", "-1").Cpus(16), 16);
}

TEST(OtherVersion1ControllersDoNotCount) {
  CHECK_EQ(FakeTree().Write("proc", "4:cpuset:/a\n5:cpuacct:/a\n").Version1Quota("/a", "100000").Cpus(16),
           16);
}

TEST(BrokenFilesAreNoLimit) {
  FakeTree tree;
  tree.Process("/app");
  for (const char* text :
       {"", "nonsense", "nonsense 100000", "100000", "100000 0", "0 100000", "-1 100000"}) {
    CHECK_EQ(tree.Write("cgroup/app/cpu.max", text).Cpus(7), 7);
  }
  for (const char* line : {"", ":", "::", "no colons", "0::", "0:", "4:cpu"}) {
    CHECK_EQ(tree.Write("proc", line).Cpus(7), 7);
  }
}

TEST(APathWithoutASlashIsNoLimit) { CHECK_EQ(FakeTree().Process("relative").Cpus(7), 7); }

TEST(ThisMachineHasAProcessor) {
  CHECK(AvailableCpus() >= 1);
  CHECK(AvailableCpus() <= static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(PinsOnlyToProcessorsThatExist) {
#ifdef __linux__
  test::Threads threads;
  threads.Start([] {
    CHECK(PinThisThread(sched_getcpu()));
    CHECK_EQ(AvailableCpus(), 1);
    CHECK(!PinThisThread(-1));
    CHECK(!PinThisThread(1 << 20));
  });
  threads.Join();
#endif
}

TEST(SpinningEndsAfterATime) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Spin spin;
  int rounds = 0;
  while (spin.Pause()) ++rounds;
  CHECK(rounds >= 64);
  CHECK(Clock::now() - start >= std::chrono::microseconds(60));
  CHECK(Clock::now() - start < std::chrono::seconds(10));
  CHECK(!spin.Pause());
}

// Each yield to it would cost a time slice.
TEST(DoesNotYieldAgainAndAgainToSomebodyWhoKeepsTheProcessor) {
#ifdef __linux__
  const int cpu = sched_getcpu();
  std::atomic<bool> runs = false, is_over = false;
  test::Threads threads;
  threads.Start([&] {
    const bool is_pinned = PinThisThread(cpu);
    for (runs = true; !is_over;) {
    }
    CHECK(is_pinned);
  });
  threads.Start([&] {
    constexpr int kWaits = 50;
    const auto others_ran = [] {
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw + usage.ru_nivcsw;
    };
    const bool is_pinned = PinThisThread(cpu);
    while (!runs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const long before = others_ran();
    for (int i = 0; i < kWaits; ++i) {
      for (Spin spin; spin.Pause();) {
      }
    }
    const long times = others_ran() - before;
    is_over = true;  // whatever is checked below, so that the other thread ends
    CHECK(is_pinned);
    CHECK(times > 0);
    CHECK(times < kWaits / 2);
  });
  threads.Join();
#endif
}

}  // namespace
}  // namespace torchrl_pool::core
