#include "graph/host_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace stenod {

namespace {

/// Cores granted by the cgroup's quota (version 2), or 0 where there is no limit.
int cgroup_cores() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
    return std::max(1, static_cast<int>(std::ceil(std::stod(quota) / period)));
}

double seconds(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds that all cores have computed for programs that do not give way to this one; 0 if it cannot be known.
double host_seconds() {
    std::ifstream file("/proc/stat");
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0, stolen = 0;
    if (!(file >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen)) return 0;
    const bool gives_way = getpriority(PRIO_PROCESS, 0) > 0;
    const double ticks = user + (gives_way ? nice : 0) + system + interrupts + soft_interrupts + stolen;
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

int usable_cores() {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    int cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    if (int granted = cgroup_cores()) cores = std::min(cores, granted);
    return std::max(1, cores);
}

HostLoad::HostLoad()
    : cores_(std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)))), since_(now()), free_(cores_) {}

HostLoad::Times HostLoad::now() {
    return {seconds(CLOCK_MONOTONIC), host_seconds(), seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

int HostLoad::free_cores() {
    constexpr double kWindow = 0.25;  // the host's seconds come in hundredths
    if (seconds(CLOCK_MONOTONIC) - since_.wall < kWindow) return free_;
    const Times until = now();
    const double others = (until.host - since_.host - (until.own - since_.own)) / (until.wall - since_.wall);
    free_ = std::clamp(static_cast<int>(std::lround(cores_ - others)), 1, cores_);
    since_ = until;
    return free_;
}

}  // namespace stenod
