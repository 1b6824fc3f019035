//! What a task that panicked had locked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whether or not a task panicked with it. Whoever protects data by such a lock changes it so that what a task which
/// panics leaves behind can be used.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
