//! Processor time of this process.

/// CPU time of this process.
#[derive(Clone, Copy, Default)]
pub(crate) struct CpuTime {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

impl CpuTime {
    pub(crate) fn now() -> Self {
        // SAFETY: all zeros is a value of this structure of numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a structure of the type the call fills.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self { user_s: seconds(usage.ru_utime), system_s: seconds(usage.ru_stime) }
    }

    pub(crate) fn since(self, before: &Self) -> Self {
        Self { user_s: self.user_s - before.user_s, system_s: self.system_s - before.system_s }
    }
}
