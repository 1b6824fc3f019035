//! The screen of `nestor top` on a pseudo terminal, which is as it was before, whatever ends the program.

mod support;

use std::io;
use std::process::Child;
use std::time::Duration;

use nestor_top::{Key, Layers, Screen, View};
use rustix::process::Signal;
use support::loop_mount::LoopMount;
use support::pseudo_terminal::PseudoTerminal;
use support::tracing_instances::assert_no_instance;
use support::{Sandbox, binary, can_run, signal};

/// Set in a process that is to take the terminal; how it is to end.
const ENDS: &str = "NESTOR_TEST_SCREEN_ENDS";
const BEGUN: &str = "the first interval is not over yet";

/// What the other process does with the screen.
fn take_and_end(how: &str) -> io::Result<()> {
    let mut screen = Screen::take()?;
    let mut view = View::new(Layers::new(), Vec::new());
    screen.draw(&view)?;
    loop {
        let Some(key) = screen.key(Duration::from_millis(50))? else { continue };
        match how {
            "panic" => panic!("the sky falls"),
            "error" => return Err(io::Error::other("the disk is gone")),
            _ if key == Key::Quit => return Ok(()),
            _ => {
                view.press(key);
                screen.draw(&view)?;
            }
        }
    }
}

/// This test again in another process, on a terminal.
fn on(terminal: &PseudoTerminal, how: &str) -> Child {
    let own = std::env::current_exe().unwrap();
    let name = "a_terminal_is_given_back_after_a_key_an_error_and_a_panic";
    terminal.start(own.as_os_str(), &["--exact", name, "--nocapture"], &[(ENDS, how.to_owned())])
}

#[test]
fn a_terminal_is_given_back_after_a_key_an_error_and_a_panic() {
    if let Ok(how) = std::env::var(ENDS) {
        take_and_end(&how).unwrap();
        return;
    }
    for (how, key, succeeds, says) in [
        ("key", "q", true, ""),
        ("key", "\x1b", true, ""),
        ("key", "\x03", true, ""),
        ("error", " ", false, "the disk is gone"),
        ("panic", " ", false, "the sky falls"),
    ] {
        let mut terminal = PseudoTerminal::new();
        let mut child = on(&terminal, how);
        terminal.wait_for(&mut child, &[BEGUN]);
        assert!(terminal.is_raw(), "{how}");
        terminal.press(key);
        let ended = terminal.end(&mut child);
        let how = format!("{how} {key:?}");
        assert_eq!(ended, succeeds, "{how}: {}", terminal.text());
        terminal.assert_given_back(&how);
        let text = terminal.text();
        let after = text.rsplit_once("\x1b[?1049l").map_or("", |(_, after)| after);
        assert!(after.contains(says), "{how}: the message is on the screen that stays: {text:?}");
    }
}

#[test]
fn keys_do_on_a_terminal_what_the_help_says() {
    let mut terminal = PseudoTerminal::new();
    let mut child = on(&terminal, "key");
    terminal.wait_for(&mut child, &[BEGUN]);
    terminal.press("?");
    terminal.wait_for(&mut child, &["counting goes on"]);
    terminal.press("q");
    assert!(terminal.end(&mut child), "{}", terminal.text());
}

/// `nestor top` of a loop device on a terminal, after it has drawn an interval.
fn watching(sandbox: &Sandbox, terminal: &mut PseudoTerminal, device: &str) -> Child {
    let arguments = ["top", "--device", device, "--interval", "0.1s"];
    let work = [("NESTOR_WORK", sandbox.text(""))];
    let mut child = terminal.start(binary().as_os_str(), &arguments, &work);
    terminal.wait_for(&mut child, &["reads/s", "nestor top  last 0.1 s"]);
    child
}

#[test]
fn top_gives_the_terminal_back_after_keys_and_signals_and_ends_with_it() {
    if !can_run(true, false) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = LoopMount::new(&sandbox, "ext4");
    for key in ["q", "\x03"] {
        let mut terminal = PseudoTerminal::new();
        let mut child = watching(&sandbox, &mut terminal, &mounted.device);
        assert!(terminal.is_raw());
        terminal.press(key);
        assert!(terminal.end(&mut child), "{key:?}: {}", terminal.text());
        terminal.assert_given_back(&format!("{key:?}"));
    }
    for sent in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = PseudoTerminal::new();
        let mut child = watching(&sandbox, &mut terminal, &mounted.device);
        signal(child.id(), sent);
        assert!(terminal.end(&mut child), "{sent:?}: {}", terminal.text());
        terminal.assert_given_back(&format!("{sent:?}"));
        assert_no_instance(&sandbox, child.id());
    }
    let mut terminal = PseudoTerminal::new();
    let mut child = watching(&sandbox, &mut terminal, &mounted.device);
    terminal.hang_up(&mut child);
    assert_no_instance(&sandbox, child.id());
}
