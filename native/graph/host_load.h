#pragma once

namespace stenod {

/// Cores that this process may use: its affinity mask and its cgroup's quota.
int usable_cores();

/// Watches what else computes on the machine. Threads that meet at barriers are worse than one thread as soon as one of
/// them has to wait for a core: a graph of a few milliseconds then takes as long as a hundred of the scheduler's slices.
class HostLoad {
public:
    HostLoad();

    /// Cores that other programs left free lately; at least 1. Programs of lower priority (a positive nice value) do not
    /// count, as they give way. Cheap enough to be asked before every graph.
    int free_cores();

private:
    /// Seconds since some moment.
    struct Times {
        double wall, host, own;
    };
    static Times now();

    int cores_;
    Times since_;
    int free_;
};

}  // namespace stenod
