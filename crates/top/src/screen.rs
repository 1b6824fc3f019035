//! The terminal: taken at the beginning, given back whatever happens.

use std::io::{self, Stdout};
use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

use crate::view::{Key, View};

type PanicHook = dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync;

/// The whole terminal. Dropping it gives the terminal back, and so does a panic, before its message is printed.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    hook: Arc<PanicHook>,
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
        let before = Arc::clone(&hook);
        std::panic::set_hook(Box::new(move |fault| {
            give_back();
            before(fault);
        }));
        let begun = || {
            enable_raw_mode()?;
            execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
            Terminal::new(CrosstermBackend::new(io::stdout()))
        };
        match begun() {
            Ok(terminal) => Ok(Self { terminal, hook }),
            Err(error) => {
                give_back();
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

    /// Waits for a key that means something, or for another size of the terminal, at most that long.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&self, limit: Duration) -> io::Result<Option<Key>> {
        if !poll(limit)? {
            return Ok(None);
        }
        Ok(match read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => meaning(key),
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
        // While it panics, the hook is in use and cannot be changed.
        if !std::thread::panicking() {
            restore(Arc::clone(&self.hook));
        }
    }
}

fn restore(hook: Arc<PanicHook>) {
    std::panic::set_hook(Box::new(move |fault| hook(fault)));
}

/// What cannot be given back is gone.
#[expect(clippy::disallowed_methods, reason = "nothing but the terminal's own sequences is written")]
fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

fn meaning(key: KeyEvent) -> Option<Key> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char(' ') => Some(Key::Pause),
        KeyCode::Char('s' | 'S') => Some(Key::SinceStart),
        KeyCode::Char('?' | 'h') => Some(Key::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let key = |code, modifiers| meaning(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char(' '), KeyModifiers::NONE), Some(Key::Pause));
        assert_eq!(key(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(Key::Help));
    }
}
