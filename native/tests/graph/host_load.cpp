#include "graph/host_load.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

TEST_CASE("a program that computes takes a core away") {
    const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    stenod::HostLoad load;
    const pid_t other = fork();
    REQUIRE(other >= 0);
    if (other == 0) {
        for (volatile unsigned turns = 0;; turns = turns + 1) {
        }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    CHECK(load.free_cores() <= std::max(1, cores - 1));
    CHECK(load.free_cores() >= 1);
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
}
