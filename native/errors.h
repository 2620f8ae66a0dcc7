#pragma once

#include <stdexcept>
#include <string>

namespace stenod {

/// Base of everything the engine throws. Each subclass becomes one Python exception.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A value given by the caller cannot be used. The message names it.
class BadArgument : public Error {
public:
    using Error::Error;
};

/// A model file is missing, truncated, corrupt or foreign. The message names the file and the fault.
class BadModel : public Error {
public:
    using Error::Error;
};

/// A buffer could not be allocated.
class OutOfMemory : public Error {
public:
    using Error::Error;
};

/// Aborted from another thread. Whatever was being computed is rewound, never half-written.
class Aborted : public Error {
public:
    using Error::Error;
};

/// ggml reported a failure while computing.
class BackendError : public Error {
public:
    using Error::Error;
};

}  // namespace stenod
