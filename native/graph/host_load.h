#pragma once

namespace stenod {

/// Cores that this process may use: its affinity mask and its cgroup's quota.
int usable_cores();

/// Watches what else runs on the machine. Threads that meet at barriers are worse than one thread as soon as one of them
/// has to wait for a core: a graph of a few milliseconds then takes as long as a hundred of the scheduler's slices.
class HostLoad {
public:
    HostLoad();

    /// Cores that other programs leave free, on average of the last calls; at least 1. Cheap enough to be asked before
    /// every graph.
    int free_cores();

private:
    int cores_;
    double others_ = 0;
};

}  // namespace stenod
