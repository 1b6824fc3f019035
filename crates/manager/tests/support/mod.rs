//! What tests of managers share.

#![allow(dead_code, unused_imports, reason = "each test uses a part")]

mod moto;
mod server;

pub use moto::Moto;
pub use server::{Server, Way, arguments_of_children};

/// Says so, where it is.
pub fn curl_is_missing() -> bool {
    let missing = nestor_manager::curl_is_here().is_err();
    if missing {
        eprintln!("NOT RUN: curl is not installed");
    }
    missing
}
