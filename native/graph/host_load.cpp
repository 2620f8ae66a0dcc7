#include "graph/host_load.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
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

/// Threads on the whole machine that want a core at this moment; 0 if it cannot be known.
int running_threads() {
    std::FILE* file = std::fopen("/proc/loadavg", "r");
    if (!file) return 0;
    int running = 0;
    if (std::fscanf(file, "%*f %*f %*f %d/", &running) != 1) running = 0;
    std::fclose(file);
    return running;
}

}  // namespace

int usable_cores() {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    int cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    if (int granted = cgroup_cores()) cores = std::min(cores, granted);
    return std::max(1, cores);
}

HostLoad::HostLoad() : cores_(std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)))) {}

int HostLoad::free_cores() {
    constexpr double kWeight = 0.1;
    const int others = std::max(0, running_threads() - 1);  // the caller runs, too
    others_ += kWeight * (others - others_);
    return std::max(1, static_cast<int>(std::lround(cores_ - others_)));
}

}  // namespace stenod
