//! The one way of text to a terminal.
//!
//! Names of threads, titles of studies, versions, paths, consoles and the output of programs come from outside, and a
//! terminal obeys what it is shown: a title can move the cursor, rewrite what stands above, name the window, or answer for
//! the user. So whatever is printed passes [`visible`], and nothing else in this repository prints: clippy refuses
//! `println!` and its like.

mod output;
mod paint;

pub use nestor_text::{is_hidden, visible, visible_json};
pub use output::{eprint, has_color, print, try_print};
pub use paint::{Paint, paint};

/// Prints to standard output.
#[macro_export]
macro_rules! out {
    ($($argument:tt)*) => { $crate::print(::core::format_args!($($argument)*)) };
}

/// [`out!`] with a line end.
#[macro_export]
macro_rules! outln {
    () => { $crate::out!("\n") };
    ($format:literal $($argument:tt)*) => { $crate::out!("{}\n", ::core::format_args!($format $($argument)*)) };
}

/// Prints to standard error.
#[macro_export]
macro_rules! err {
    ($($argument:tt)*) => { $crate::eprint(::core::format_args!($($argument)*)) };
}

/// [`err!`] with a line end.
#[macro_export]
macro_rules! errln {
    ($format:literal $($argument:tt)*) => { $crate::err!("{}\n", ::core::format_args!($format $($argument)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_hidden_is_left_in_painted_text(text in any::<String>()) {
            prop_assert!(!paint::visible_with_paint(&text).replace('\x1b', "").contains(is_hidden));
        }
    }
}
