//! The program on another machine: copied there over ssh, whole or not at all, and looked at each time before it is run.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use nestor_text::shell_quoted as quoted;
use sha2::{Digest, Sha256};

use crate::agent::process::OWN_BINARY;
use crate::error::MachineError;

/// Where copies are, from the home directory on.
const DIRECTORY: &str = ".cache/nestor/bin";

/// Exit code of [`looking`]: the copy does not exist, or is another one.
const ABSENT: i32 = 3;

/// Exit code of both scripts: the directory of copies is not the user's alone.
const NOT_OURS: i32 = 4;

/// Exit code of [`copying`]: what arrived is not what was sent.
const CUT: i32 = 5;

/// ssh's own exit code when it does not reach the machine.
const UNREACHABLE: i32 = 255;

/// A call of ssh that asks nothing, lends nothing of this machine to the other, and opens no ports.
pub fn ssh(host: &str) -> Command {
    let mut command = Command::new("ssh");
    for option in [
        "BatchMode=yes",
        "ServerAliveInterval=15",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
    ] {
        command.args(["-o", option]);
    }
    command.args(["--", host]);
    command
}

/// What to have the other machine's shell run, whichever it is.
fn in_sh(script: &str) -> String {
    format!("exec sh -c {}", quoted(script))
}

/// This program, as it is to be on the other machine.
struct Program {
    bytes: Vec<u8>,
    sha256: String,
}

impl Program {
    fn own() -> std::io::Result<Self> {
        let bytes = std::fs::read(OWN_BINARY)?;
        let sha256 = hex::encode(Sha256::digest(&bytes));
        Ok(Self { bytes, sha256 })
    }

    /// From the home directory on.
    fn path(&self) -> String {
        format!("{DIRECTORY}/nestor-{}", &self.sha256[..16])
    }
}

/// Copies this program to the host unless it is there already, unchanged; what to have a shell there run for the program to
/// run with these arguments.
///
/// # Errors
/// The host cannot be reached; others may write to the directory of copies there; the copy did not arrive whole.
pub fn install(host: &str, arguments: &str) -> Result<String, MachineError> {
    let program = Program::own().map_err(|e| {
        MachineError::Ground(format!("the program could not read itself to copy it to {host}: {e}"))
    })?;
    let path = program.path();
    let not_ours = |output: &Output| {
        let said = last_line(&output.stderr);
        MachineError::Ground(format!(
            "{host} was not used: {said}; on that machine, look at what is in it, then remove it or run `chmod go-w` on it"
        ))
    };
    let looked = ssh(host)
        .arg(in_sh(&looking(&program)))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| unreachable(host, &format!("ssh does not run: {e}")))?;
    match looked.status.code() {
        Some(0) => return Ok(in_sh(&running(&program, arguments))),
        Some(NOT_OURS) => return Err(not_ours(&looked)),
        Some(UNREACHABLE) => {
            return Err(unreachable(host, String::from_utf8_lossy(&looked.stderr).trim_end()));
        }
        _ => {}
    }
    let mut copy = ssh(host)
        .arg(in_sh(&copying(&program)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| unreachable(host, &format!("ssh does not run: {e}")))?;
    // The other side, or ssh, reports a copy that breaks.
    let _ = copy.stdin.take().map(|mut pipe| pipe.write_all(&program.bytes));
    let copied = copy.wait_with_output().map_err(|e| unreachable(host, &e.to_string()))?;
    match copied.status.code() {
        Some(0) => Ok(in_sh(&running(&program, arguments))),
        Some(NOT_OURS) => Err(not_ours(&copied)),
        _ => Err(MachineError::Ground(format!(
            "the program could not be copied to {host}:{path} ({}): {}\n  nothing was kept there; try again",
            copied.status,
            last_line(&copied.stderr)
        ))),
    }
}

fn unreachable(host: &str, detail: &str) -> MachineError {
    MachineError::Ground(format!(
        "{host} could not be reached by ssh: {detail}\n  `ssh {host} true` must work without a password"
    ))
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing").trim().to_owned()
}

/// The beginning of all scripts. `mine` succeeds for what is not a link and may be written to only by this user and root. An
/// access control list shows in the group's bit too.
fn functions() -> String {
    format!(
        r#"d={directory}; mine() {{ test -n "$(find "$1" -prune -type "$2" \( -user "$(id -u)" -o -user 0 \) ! -perm -020 ! -perm -002)"; }}; own() {{ for e in . .cache .cache/nestor "$d"; do test ! -e "$e" && test ! -h "$e" || mine "$e" d || {{ echo "others may write to $e, or it is a link or not yours" >&2; exit {NOT_OURS}; }}; done; }}; sum() {{ s=$(sha256sum <"$1") && echo "${{s%% *}}"; }}"#,
        directory = quoted(DIRECTORY),
    )
}

/// A condition: the program is there, this user's, and what it should be. Ends the shell if a directory is not.
fn checked(program: &Program) -> String {
    let (path, sha256) = (quoted(&program.path()), &program.sha256);
    format!(
        r#"{}; own; mine {path} f 2>/dev/null && test -x {path} && test "$(sum {path})" = {sha256}"#,
        functions()
    )
}

/// Succeeds if the program is there.
fn looking(program: &Program) -> String {
    format!("{} || exit {ABSENT}", checked(program))
}

/// Runs the program, looked at once more by the shell that becomes it.
fn running(program: &Program, arguments: &str) -> String {
    format!(
        r#"{} || {{ echo "the program was changed since it was copied there" >&2; exit {ABSENT}; }}; exec {} {arguments}"#,
        checked(program),
        quoted(&format!("./{}", program.path()))
    )
}

/// Reads the program from standard input into a file with a new name, and moves it into place only if it is
/// complete. A connection that breaks looks like the end of the input.
fn copying(program: &Program) -> String {
    let (path, sha256, bytes) = (quoted(&program.path()), &program.sha256, program.bytes.len());
    format!(
        r#"{}; umask 077; own; mkdir -p "$d" || exit 1; own; t=$(mktemp "$d/coming.XXXXXXXXXX") || exit 1; trap 'rm -f "$t"' EXIT; trap 'exit 1' HUP INT TERM; cat >"$t" || exit 1; n=$(wc -c <"$t"); test "$n" -eq {bytes} || {{ echo "$n of {bytes} bytes arrived" >&2; exit {CUT}; }}; test "$(sum "$t")" = {sha256} || {{ echo "what arrived has another SHA-256" >&2; exit {CUT}; }}; chmod 700 "$t" && mv -fT "$t" {path}"#,
        functions()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn program() -> Program {
        let bytes = b"#!/bin/sh\necho it runs\n".to_vec();
        let sha256 = hex::encode(Sha256::digest(&bytes));
        Program { bytes, sha256 }
    }

    /// Runs a script in a home directory as sshd would: by the user's shell, from the home on.
    fn there(home: &Path, script: &str, input: &[u8]) -> (Option<i32>, String) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &in_sh(script)]).current_dir(home).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        // It may end before it has read everything.
        let _ = shell.stdin.take().unwrap().write_all(input);
        let output = shell.wait_with_output().unwrap();
        (output.status.code(), last_line(&output.stderr))
    }

    fn copies(home: &Path) -> Vec<String> {
        let entries = fs::read_dir(home.join(DIRECTORY)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    fn installed(home: &Path) -> std::path::PathBuf {
        let program = program();
        assert_eq!(there(home, &copying(&program), &program.bytes).0, Some(0));
        home.join(program.path())
    }

    #[test]
    fn a_program_that_arrived_whole_is_found_afterwards() {
        let home = tempfile::tempdir().unwrap();
        let program = program();
        assert_eq!(there(home.path(), &looking(&program), b"").0, Some(ABSENT));
        let path = installed(home.path());
        assert_eq!(fs::read(&path).unwrap(), program.bytes);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(there(home.path(), &looking(&program), b"").0, Some(0));
        assert_eq!(copies(home.path()).len(), 1);
    }

    #[test]
    fn a_copy_that_was_cut_or_changed_on_its_way_is_not_kept() {
        let home = tempfile::tempdir().unwrap();
        let program = program();
        for cut in [0, 1, program.bytes.len() - 1] {
            let (code, said) = there(home.path(), &copying(&program), &program.bytes[..cut]);
            assert_eq!((code, said), (Some(CUT), format!("{cut} of {} bytes arrived", program.bytes.len())));
        }
        let other = vec![b'x'; program.bytes.len()];
        let (code, said) = there(home.path(), &copying(&program), &other);
        assert_eq!((code, said.as_str()), (Some(CUT), "what arrived has another SHA-256"));
        assert_eq!(copies(home.path()), Vec::<String>::new());
    }

    #[test]
    fn a_copy_that_was_changed_there_is_replaced() {
        let program = program();
        let spoil: [fn(&Path); 4] = [
            |path| fs::write(path, "half").unwrap(),
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o722)).unwrap(),
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap(),
            |path| {
                let elsewhere = path.with_file_name("elsewhere");
                fs::rename(path, &elsewhere).unwrap();
                std::os::unix::fs::symlink(elsewhere, path).unwrap();
            },
        ];
        for spoil in spoil {
            let home = tempfile::tempdir().unwrap();
            let path = installed(home.path());
            spoil(&path);
            assert_eq!(there(home.path(), &looking(&program), b"").0, Some(ABSENT));
            let path = installed(home.path());
            assert!(!path.is_symlink());
            assert_eq!(fs::read(path).unwrap(), program.bytes);
            assert_eq!(there(home.path(), &looking(&program), b"").0, Some(0));
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_neither_believed_nor_written_to() {
        let program = program();
        for place in [".", ".cache", ".cache/nestor", DIRECTORY] {
            let home = tempfile::tempdir().unwrap();
            let path = installed(home.path());
            fs::set_permissions(home.path().join(place), fs::Permissions::from_mode(0o777)).unwrap();
            fs::remove_file(path).unwrap();
            for script in [looking(&program), copying(&program)] {
                let (code, said) = there(home.path(), &script, &program.bytes);
                assert_eq!(code, Some(NOT_OURS));
                assert!(said.contains(&format!("others may write to {place}")), "{said}");
            }
            assert_eq!(copies(home.path()), Vec::<String>::new());
        }
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("elsewhere")).unwrap();
        fs::create_dir(home.path().join(".cache")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", home.path().join(".cache/nestor")).unwrap();
        assert_eq!(there(home.path(), &copying(&program), &program.bytes).0, Some(NOT_OURS));
        assert_eq!(fs::read_dir(home.path().join("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn another_machine_gets_nothing_of_this_ones() {
        let command = ssh("host");
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        for option in ["ForwardAgent=no", "BatchMode=yes"] {
            assert!(arguments.windows(2).any(|two| two == ["-o", option]), "{arguments:?}");
        }
        assert_eq!(arguments[arguments.len() - 2..], ["--", "host"]);
    }

    #[test]
    fn a_script_has_no_line_breaks_and_survives_its_quoting() {
        // A C shell takes no line break in a quoted word.
        let program = program();
        assert!(
            [looking(&program), copying(&program), running(&program, "agent")]
                .iter()
                .all(|s| !s.contains('\n'))
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn a_directory_in_whose_list_another_user_may_write_is_not_used() {
        let program = program();
        for place in [".", ".cache", DIRECTORY] {
            let home = tempfile::tempdir().unwrap();
            installed(home.path());
            if !nestor_ownership::lists::let_user_write(&home.path().join(place)) {
                return;
            }
            for script in [looking(&program), copying(&program)] {
                assert_eq!(there(home.path(), &script, &program.bytes).0, Some(NOT_OURS), "{place}");
            }
        }
    }

    #[test]
    fn the_shell_that_becomes_the_program_has_looked_at_it_itself() {
        let program = program();
        let home = tempfile::tempdir().unwrap();
        let path = installed(home.path());
        let run = || there(home.path(), &running(&program, "agent 1>&2"), b"");
        assert_eq!(run(), (Some(0), "it runs".to_owned()));
        fs::set_permissions(home.path().join(".cache"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(run().0, Some(NOT_OURS));
        fs::set_permissions(home.path().join(".cache"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&path, "#!/bin/sh\necho another >&2\n").unwrap();
        let (code, said) = run();
        assert_eq!(code, Some(ABSENT));
        assert!(said.contains("was changed since"), "{said}");
    }
}
