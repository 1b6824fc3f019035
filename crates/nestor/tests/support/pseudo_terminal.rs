//! A pseudo terminal: what a program makes of it while it runs, and how it leaves it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use super::LIMIT;

/// Its size.
const ROWS: usize = 24;
const COLUMNS: usize = 80;
/// How long one look at the terminal waits for more.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The modes that a program may change and has to give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modes(String);

impl Modes {
    fn of(terminal: &File) -> Self {
        let Termios { input_modes, output_modes, control_modes, local_modes, special_codes, .. } =
            tcgetattr(terminal).expect("a terminal has modes");
        Self(format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?} {special_codes:?}"))
    }
}

/// A terminal and everything that was written to it.
pub struct PseudoTerminal {
    /// The side of who looks on and types.
    outer: File,
    /// The side of the program.
    inner: File,
    written: Vec<u8>,
    modes: Modes,
}

impl PseudoTerminal {
    /// A new one.
    pub fn new() -> Self {
        // It closes when another program starts, as all that the standard library opens: no other test holds it open.
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        let outer = options.open("/dev/ptmx").expect("there are pseudo terminals");
        let mut name = [0_u8; 64];
        // SAFETY: the descriptor is open, and the name has the length that is given.
        let result = unsafe {
            libc::unlockpt(outer.as_raw_fd())
                + libc::ptsname_r(outer.as_raw_fd(), name.as_mut_ptr().cast(), name.len())
        };
        assert_eq!(result, 0, "the other side has a name");
        let name: Vec<u8> = name.into_iter().take_while(|&byte| byte != 0).collect();
        let inner = options.open(String::from_utf8(name).unwrap()).expect("the other side can be opened");
        let size = Winsize { ws_row: ROWS as u16, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&inner, size).unwrap();
        let modes = Modes::of(&inner);
        Self { outer, inner, written: Vec::new(), modes }
    }

    /// Starts a program as a shell on this terminal would: in a session of its own, whose terminal it is.
    pub fn start(&self, program: &OsStr, arguments: &[&str], variables: &[(&str, String)]) -> Child {
        let side = || self.inner.try_clone().expect("a descriptor");
        // It becomes the program, with the same process id.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(arguments).envs(variables.iter().cloned());
        command.stdin(side()).stdout(side()).stderr(side());
        command.spawn().expect("the program starts")
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.outer.write_all(keys.as_bytes()).expect("it takes keys");
    }

    /// Whether keys arrive one by one and unseen, as a program with the whole screen has it.
    pub fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.inner).expect("a terminal has modes").local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Everything that was written, with the sequences that command the terminal.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }

    /// What is on the screen, line by line: a program draws only what has changed, wherever that is.
    fn shown(&self) -> String {
        let mut rows = vec![vec![' '; COLUMNS]; ROWS];
        let (mut row, mut column) = (0, 0);
        let text = self.text();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\x1b' if rest.as_str().starts_with('[') => {
                    let sequence: String =
                        rest.by_ref().skip(1).take_while(|c| !c.is_ascii_alphabetic()).collect();
                    // Only moves have two numbers and nothing else.
                    let place =
                        sequence.split_once(';').and_then(|(r, c)| Some((r.parse().ok()?, c.parse().ok()?)));
                    if let Some((to_row, to_column)) = place {
                        (row, column) =
                            (usize::saturating_sub(to_row, 1), usize::saturating_sub(to_column, 1));
                    }
                }
                '\r' => column = 0,
                '\n' => row += 1,
                c => {
                    if let Some(cell) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
                        *cell = c;
                    }
                    column += 1;
                }
            }
        }
        let lines: Vec<String> = rows.into_iter().map(|row| row.into_iter().collect()).collect();
        lines.join("\n")
    }

    /// Takes what is written within a moment; whether anything was.
    fn look(&mut self) -> bool {
        let mut fds = [PollFd::new(&self.outer, PollFlags::IN)];
        if poll(&mut fds, Some(&PAUSE)) != Ok(1) {
            return false;
        }
        let mut piece = [0; 4096];
        match self.outer.read(&mut piece) {
            Ok(read) => self.written.extend(&piece[..read]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
        }
        true
    }

    /// Waits until all of these are on the screen.
    pub fn wait_for(&mut self, child: &mut Child, words: &[&str]) {
        let deadline = Instant::now() + LIMIT;
        while !words.iter().all(|words| self.shown().contains(words)) {
            let ended = child.try_wait().expect("the program can be waited for");
            assert!(self.look() || ended.is_none(), "it ended before {words:?}: {}", self.shown());
            assert!(Instant::now() < deadline, "there never was {words:?}: {}", self.shown());
        }
    }

    /// Waits for the end of the program, reading what it writes; whether it succeeded.
    pub fn end(&mut self, child: &mut Child) -> bool {
        let deadline = Instant::now() + LIMIT;
        loop {
            let ended = child.try_wait().expect("the program can be waited for");
            let wrote = self.look();
            match ended {
                Some(status) if !wrote => return status.success(),
                _ => assert!(Instant::now() < deadline, "it does not end: {}", self.text()),
            }
        }
    }

    /// The line breaks: who typed is gone. Waits for the end of the program.
    pub fn hang_up(self, child: &mut Child) {
        drop(self.outer);
        let deadline = Instant::now() + LIMIT;
        while child.try_wait().expect("the program can be waited for").is_none() {
            assert!(Instant::now() < deadline, "it goes on without a terminal");
            std::thread::sleep(PAUSE.try_into().expect("it is not negative"));
        }
    }

    /// Fails unless the terminal is as it was before, and what it was commanded ends with that.
    pub fn assert_given_back(&self, how: &str) {
        assert_eq!(Modes::of(&self.inner), self.modes, "{how}: modes of the terminal");
        let text = self.text();
        for (what, taken, given) in [
            ("the other screen", "\x1b[?1049h", "\x1b[?1049l"),
            ("a hidden cursor", "\x1b[?25l", "\x1b[?25h"),
        ] {
            let last_taken = text.rfind(taken);
            assert!(last_taken.is_some(), "{how}: {what} was never there: {text:?}");
            assert!(text.rfind(given) > last_taken, "{how}: {what} stays: {text:?}");
        }
        // A second time, terminals put the cursor back to where it was before: over what was written since.
        assert_eq!(text.matches("\x1b[?1049l").count(), 1, "{how}: the screen is left once: {text:?}");
    }
}
