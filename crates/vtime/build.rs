//! Compiles `src/preload` to a shared library, which the crate carries as bytes.
//!
//! Cargo builds everything of the workspace statically, so that the library is compiled by a call of its own.

use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rustc-check-cfg=cfg(preload)");
    let variable = |name: &str| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let library = variable("OUT_DIR").join("vtime.so");
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args([
        "--crate-name",
        "vtime",
        "--crate-type",
        "cdylib",
        "--edition",
        "2024",
        "--cfg",
        "preload",
    ]);
    compiler.args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "strip=symbols", "-C", "lto=fat"]);
    compiler.args(["-C", "codegen-units=1", "-D", "warnings", "--cap-lints", "warn"]);
    compiler.arg("--target").arg(variable("TARGET")).arg("-o").arg(&library).arg("src/preload/mod.rs");
    match compiler.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            println!("cargo::error=the library of virtual time could not be compiled ({status})");
            exit(1);
        }
        Err(error) => {
            println!(
                "cargo::error=the compiler {} does not start: {error}",
                compiler.get_program().display()
            );
            exit(1);
        }
    }
}
