//! The terminal: taken at the beginning, given back whatever happens.

use std::io::{self, Stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

use crate::keys::Keys;
use crate::view::{Key, View};

type PanicHook = dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync;

/// The whole terminal. Dropping it gives the terminal back, and so does a panic, before its message is printed.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    keys: Keys,
    hook: Arc<PanicHook>,
    taken: Taken,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It is none, or does not obey.
    #[expect(
        clippy::disallowed_methods,
        reason = "ratatui draws on it, and all text that it draws has passed `visible`"
    )]
    pub fn take() -> io::Result<Self> {
        let hook: Arc<PanicHook> = Arc::from(std::panic::take_hook());
        let (before, taken) = (Arc::clone(&hook), Taken::default());
        let in_panic = taken.clone();
        std::panic::set_hook(Box::new(move |fault| {
            in_panic.give_back();
            before(fault);
        }));
        let begun = || -> io::Result<_> {
            enable_raw_mode()?;
            execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
            Ok((Terminal::new(CrosstermBackend::new(io::stdout()))?, Keys::open()?))
        };
        match begun() {
            Ok((terminal, keys)) => Ok(Self { terminal, keys, hook, taken }),
            Err(error) => {
                taken.give_back();
                restore(hook);
                Err(error)
            }
        }
    }

    /// Draws what is looked at.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, view: &View) -> io::Result<()> {
        self.terminal.draw(|frame| view.draw(frame))?;
        Ok(())
    }

    /// Waits for a key that means something, at most that long.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&mut self, limit: Duration) -> io::Result<Option<Key>> {
        self.keys.next(limit)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.taken.give_back();
        // While it panics, the hook is in use and cannot be changed.
        if !std::thread::panicking() {
            restore(Arc::clone(&self.hook));
        }
    }
}

fn restore(hook: Arc<PanicHook>) {
    std::panic::set_hook(Box::new(move |fault| hook(fault)));
}

/// A terminal that is to be given back, once: leaving its screen again would put the cursor back to where it was before, over the
/// message that was written since.
#[derive(Clone, Default)]
struct Taken {
    is_back: Arc<AtomicBool>,
}

impl Taken {
    /// What cannot be given back is gone.
    #[expect(clippy::disallowed_methods, reason = "nothing but the terminal's own sequences is written")]
    fn give_back(&self) {
        if !self.is_back.swap(true, Ordering::Relaxed) {
            let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
            let _ = disable_raw_mode();
        }
    }
}
